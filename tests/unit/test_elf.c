/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Reading libcuda files: the contents of a good one are found; other files are refused. */
#include "elf_image.h"

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
	/* THPVariable_Wrap() of PyTorch, and variants of it. */
	assert_int_equal(SHIFT("\x48\x8b\x74\x24\xe8\x31\xd2\xe9"), 7);
	assert_int_equal(SHIFT("\x48\x8b\x74\x24\xe8\x31\xd2\xff"), 0);
	assert_int_equal(SHIFT("\x48\x8b\x34\x24\xe8\x31\xd2\xe9"), 0);
	assert_int_equal(SHIFT("\x48\x8b\x74\x24\xe8\x31\xd2"), 0);
	/* Code that loads an argument has arguments. */
	assert_int_equal(SHIFT("\x48\x8b\x74\x24\x08\x31\xd2\xe9"), 0);
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
	/* A driver has a few functions that only return an error. */
	assert_false(stub_of(CODE_580, CODE_STUB));
	assert_false(stub_of(CODE_STUB, CODE_580));
	/* A mock that returns CUDA_SUCCESS from everything is traced. */
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
	/* A 32-bit header is shorter than a 64-bit one. */
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
	/* The last name goes past the end of the table. */
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

/* A soname with terminal control sequences, and one without a NUL. */
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

/* A library made by a linker, not by us. */
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
		cmocka_unit_test(reads_a_real_library),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
