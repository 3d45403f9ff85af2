/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Files that claim to be GPU core dumps: cut off, damaged, and of other kinds.
 * tests/e2e/test_dossier.py has whole ones. */
#include <elf.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "daemon/gpu_core.h"
#include "text/json.h"
#include "util/out.h"

#define DEV   0x80000009
#define GRID  0x8000000c
#define CTA   0x8000000d
#define WARP  0x8000000e
#define LANE  0x8000000f
#define CODE  0x80000007
#define ENTRY 0x7000

/* A device, a grid of one warp with 32 threads at ENTRY + 16, and the symbol of its kernel. */
struct file {
	Elf64_Ehdr head;
	Elf64_Shdr sections[8];
	char names[8];
	uint64_t device[11], grid[13], cta[3], warp[4], lanes[32][6];
	struct image {
		Elf64_Ehdr head;
		Elf64_Shdr sections[4];
		Elf64_Sym symbols[2];
		char names[16];
	} image;
};

#define AT(f, member) ((uint64_t)((char *)&(f)->member - (char *)(f)))

static Elf64_Ehdr head(uint16_t type, uint64_t at, unsigned cnt)
{
	return (Elf64_Ehdr){
		.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT, 0x33, 7},
		.e_type = type,
		.e_machine = 190,
		.e_version = EV_CURRENT,
		.e_shoff = at,
		.e_ehsize = sizeof(Elf64_Ehdr),
		.e_shentsize = sizeof(Elf64_Shdr),
		.e_shnum = cnt,
		.e_shstrndx = 1,
	};
}

#define SECTION(f, type, member, size, link, info)                                                 \
	((Elf64_Shdr){0, type, 0, 0, AT(f, member), sizeof((f)->member), link, info, 8, size})

static struct file whole(void)
{
	static struct file f;
	struct image *m = &f.image;

	memset(&f, 0, sizeof(f));
	f.head = head(ET_CORE, AT(&f, sections), 8);
	f.sections[1] = SECTION(&f, SHT_STRTAB, names, 0, 0, 0);
	f.sections[2] = SECTION(&f, DEV, device, 88, 0, 0);
	f.sections[3] = SECTION(&f, GRID, grid, 104, 2, 0);
	f.sections[4] = SECTION(&f, CTA, cta, 24, 2, 0);
	f.sections[5] = SECTION(&f, WARP, warp, 32, 4, 0);
	f.sections[6] = SECTION(&f, LANE, lanes, 48, 5, 0);
	f.sections[7] = SECTION(&f, CODE, image, 0, 2, 0);
	f.grid[0] = f.cta[0] = 7;
	f.grid[3] = ENTRY;
	for (int i = 0; i < 32; i++)
		f.lanes[i][0] = ENTRY + 16;
	m->head = head(ET_EXEC, AT(m, sections), 4);
	m->sections[1] = SECTION(m, SHT_STRTAB, names, 0, 0, 0);
	m->sections[2] = SECTION(m, SHT_SYMTAB, symbols, sizeof(Elf64_Sym), 1, 0);
	m->sections[3] = (Elf64_Shdr){
		.sh_type = SHT_NOBITS, .sh_flags = SHF_EXECINSTR, .sh_addr = ENTRY, .sh_size = 256};
	m->symbols[1] = (Elf64_Sym){.st_name = 1, .st_info = STT_FUNC, .st_shndx = 3};
	memcpy(m->names, "\0_Z4spinPi", 11);
	return f;
}

/* Returns 0 or an error, and the members. */
static int read_bytes(const void *bytes, size_t size, struct out *o, const char **why)
{
	int fd = memfd_create("core", MFD_CLOEXEC), ret;
	char text[200];
	struct json j;

	assert_true(fd >= 0 && write(fd, bytes, size) == (ssize_t)size);
	o->len = 0;
	json__init(&j, o);
	json_open(&j, NULL);
	ret = gpu_core_read(fd, &j, text, sizeof(text), why);
	json_close(&j);
	out_char(o, '\0');
	close(fd);
	assert_true(!ret == !*why);
	return ret;
}

static void test_whole(void **state)
{
	struct out *o = out__memory();
	struct file f = whole();
	const char *why;

	assert_int_equal(read_bytes(&f, sizeof(f), o, &why), 0);
	assert_string_equal(
		o->buf,
		"{\"devices\":1,\"warps\":1,\"grids\":[{\"id\":7,\"kernel\":\"spin(int*)\",\"grid\":[0,0,0],\"block\":[0,0,0],"
		"\"warps\":1,\"threads\":32,\"pcs\":[{\"pc\":\"0x7010\",\"function\":\"_Z4spinPi\",\"offset\":\"0x10\",\"warps\":1,"
		"\"threads\":32}],\"pc_count\":1}],\"grid_count\":1}");
	out__close(o);
}

/* Rows of which the file has only a part are not read; each length must be safe. */
static void test_cut(void **state)
{
	struct out *o = out__memory();
	struct file f = whole();
	const char *why;

	for (size_t size = 0; size < sizeof(f); size += 7)
		read_bytes(&f, size, o, &why);
	assert_int_equal(read_bytes("not ELF", 7, o, &why), -22);
	assert_string_equal(why, "it is not a 64-bit ELF file");
	f.head.e_machine = EM_X86_64;
	assert_int_equal(read_bytes(&f, sizeof(f), o, &why), -22);
	assert_string_equal(why, "it is not a GPU core dump");
	out__close(o);
}

/* Each word of the headers with values at the limits. */
static void test_damaged(void **state)
{
	static const uint32_t values[] = {0, 1, 5, 6, 7, 0x7fffffff, UINT32_MAX};
	struct out *o = out__memory();
	const char *why;

	for (size_t at = sizeof(Elf64_Ehdr); at < offsetof(struct file, device); at += 4) {
		for (unsigned i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
			struct file f = whole();

			memcpy((char *)&f + at, &values[i], sizeof(values[i]));
			read_bytes(&f, sizeof(f), o, &why);
		}
	}
	for (size_t at = offsetof(struct file, image); at < sizeof(struct file); at += 4) {
		for (unsigned i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
			struct file f = whole();

			memcpy((char *)&f + at, &values[i], sizeof(values[i]));
			read_bytes(&f, sizeof(f), o, &why);
		}
	}
	out__close(o);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_whole),
		cmocka_unit_test(test_cut),
		cmocka_unit_test(test_damaged),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
