/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Functions of ELF files by address: the contents of a small file, and harmless damage to it. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "util/symbols.h"
#include "random.h"

/* Laid out by hand: offset TEXT_AT of the file is address TEXT_AT + GAP. */
#define GAP	0x400000
#define NOTE_AT 0x100
#define SYM_AT	0x200
#define STR_AT	0x400
#define SH_AT	0x500
#define TEXT_AT 0x800
#define SIZE	0x1000

struct image {
	uint8_t bytes[SIZE];
};

static unsigned sym_cnt;

static void put_sym(struct image *img, const char *name, unsigned off, unsigned size, unsigned bind)
{
	Elf64_Sym *sym = (Elf64_Sym *)(img->bytes + SYM_AT) + sym_cnt;
	char *names = (char *)img->bytes + STR_AT, *at = names + 1;

	while (*at)
		at += strlen(at) + 1;
	strcpy(at, name);
	*sym = (Elf64_Sym){
		.st_name = at - names,
		.st_info = ELF64_ST_INFO(bind, STT_FUNC),
		.st_shndx = 1,
		.st_value = TEXT_AT + off + GAP,
		.st_size = size,
	};
	sym_cnt++;
}

static void put_headers(struct image *img, uint32_t table)
{
	Elf64_Ehdr *eh = (Elf64_Ehdr *)img->bytes;
	Elf64_Phdr *ph = (Elf64_Phdr *)(eh + 1);
	Elf64_Shdr *sh = (Elf64_Shdr *)(img->bytes + SH_AT);

	memcpy(eh->e_ident, ELFMAG, SELFMAG);
	eh->e_ident[EI_CLASS] = ELFCLASS64;
	eh->e_ident[EI_DATA] = ELFDATA2LSB;
	eh->e_ident[EI_VERSION] = EV_CURRENT;
	eh->e_type = ET_EXEC;
	eh->e_machine = EM_X86_64;
	eh->e_version = EV_CURRENT;
	eh->e_ehsize = sizeof(*eh);
	eh->e_phoff = sizeof(*eh);
	eh->e_phentsize = sizeof(*ph);
	eh->e_phnum = 2;
	eh->e_shoff = SH_AT;
	eh->e_shentsize = sizeof(*sh);
	eh->e_shnum = 3;
	ph[0] = (Elf64_Phdr){.p_type = PT_LOAD,
			     .p_flags = PF_X,
			     .p_offset = TEXT_AT,
			     .p_vaddr = TEXT_AT + GAP,
			     .p_filesz = SIZE - TEXT_AT,
			     .p_memsz = SIZE - TEXT_AT,
			     .p_align = 1};
	ph[1] = (Elf64_Phdr){.p_type = PT_NOTE,
			     .p_offset = NOTE_AT,
			     .p_filesz = 36,
			     .p_memsz = 36,
			     .p_align = 4};
	sh[1] = (Elf64_Shdr){.sh_type = table,
			     .sh_offset = SYM_AT,
			     .sh_size = sym_cnt * sizeof(Elf64_Sym),
			     .sh_link = 2,
			     .sh_entsize = sizeof(Elf64_Sym),
			     .sh_addralign = 8};
	sh[2] = (Elf64_Shdr){
		.sh_type = SHT_STRTAB, .sh_offset = STR_AT, .sh_size = 0x100, .sh_addralign = 1};
}

static void make_image(struct image *img, uint32_t table)
{
	static const uint8_t note[] = {4, 0, 0, 0,   20,  0,   0, 0, NT_GNU_BUILD_ID,
				       0, 0, 0, 'G', 'N', 'U', 0};

	memset(img, 0, sizeof(*img));
	memcpy(img->bytes + NOTE_AT, note, sizeof(note));
	memset(img->bytes + NOTE_AT + sizeof(note), 0xab, 20);
	sym_cnt = 1;
	put_sym(img, "late", 0x300, 0x20, STB_LOCAL);
	put_sym(img, "early", 0x100, 0x40, STB_GLOBAL);
	put_sym(img, "early_alias", 0x100, 0x40, STB_WEAK);
	put_sym(img, "no_size", 0x200, 0, STB_LOCAL);
	put_headers(img, table);
}

static struct symbols *read_bytes(const void *bytes, size_t size)
{
	int fd = memfd_create("image", MFD_CLOEXEC);
	struct symbols *s;

	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes, size), size);
	s = symbols__read(fd);
	assert_non_null(s);
	return s;
}

static void expect(const struct symbols *s, unsigned off, const char *want, unsigned begins)
{
	uint64_t addr, start;
	char name[64];

	assert_true(symbols__address(s, TEXT_AT + off, &addr));
	assert_int_equal(addr, TEXT_AT + off + GAP);
	if (!want) {
		assert_false(symbols__find(s, addr, name, sizeof(name), &start));
		return;
	}
	assert_true(symbols__find(s, addr, name, sizeof(name), &start));
	assert_string_equal(name, want);
	assert_int_equal(start, TEXT_AT + begins + GAP);
}

static void check_image(uint32_t table)
{
	struct symbols *s;
	struct image img;
	uint64_t addr;

	make_image(&img, table);
	s = read_bytes(img.bytes, sizeof(img.bytes));
	assert_string_equal(symbols__build_id(s), "abababababababababababababababababababab");
	expect(s, 0xff, NULL, 0);
	expect(s, 0x100, "early", 0x100);
	expect(s, 0x13f, "early", 0x100);
	/* After its end, before the next. */
	expect(s, 0x140, NULL, 0);
	expect(s, 0x2ff, "no_size", 0x200);
	expect(s, 0x31f, "late", 0x300);
	expect(s, 0x320, NULL, 0);
	assert_false(symbols__address(s, TEXT_AT - 1, &addr));
	assert_false(symbols__address(s, SIZE, &addr));
	symbols__free(s);
}

static void finds_functions(void **state)
{
	check_image(SHT_SYMTAB);
	check_image(SHT_DYNSYM);
}

static void cuts_names(void **state)
{
	struct symbols *s;
	struct image img;
	uint64_t start;
	char name[4];

	make_image(&img, SHT_SYMTAB);
	s = read_bytes(img.bytes, sizeof(img.bytes));
	assert_true(symbols__find(s, TEXT_AT + 0x100 + GAP, name, sizeof(name), &start));
	assert_string_equal(name, "ear");
	symbols__free(s);
}

/* Looks up whatever was found. */
static void ask(const struct symbols *s)
{
	assert_true(strlen(symbols__build_id(s)) <= 64);
	for (uint64_t off = 0; off < SIZE; off += 0x35) {
		uint64_t addr = off + GAP, start;
		char name[64];

		symbols__address(s, off, &addr);
		if (symbols__find(s, addr, name, sizeof(name), &start))
			assert_true(strnlen(name, sizeof(name)) < sizeof(name) && start <= addr);
		symbols__find(s, off << 52, name, sizeof(name), &start);
	}
}

static void survives_every_truncation(void **state)
{
	struct image img;

	make_image(&img, SHT_SYMTAB);
	for (size_t size = 0; size < TEXT_AT; size += 3) {
		struct symbols *s = read_bytes(img.bytes, size);

		ask(s);
		symbols__free(s);
	}
}

/* The file is cut after it was read. */
static void survives_a_late_truncation(void **state)
{
	int fd = memfd_create("image", MFD_CLOEXEC);
	struct symbols *s;
	struct image img;
	uint64_t start;
	char name[64];

	make_image(&img, SHT_SYMTAB);
	assert_int_equal(write(fd, img.bytes, sizeof(img.bytes)), sizeof(img.bytes));
	s = symbols__read(dup(fd));
	assert_int_equal(ftruncate(fd, STR_AT), 0);
	assert_false(symbols__find(s, TEXT_AT + 0x100 + GAP, name, sizeof(name), &start));
	symbols__free(s);
	close(fd);
}

static void survives_random_damage(void **state)
{
	static const uint64_t nasty[] = {0,	     1,		 0x7f,	     0xff,	 0xffff,
					 0x7fffffff, 0xffffffff, 1ull << 40, 1ull << 63, ~0ull};
	struct image img;

	for (int round = 0; round < 5000; round++) {
		struct symbols *s;

		make_image(&img, round & 1 ? SHT_SYMTAB : SHT_DYNSYM);
		for (int i = 0; i < 1 + round % 4; i++) {
			unsigned len = 1u << rnd() % 4, at = rnd() % (TEXT_AT - 8);
			uint64_t value = rnd() & 1 ? rnd() : nasty[rnd() % 10];

			memcpy(img.bytes + at, &value, len);
		}
		s = read_bytes(img.bytes, sizeof(img.bytes));
		ask(s);
		symbols__free(s);
	}
}

static long most_kb(void)
{
	struct rusage used;

	assert_int_equal(getrusage(RUSAGE_SELF, &used), 0);
	return used.ru_maxrss;
}

/* Headers in a hole of the file: free for the file's owner, but they take memory when read. */
static void refuses_millions_of_headers(void **state)
{
	for (int segments = 0; segments < 2; segments++) {
		int fd = memfd_create("image", MFD_CLOEXEC);
		long before = most_kb();
		struct symbols *s;
		struct image img;
		Elf64_Ehdr *eh = (Elf64_Ehdr *)img.bytes;
		Elf64_Shdr first = {0};

		make_image(&img, SHT_SYMTAB);
		eh->e_shoff = SIZE;
		eh->e_shnum = segments;
		first.sh_size = 2000000;
		if (segments) {
			eh->e_phoff = SIZE + sizeof(first);
			eh->e_phnum = PN_XNUM;
			first.sh_info = 2000000;
			first.sh_size = 0;
		}
		assert_int_equal(write(fd, img.bytes, SIZE), SIZE);
		assert_int_equal(write(fd, &first, sizeof(first)), sizeof(first));
		assert_int_equal(ftruncate(fd, 200000000), 0);
		s = symbols__read(fd);
		ask(s);
		symbols__free(s);
		assert_in_range(most_kb() - before, 0, 50000);
	}
}

static void says_nothing_of_other_files(void **state)
{
	static const char text[] = "#!/bin/sh\n";
	struct symbols *s = read_bytes(text, sizeof(text));

	ask(s);
	assert_string_equal(symbols__build_id(s), "");
	symbols__free(s);
	s = symbols__read(open("/dev/null", O_RDONLY | O_CLOEXEC));
	ask(s);
	symbols__free(s);
}

static void reads_this_program(void **state)
{
	struct symbols *s = symbols__read(open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
	const Elf64_Ehdr *own;
	uint64_t start;
	char name[64];
	extern const char __executable_start;

	own = (const Elf64_Ehdr *)&__executable_start;
	assert_non_null(s);
	assert_true(symbols__find(s, (uintptr_t)reads_this_program - (uintptr_t)own + 1, name,
				  sizeof(name), &start));
	assert_string_equal(name, "reads_this_program");
	symbols__free(s);
	s = symbols__read_nameless(open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
	assert_non_null(s);
	assert_false(symbols__find(s, (uintptr_t)reads_this_program - (uintptr_t)own + 1, name,
				   sizeof(name), &start));
	assert_true(symbols__address(s, 0, &start));
	symbols__free(s);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(finds_functions),
		cmocka_unit_test(cuts_names),
		cmocka_unit_test(survives_every_truncation),
		cmocka_unit_test(survives_a_late_truncation),
		cmocka_unit_test(survives_random_damage),
		cmocka_unit_test(refuses_millions_of_headers),
		cmocka_unit_test(says_nothing_of_other_files),
		cmocka_unit_test(reads_this_program),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
