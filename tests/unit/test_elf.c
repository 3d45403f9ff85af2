/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Reading libcuda files: what is found in a good one, and that no bad one does harm. */
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

#include "attach/elf.h"
#include "random.h"

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
	unsigned at; /* number of its place; several may share one */
	unsigned char type, bind;
	uint16_t shndx;
};

struct image {
	unsigned char bytes[4096];
	size_t size;
	unsigned sym_cnt;
	bool gnu_hash;
};

static Elf64_Ehdr *ehdr(struct image *img)
{
	return (Elf64_Ehdr *)img->bytes;
}

static Elf64_Phdr *phdr(struct image *img, unsigned i)
{
	return (Elf64_Phdr *)(img->bytes + sizeof(Elf64_Ehdr)) + i;
}

static Elf64_Sym *sym(struct image *img, unsigned i)
{
	return (Elf64_Sym *)(img->bytes + SYM_AT) + i;
}

static Elf64_Dyn *dyn(struct image *img, unsigned i)
{
	return (Elf64_Dyn *)(img->bytes + DYN_AT) + i;
}

enum { PH_DATA, PH_TEXT, PH_DYNAMIC, PH_NOTE, PH_CNT };
enum { DYN_STR, DYN_STR_SZ, DYN_SYM, DYN_HASH, DYN_SONAME, DYN_END, DYN_CNT };

static void put_headers(struct image *img)
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

static void put_hash(struct image *img)
{
	uint32_t *h = (uint32_t *)(img->bytes + HASH_AT);
	unsigned i;

	if (!img->gnu_hash) {
		h[0] = 1;
		h[1] = img->sym_cnt;
		return;
	}
	/* One bucket, symbols from 1, one word of bloom filter; the chain ends at the last. */
	h[0] = 1;
	h[1] = 1;
	h[2] = 1;
	h[6] = img->sym_cnt > 1;
	for (i = 1; i < img->sym_cnt; i++)
		h[7 + i - 1] = i + 1 == img->sym_cnt;
}

static void put_note(struct image *img)
{
	Elf64_Nhdr *n = (Elf64_Nhdr *)(img->bytes + NOTE_AT);
	unsigned i;

	*n = (Elf64_Nhdr){.n_namesz = 4, .n_descsz = 20, .n_type = NT_GNU_BUILD_ID};
	memcpy(n + 1, "GNU", 4);
	for (i = 0; i < 20; i++)
		img->bytes[NOTE_AT + 16 + i] = (unsigned char)(i * 13);
}

static void make_image(struct image *img, const struct func *funcs, unsigned cnt, bool gnu_hash)
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

static struct elf_lib *read_bytes(const void *bytes, size_t size)
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

static struct elf_lib *read_image(const struct image *img)
{
	return read_bytes(img->bytes, img->size);
}

static void expect_error(const struct image *img, const char *part)
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

static void check_plain(bool gnu_hash)
{
	static const char *const names[] = {"cuInit", "cuMemAlloc_v2", "cuLaunchKernel", "cuWeak"};
	static const unsigned at[] = {0, 1, 3, 5};
	struct elf_lib *lib;
	struct image img;
	unsigned i;

	MAKE(&img, plain, gnu_hash);
	lib = read_image(&img);
	if (!lib)
		fail_msg("%s", msg);
	assert_int_equal(lib->sym_cnt, 4);
	for (i = 0; i < 4; i++) {
		assert_string_equal(lib->syms[i].name, names[i]);
		assert_int_equal(lib->syms[i].off, TEXT_AT + FUNC_SZ * at[i]);
		assert_int_equal(lib->syms[i].shift, 0);
	}
	assert_int_equal(lib->alias_cnt, 0);
	assert_string_equal(lib->soname, "libcuda.so.1");
	assert_string_equal(lib->build_id, "000d1a2734414e5b6875828f9ca9b6c3d0ddeaf7");
	assert_false(lib->is_stub);
	assert_int_equal(lib->machine, MACHINE);
	elf_lib__free(lib);
}

static void finds_functions(void **state)
{
	check_plain(false);
}

static void counts_symbols_by_gnu_hash(void **state)
{
	check_plain(true);
}

static void keeps_one_name_per_address(void **state)
{
	static const struct func funcs[] = {
		FUNC("cuMemcpy", CODE_580, 0),	     FUNC("cuMemcpy_v2_ptsz", CODE_580, 0),
		FUNC("cuMemcpy_v2", CODE_580, 0),    FUNC("cuEvent_b", CODE_580, 1),
		FUNC("cuEvent_a", CODE_580, 1),	     FUNC("cuCtxCreate_v4", CODE_580, 2),
		FUNC("cuCtxCreate_v3", CODE_580, 2), FUNC("cuVeryLongName_view", CODE_580, 3),
	};
	struct elf_lib *lib;
	struct image img;

	MAKE(&img, funcs, false);
	lib = read_image(&img);
	assert_non_null(lib);
	assert_int_equal(lib->sym_cnt, 4);
	assert_int_equal(lib->alias_cnt, 4);
	assert_string_equal(lib->syms[0].name, "cuMemcpy_v2");
	assert_string_equal(lib->syms[1].name, "cuEvent_a");
	assert_string_equal(lib->syms[2].name, "cuCtxCreate_v4");
	assert_string_equal(lib->syms[3].name, "cuVeryLongName_view");
	elf_lib__free(lib);
}

static void shifts_probes(void **state)
{
	static const struct func funcs[] = {
		FUNC("cuInit", CODE_550, 0),
		FUNC("cuEGLApiInit",
		     "\x48\x8d\x05\xd9\x9d\xff\xff\x48\x89\x87\x78\x01\x00\x00\x31\xc0", 1),
		FUNC("cuMemAlloc_v2", CODE_550, 2),
	};
	unsigned shift = MACHINE == EM_X86_64 ? 10 : 0;
	struct elf_lib *lib;
	struct image img;

	MAKE(&img, funcs, false);
	lib = read_image(&img);
	assert_non_null(lib);
	assert_int_equal(lib->syms[0].shift, shift);
	assert_int_equal(lib->syms[0].off, TEXT_AT + shift);
	assert_int_equal(lib->syms[1].shift, 0);
	assert_int_equal(lib->syms[1].off, TEXT_AT + FUNC_SZ);
	assert_int_equal(lib->syms[2].off, TEXT_AT + 2 * FUNC_SZ + shift);
	elf_lib__free(lib);
}

#define SHIFT(bytes) elf_probe_shift((const uint8_t *)bytes, sizeof(bytes) - 1)

static void reads_prologues(void **state)
{
	assert_int_equal(SHIFT("\x81\x3d\1\2\3\4\x00\xba\x1c\x32\x74\x05"), 10);
	assert_int_equal(SHIFT("\x81\x3d\1\2\3\4\x00\xba\x1c\x32\x75\x05"), 10);
	assert_int_equal(SHIFT("\x81\x3d\1\2\3\4\x00\xba\x1c\x32\x0f\x84\1\2\3\4"), 10);
	assert_int_equal(SHIFT("\x81\x3d\1\2\3\4\x00\xba\x1c\x32\x0f\x85\1\2\3\4"), 10);
	/* Another number, another register, another jump, a call. */
	assert_int_equal(SHIFT("\x81\x3d\1\2\3\4\x00\xba\x1c\x33\x74\x05"), 0);
	assert_int_equal(SHIFT("\x81\x3e\1\2\3\4\x00\xba\x1c\x32\x74\x05"), 0);
	assert_int_equal(SHIFT("\x81\x3d\1\2\3\4\x00\xba\x1c\x32\x0f\x8f\1\2\3\4"), 0);
	assert_int_equal(SHIFT("\x81\x3d\1\2\3\4\x00\xba\x1c\x32\xe8\1\2\3\4"), 0);
	/* Cut short. */
	assert_int_equal(SHIFT("\x81\x3d\1\2\3\4\x00\xba\x1c\x32"), 0);
	assert_int_equal(SHIFT("\x81\x3d\1\2\3\4\x00\xba\x1c\x32\x0f"), 0);
	assert_int_equal(SHIFT(""), 0);
	/* endbr64 is single-stepped; what follows may be emulated. */
	assert_int_equal(SHIFT("\xf3\x0f\x1e\xfa\x55\x48\x89\xe5"), 4);
	assert_int_equal(SHIFT("\xf3\x0f\x1e\xfa\x41\x57\x41\x56"), 4);
	assert_int_equal(SHIFT("\xf3\x0f\x1e\xfa\x41\x89\xc0"), 0);
	assert_int_equal(SHIFT("\xf3\x0f\x1e\xfa\x48\x83\xec\x08"), 0);
	assert_int_equal(SHIFT("\xf3\x0f\x1e\xfa\x81\x3d\1\2\3\4\x00\xba\x1c\x32\x74\x05"), 14);
	assert_int_equal(SHIFT("\xf3\x0f\x1e\xfa"), 0);
	assert_int_equal(SHIFT("\xf3\x0f\x1e\xfa\x41"), 0);
	assert_int_equal(SHIFT("\x55\x48\x89\xe5"), 0);
}

static bool stub_of(const char *init, const char *rest)
{
	struct func funcs[] = {
		FUNC("cuInit", init, 0),	  FUNC("cuMemAlloc_v2", rest, 1),
		FUNC("cuMemFree_v2", rest, 2),	  FUNC("cuLaunchKernel", rest, 3),
		FUNC("cuMemcpy", rest, 4),	  FUNC("cuCtxCreate_v4", rest, 5),
		FUNC("cuCtxDestroy", rest, 6),	  FUNC("cuDeviceGet", rest, 7),
		FUNC("cuDeviceGetName", rest, 8), FUNC("cuEventRecord", rest, 9),
	};
	struct elf_lib *lib;
	struct image img;
	bool is_stub;

	MAKE(&img, funcs, false);
	lib = read_image(&img);
	assert_non_null(lib);
	is_stub = lib->is_stub;
	elf_lib__free(lib);
	return is_stub;
}

static void tells_stubs(void **state)
{
	if (MACHINE != EM_X86_64)
		skip();
	assert_true(stub_of(CODE_STUB, CODE_STUB));
	assert_true(stub_of(CODE_RET_34, CODE_STUB));
	/* A driver has a few functions that are nothing but an error. */
	assert_false(stub_of(CODE_580, CODE_STUB));
	assert_false(stub_of(CODE_STUB, CODE_580));
	/* A stand-in that answers CUDA_SUCCESS to everything is to be traced. */
	assert_false(stub_of(CODE_ZERO, CODE_ZERO));
}

static void refuses_what_is_no_library(void **state)
{
	struct image img;
	int fds[2];

	assert_null(read_bytes("", 0));
	assert_non_null(strstr(msg, "not an ELF file"));
	assert_null(read_bytes("#!/bin/sh\necho hello world\n", 27));
	assert_string_equal(msg, "not an ELF file");

	MAKE(&img, plain, false);
	ehdr(&img)->e_ident[EI_CLASS] = ELFCLASS32;
	expect_error(&img, "32-bit library");
	/* A 32-bit header alone is shorter than a 64-bit one. */
	assert_null(read_bytes(img.bytes, sizeof(Elf32_Ehdr)));
	assert_non_null(strstr(msg, "32-bit library"));
	ehdr(&img)->e_ident[EI_CLASS] = ELFCLASS64;

	ehdr(&img)->e_ident[EI_DATA] = ELFDATA2MSB;
	expect_error(&img, "little-endian");
	ehdr(&img)->e_ident[EI_DATA] = ELFDATA2LSB;
	ehdr(&img)->e_type = ET_REL;
	expect_error(&img, "not a shared library");
	ehdr(&img)->e_type = ET_DYN;
	ehdr(&img)->e_machine = EM_S390;
	expect_error(&img, "another kind of processor");

	assert_int_equal(pipe(fds), 0);
	assert_null(elf_lib__read(fds[0], api_at(API_CUDA), msg, sizeof(msg)));
	assert_non_null(strstr(msg, "not a regular file"));
	close(fds[0]);
	close(fds[1]);
}

static void refuses_contradictions(void **state)
{
	struct image img;

	MAKE(&img, plain, false);
	phdr(&img, PH_TEXT)->p_filesz += 1;
	expect_error(&img, "truncated: segment 1");
	MAKE(&img, plain, false);
	phdr(&img, PH_TEXT)->p_vaddr = TEXT_AT - 1;
	expect_error(&img, "overlaps");
	MAKE(&img, plain, false);
	phdr(&img, PH_TEXT)->p_memsz = 1;
	expect_error(&img, "impossible sizes");
	MAKE(&img, plain, false);
	phdr(&img, PH_TEXT)->p_vaddr = UINT64_MAX - 8;
	expect_error(&img, "impossible sizes");
	MAKE(&img, plain, false);
	phdr(&img, PH_TEXT)->p_flags = PF_R;
	expect_error(&img, "outside the executable segments");
	MAKE(&img, plain, false);
	phdr(&img, PH_DYNAMIC)->p_type = PT_NULL;
	expect_error(&img, "no dynamic section");
	MAKE(&img, plain, false);
	ehdr(&img)->e_phnum = 0xffff;
	expect_error(&img, "65535 program headers");
	MAKE(&img, plain, false);
	ehdr(&img)->e_shoff = img.size - 10;
	ehdr(&img)->e_shnum = 20;
	ehdr(&img)->e_shentsize = sizeof(Elf64_Shdr);
	expect_error(&img, "truncated: section headers");
	MAKE(&img, plain, false);
	dyn(&img, DYN_STR_SZ)->d_un.d_val = UINT64_MAX;
	expect_error(&img, "string table");
	MAKE(&img, plain, false);
	dyn(&img, DYN_SYM)->d_un.d_ptr = UINT64_MAX - 7;
	expect_error(&img, "outside the loaded segments");
}

static void refuses_bad_symbols(void **state)
{
	struct image img;
	uint32_t *h = (uint32_t *)(img.bytes + HASH_AT);

	MAKE(&img, plain, false);
	sym(&img, 1)->st_name = 0x7fffffff;
	expect_error(&img, "name of symbol 1");
	/* The last name runs into the end of the table. */
	MAKE(&img, plain, false);
	dyn(&img, DYN_STR_SZ)->d_un.d_val = 5;
	expect_error(&img, "name of symbol");
	MAKE(&img, plain, false);
	sym(&img, 2)->st_value = 0x10;
	expect_error(&img, "cuMemAlloc_v2 lies outside");
	MAKE(&img, plain, false);
	h[1] = 0xffffffff;
	expect_error(&img, "4294967295 dynamic symbols");
	MAKE(&img, plain, false);
	h[1] = 60000;
	expect_error(&img, "dynamic symbol table");
	MAKE(&img, plain, true);
	h[0] = 0xffffffff;
	expect_error(&img, "symbol hash table");
	MAKE(&img, plain, true);
	h[6] = 0x7fffffff;
	expect_error(&img, "names symbol");
	MAKE(&img, plain, true);
	h[6] = 65535;
	expect_error(&img, "symbol hash table");
}

/* A soname that would write to a terminal, and one without end. */
static void tames_soname(void **state)
{
	struct elf_lib *lib;
	struct image img;

	MAKE(&img, plain, false);
	memcpy(img.bytes + STR_AT + dyn(&img, DYN_SONAME)->d_un.d_val, "a\x1b[2J\nb", 7);
	lib = read_image(&img);
	assert_non_null(lib);
	assert_string_equal(lib->soname, "a?[2J?b.so.1");
	elf_lib__free(lib);
	dyn(&img, DYN_SONAME)->d_un.d_val = 0xffffffffffff;
	lib = read_image(&img);
	assert_non_null(lib);
	assert_string_equal(lib->soname, "");
	elf_lib__free(lib);
}

static void survives_every_truncation(void **state)
{
	int fd = memfd_create("libcuda", MFD_CLOEXEC);
	struct image img;
	size_t len;

	MAKE(&img, plain, true);
	assert_int_equal(write(fd, img.bytes, img.size), img.size);
	for (len = img.size; len-- > 0;) {
		assert_int_equal(ftruncate(fd, (off_t)len), 0);
		msg[0] = '\0';
		if (elf_lib__read(fd, api_at(API_CUDA), msg, sizeof(msg)))
			fail_msg("accepted when cut to %zu bytes", len);
		assert_true(msg[0]);
	}
	close(fd);
}

/* Whatever it makes of the bytes must hold together. */
static void check_sane(const struct image *img, struct elf_lib *lib)
{
	unsigned i;

	if (!lib) {
		assert_true(msg[0]);
		return;
	}
	for (i = 0; i < lib->sym_cnt; i++) {
		assert_true(lib->syms[i].off < img->size + 16);
		assert_memory_equal(lib->syms[i].name, "cu", 2);
		assert_true(strlen(lib->syms[i].name) < 128);
		assert_true(!i || lib->syms[i].off >= lib->syms[i - 1].off ||
			    lib->syms[i - 1].shift);
	}
	assert_true(strlen(lib->build_id) <= 40);
	elf_lib__free(lib);
}

static void survives_random_damage(void **state)
{
	struct image good, bad;
	unsigned round, i;

	for (round = 0; round < 20000; round++) {
		if (round % 2 == 0)
			MAKE(&good, plain, round % 4 == 0);
		bad = good;
		for (i = rnd() % 8 + 1; i--;) {
			/* Half of it in the headers and tables, which are sparse. */
			size_t at = rnd() % (round % 2 ? bad.size : 0x130);

			bad.bytes[at] = (unsigned char)rnd();
		}
		check_sane(&bad, read_image(&bad));
	}
}

/* Every word of headers, hash, note and dynamic section, by each value that breaks arithmetic. */
static void survives_nasty_words(void **state)
{
	static const struct {
		size_t from, to;
	} parts[] = {{16, 0x130}, {SYM_AT, SYM_AT + 0x60}, {HASH_AT, TEXT_AT}};
	static const uint64_t values[] = {
		0,
		1,
		2,
		7,
		0xff,
		0xffff,
		0x10000,
		0x7fffffff,
		0x80000000,
		0xffffffff,
		0x100000000,
		0x7fffffffffffffff,
		0x8000000000000000,
		UINT64_MAX - 7,
		UINT64_MAX,
		TEXT_AT,
		TEXT_AT + GAP - 1,
	};
	struct image good, bad;
	size_t p, at, v, size;
	int gnu;

	for (gnu = 0; gnu < 2; gnu++) {
		MAKE(&good, plain, gnu);
		for (p = 0; p < sizeof(parts) / sizeof(parts[0]); p++) {
			for (at = parts[p].from; at < parts[p].to; at += 4) {
				for (v = 0; v < sizeof(values) / sizeof(values[0]); v++) {
					for (size = 2; size <= 8; size *= 2) {
						bad = good;
						memcpy(bad.bytes + at, &values[v], size);
						check_sane(&bad, read_image(&bad));
					}
				}
			}
		}
	}
}

static char *own_libc(void)
{
	FILE *f = fopen("/proc/self/maps", "re");
	char line[4096], *path, *found = NULL;

	while (f && !found && fgets(line, sizeof(line), f)) {
		path = strchr(line, '/');
		if (path && strstr(path, "/libc.so.6")) {
			path[strcspn(path, "\n")] = '\0';
			found = strdup(path);
		}
	}
	if (f)
		fclose(f);
	return found;
}

/* What a linker made, not we. */
static void reads_a_real_library(void **state)
{
	char *path = own_libc();
	struct elf_lib *lib;
	int fd;

	if (!path)
		skip();
	fd = open(path, O_RDONLY | O_CLOEXEC);
	lib = elf_lib__read(fd, api_at(API_CUDA), msg, sizeof(msg));
	if (!lib)
		fail_msg("%s: %s", path, msg);
	assert_string_equal(lib->soname, "libc.so.6");
	assert_int_equal(lib->sym_cnt, 0);
	assert_true(strlen(lib->build_id) == 40 || !lib->build_id[0]);
	elf_lib__free(lib);
	close(fd);
	free(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(finds_functions),
		cmocka_unit_test(counts_symbols_by_gnu_hash),
		cmocka_unit_test(keeps_one_name_per_address),
		cmocka_unit_test(shifts_probes),
		cmocka_unit_test(reads_prologues),
		cmocka_unit_test(tells_stubs),
		cmocka_unit_test(refuses_what_is_no_library),
		cmocka_unit_test(refuses_contradictions),
		cmocka_unit_test(refuses_bad_symbols),
		cmocka_unit_test(tames_soname),
		cmocka_unit_test(survives_every_truncation),
		cmocka_unit_test(survives_random_damage),
		cmocka_unit_test(survives_nasty_words),
		cmocka_unit_test(reads_a_real_library),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
