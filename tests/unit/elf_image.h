/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Small libcuda files, laid out by hand, for tests of reading them. */
#ifndef TESTS_ELF_IMAGE_H
#define TESTS_ELF_IMAGE_H

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <elf.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "attach/find/elf.h"

#define UNUSED __attribute__((unused))

#ifdef __aarch64__
#define MACHINE EM_AARCH64
#else
#define MACHINE EM_X86_64
#endif

/* First bytes of functions. */
#define CODE_580    "\x55\x48\x89\xe5\x41\x57\x41\x56\x41\x55\x41\x54\x53\x48\x81\xec"
#define CODE_550    "\x81\x3d\x12\x34\x56\x78\x00\xba\x1c\x32\x74\x0a\xc3\x90\x90\x90"
#define CODE_STUB   "\x55\x48\x89\xe5\xb8\x22\x00\x00\x00\x5d\xc3\x90\x90\x90\x90\x90"
#define CODE_ZERO   "\x31\xc0\xc3\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90"
#define CODE_RET_34 "\xf3\x0f\x1e\xfa\xb8\x22\x00\x00\x00\xc3\x90\x90\x90\x90\x90\x90"
#define FUNC_SZ	    16

/* A small library, laid out by hand: file offset TEXT_AT is address TEXT_AT + GAP. */
#define GAP	0x1000
#define SYM_AT	0x300
#define STR_AT	0x600
#define HASH_AT 0x800
#define NOTE_AT 0x8c0
#define DYN_AT	0x900
#define TEXT_AT 0xa00

struct func {
	const char *name;
	const char *code;
	unsigned at; /* number of its location, which several symbols may share */
	unsigned char type, bind;
	uint16_t shndx;
};

struct image {
	unsigned char bytes[4096];
	size_t size;
	unsigned sym_cnt;
	bool gnu_hash;
};

UNUSED static Elf64_Ehdr *ehdr(struct image *img)
{
	return (Elf64_Ehdr *)img->bytes;
}

UNUSED static Elf64_Phdr *phdr(struct image *img, unsigned i)
{
	return (Elf64_Phdr *)(img->bytes + sizeof(Elf64_Ehdr)) + i;
}

UNUSED static Elf64_Sym *sym(struct image *img, unsigned i)
{
	return (Elf64_Sym *)(img->bytes + SYM_AT) + i;
}

UNUSED static Elf64_Dyn *dyn(struct image *img, unsigned i)
{
	return (Elf64_Dyn *)(img->bytes + DYN_AT) + i;
}

enum { PH_DATA, PH_TEXT, PH_DYNAMIC, PH_NOTE, PH_CNT };
enum { DYN_STR, DYN_STR_SZ, DYN_SYM, DYN_HASH, DYN_SONAME, DYN_END, DYN_CNT };

UNUSED static void put_headers(struct image *img)
{
	Elf64_Ehdr *eh = ehdr(img);

	memcpy(eh->e_ident, ELFMAG, SELFMAG);
	eh->e_ident[EI_CLASS] = ELFCLASS64;
	eh->e_ident[EI_DATA] = ELFDATA2LSB;
	eh->e_ident[EI_VERSION] = EV_CURRENT;
	eh->e_type = ET_DYN;
	eh->e_machine = MACHINE;
	eh->e_phoff = sizeof(*eh);
	eh->e_phentsize = sizeof(Elf64_Phdr);
	eh->e_phnum = PH_CNT;
	*phdr(img, PH_DATA) = (Elf64_Phdr){
		.p_type = PT_LOAD, .p_flags = PF_R, .p_filesz = TEXT_AT, .p_memsz = TEXT_AT};
	*phdr(img, PH_TEXT) = (Elf64_Phdr){.p_type = PT_LOAD,
					   .p_flags = PF_R | PF_X,
					   .p_offset = TEXT_AT,
					   .p_vaddr = TEXT_AT + GAP,
					   .p_filesz = img->size - TEXT_AT,
					   .p_memsz = img->size - TEXT_AT};
	*phdr(img, PH_DYNAMIC) = (Elf64_Phdr){.p_type = PT_DYNAMIC,
					      .p_offset = DYN_AT,
					      .p_vaddr = DYN_AT,
					      .p_filesz = DYN_CNT * sizeof(Elf64_Dyn),
					      .p_memsz = DYN_CNT * sizeof(Elf64_Dyn)};
	*phdr(img, PH_NOTE) = (Elf64_Phdr){.p_type = PT_NOTE,
					   .p_offset = NOTE_AT,
					   .p_vaddr = NOTE_AT,
					   .p_filesz = 16 + 20,
					   .p_memsz = 16 + 20,
					   .p_align = 4};
}

UNUSED static void put_hash(struct image *img)
{
	uint32_t *h = (uint32_t *)(img->bytes + HASH_AT);
	unsigned i;

	if (!img->gnu_hash) {
		h[0] = 1;
		h[1] = img->sym_cnt;
		return;
	}
	/* One bucket, symbols from 1, a Bloom filter of one word; the chain ends at the last
	 * symbol. */
	h[0] = 1;
	h[1] = 1;
	h[2] = 1;
	h[6] = img->sym_cnt > 1;
	for (i = 1; i < img->sym_cnt; i++)
		h[7 + i - 1] = i + 1 == img->sym_cnt;
}

UNUSED static void put_note(struct image *img)
{
	Elf64_Nhdr *n = (Elf64_Nhdr *)(img->bytes + NOTE_AT);
	unsigned i;

	*n = (Elf64_Nhdr){.n_namesz = 4, .n_descsz = 20, .n_type = NT_GNU_BUILD_ID};
	memcpy(n + 1, "GNU", 4);
	for (i = 0; i < 20; i++)
		img->bytes[NOTE_AT + 16 + i] = (unsigned char)(i * 13);
}

UNUSED static void make_image(struct image *img, const struct func *funcs, unsigned cnt,
			      bool gnu_hash)
{
	size_t str = 1, n;
	unsigned i, last = 0;

	memset(img, 0, sizeof(*img));
	img->gnu_hash = gnu_hash;
	img->sym_cnt = cnt + 1;
	for (i = 0; i < cnt; i++) {
		n = strlen(funcs[i].name) + 1;
		memcpy(img->bytes + STR_AT + str, funcs[i].name, n);
		memcpy(img->bytes + TEXT_AT + FUNC_SZ * funcs[i].at, funcs[i].code, FUNC_SZ);
		*sym(img, i + 1) = (Elf64_Sym){
			.st_name = (uint32_t)str,
			.st_info = ELF64_ST_INFO(funcs[i].bind, funcs[i].type),
			.st_shndx = funcs[i].shndx,
			.st_value = TEXT_AT + GAP + FUNC_SZ * funcs[i].at,
			.st_size = FUNC_SZ,
		};
		str += n;
		last = funcs[i].at > last ? funcs[i].at : last;
	}
	*dyn(img, DYN_SONAME) = (Elf64_Dyn){DT_SONAME, {str}};
	memcpy(img->bytes + STR_AT + str, "libcuda.so.1", 13);
	str += 13;
	*dyn(img, DYN_STR) = (Elf64_Dyn){DT_STRTAB, {STR_AT}};
	*dyn(img, DYN_STR_SZ) = (Elf64_Dyn){DT_STRSZ, {str}};
	*dyn(img, DYN_SYM) = (Elf64_Dyn){DT_SYMTAB, {SYM_AT}};
	*dyn(img, DYN_HASH) = (Elf64_Dyn){gnu_hash ? DT_GNU_HASH : DT_HASH, {HASH_AT}};
	img->size = TEXT_AT + FUNC_SZ * (last + 1);
	put_headers(img);
	put_hash(img);
	put_note(img);
}

#define FUNC(name, code, at)                                                                       \
	{                                                                                          \
		name, code, at, STT_FUNC, STB_GLOBAL, 10                                           \
	}
#define MAKE(img, funcs, gnu) make_image(img, funcs, sizeof(funcs) / sizeof(funcs[0]), gnu)

static char msg[256];

UNUSED static struct elf_lib *read_bytes(const void *bytes, size_t size)
{
	int fd = memfd_create("libcuda", MFD_CLOEXEC);
	struct elf_lib *lib;

	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes, size), size);
	memset(msg, 0, sizeof(msg));
	lib = elf_lib__read(fd, api_at(API_CUDA), msg, sizeof(msg));
	close(fd);
	return lib;
}

UNUSED static struct elf_lib *read_image(const struct image *img)
{
	return read_bytes(img->bytes, img->size);
}

UNUSED static void expect_error(const struct image *img, const char *part)
{
	assert_null(read_image(img));
	if (!strstr(msg, part))
		fail_msg("\"%s\" does not say \"%s\"", msg, part);
	assert_null(strchr(msg, '\n'));
}

static const struct func plain[] = {
	FUNC("cuInit", CODE_580, 0),
	FUNC("cuMemAlloc_v2", CODE_580, 1),
	FUNC("cudbgApiInit", CODE_580, 2),
	FUNC("cuLaunchKernel", CODE_580, 3),
	{"cuIfunc", CODE_580, 4, STT_GNU_IFUNC, STB_GLOBAL, 10},
	{"cuLocal", CODE_580, 4, STT_FUNC, STB_LOCAL, 10},
	{"cuUndefined", CODE_580, 4, STT_FUNC, STB_GLOBAL, SHN_UNDEF},
	{"cuVariable", CODE_580, 4, STT_OBJECT, STB_GLOBAL, 10},
	{"cuWeak", CODE_580, 5, STT_FUNC, STB_WEAK, 10},
	FUNC("cu", CODE_580, 6),
	FUNC("cuBad\x1b[2J", CODE_580, 7),
	FUNC("memcpy", CODE_580, 8),
};

#endif /* TESTS_ELF_IMAGE_H */
