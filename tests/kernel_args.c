/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Launches with parameters of all kinds. Prints for each what a trace must contain: the function,
 * and the parameters as offset:size:value in hexadecimal bytes, "-" for a value that cannot be
 * read, or "unknown". With an argument it loads the first module, and calls the driver until a line
 * comes.
 */
#include "cases/case.h"

#include <poll.h>
#include <sys/mman.h>

#define KERNEL(name, params) ".visible .entry " name "(" params ")\n{\n\tret;\n}\n"
#define P5		     ".param .u32 a, .param .u32 b, .param .u32 c, .param .u32 d, .param .u32 e"
#define P10		     P5 ", " P5
#define HEX_OF(x)	     (const unsigned char *)&(x), sizeof(x)

static void put(const char *sep, unsigned off, unsigned size, const void *p, unsigned len)
{
	printf("%s%u:%u:", sep, off, size);
	for (unsigned i = 0; p && i < len; i++)
		printf("%02x", ((const unsigned char *)p)[i]);
	printf(p ? "" : "-");
}

static int launch(handle f, void **params, void **extra)
{
	return F(cuLaunchKernel)(f, 2, 1, 1, 32, 1, 1, 0, NULL, params, extra);
}

struct s24 {
	uint64_t a, p, b;
};
struct s200 {
	uint64_t a[25];
};

static const char ptx[] = PTX_HEAD KERNEL(
	"_Z6simplePfjchd",
	".param .u64 a, .param .u32 n, .param .u8 c, .param .u16 h, .param .f64 d")
	KERNEL("_Z6structi3s24", ".param .u32 n, .param .align 8 .b8 s[24], .param .u32 m")
		KERNEL("_Z5large4s2004s200i",
		       ".param .align 8 .b8 s[200], .param .align 8 .b8 t[200], .param .u32 n")
			KERNEL("_Z4manyPf",
			       P10 ", " P10 ", " P10
				   ", .param .u64 last, .param .u32 beyond, .param .u64 more")
				KERNEL("_Z4nonev", "");
static const char other_ptx[] = PTX_HEAD KERNEL("_Z5otherh", ".param .u8 c");
static const char fake[] = "FAKE\0_Z7unknownPf\0";

static void simple(handle f, dptr block)
{
	uint64_t a = block + 40;
	uint32_t n = 0x12345678;
	uint8_t c = 0xab, buf[40] = {0};
	uint16_t h = 0xcdef;
	double d = 1.5;
	void *params[] = {&a, &n, &c, &h, &d}, *bad[] = {&a, (void *)1, &c, &h, &d};
	size_t size = sizeof(buf);
	void *extra[] = {(void *)1, buf, (void *)2, &size, NULL};

	for (int way = 0; way < 4; way++) {
		n++;
		if (way == 0)
			must("cuLaunchKernel", launch(f, params, NULL), 0);
		memcpy(buf, &a, 8);
		memcpy(buf + 8, &n, 4);
		buf[12] = c;
		memcpy(buf + 14, &h, 2);
		memcpy(buf + 16, &d, 8);
		if (way == 1)
			must("with extra", launch(f, NULL, extra), 0);
		if (way == 2)
			must("cooperative",
			     F(cuLaunchCooperativeKernel)(f, 2, 1, 1, 32, 1, 1, 0, NULL, params),
			     0);
		/* It fails before the driver reads the parameters. */
		if (way == 3)
			must("bad", F(cuLaunchKernel)(f, 0, 1, 1, 32, 1, 1, 0, NULL, bad, NULL),
			     INVALID_VALUE);
		put("simple ", 0, 8, HEX_OF(a));
		put(" ", 8, 4, way == 3 ? NULL : &n, 4);
		put(" ", 12, 1, HEX_OF(c));
		put(" ", 14, 2, HEX_OF(h));
		put(" ", 16, 8, HEX_OF(d));
		puts("");
	}
	/* The buffer ends before the last one. */
	size = 16;
	must("short", launch(f, NULL, extra), 0);
	put("simple ", 0, 8, HEX_OF(a));
	put(" ", 8, 4, HEX_OF(n));
	put(" ", 12, 1, HEX_OF(c));
	put(" ", 14, 2, HEX_OF(h));
	put(" ", 16, 8, NULL, 0);
	puts("");
}

static void structs(handle f, handle large, dptr block, dptr freed)
{
	uint32_t n = 7, m = 9;
	struct s24 s = {1, block, freed + 3};
	struct s200 s200 = {{5}}, t = {{6}};
	void *params[] = {&n, &s, &m}, *of_large[] = {&s200, &t, &n};
	/* A value on two pages. */
	char *pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	must("struct", launch(f, params, NULL), 0);
	put("struct ", 0, 4, HEX_OF(n));
	put(" ", 8, 24, HEX_OF(s));
	put(" ", 32, 4, HEX_OF(m));
	puts("");
	params[1] = memcpy(pages + 4096 - 5, &s, sizeof(s));
	must("struct", launch(f, params, NULL), 0);
	put("struct ", 0, 4, HEX_OF(n));
	put(" ", 8, 24, HEX_OF(s));
	put(" ", 32, 4, HEX_OF(m));
	puts("");
	must("large", launch(large, of_large, NULL), 0);
	put("large ", 0, 200, HEX_OF(s200));
	put(" ", 200, 200, &t, 56);
	put(" ", 400, 4, NULL, 0);
	puts("");
}

struct config {
	uint32_t dim[6], shared_mem_sz;
	handle stream, attrs;
	uint32_t attr_cnt;
};

/* 33 parameters: the last one is not listed. */
static void many(handle f)
{
	struct config cfg = {{2, 1, 1, 32, 1, 1}, 0, NULL, NULL, 0};
	uint32_t n[31];
	uint64_t last = 1, more = 2;
	void *params[33];

	for (unsigned i = 0; i < 31; i++) {
		n[i] = 1000 + i;
		params[i] = &n[i];
	}
	params[30] = &last;
	params[31] = &n[30];
	params[32] = &more;
	must("cuLaunchKernelEx", F(cuLaunchKernelEx)(&cfg, f, params, NULL), 0);
	printf("many cut");
	for (unsigned i = 0; i < 30; i++)
		put(" ", 4 * i, 4, HEX_OF(n[i]));
	put(" ", 120, 8, HEX_OF(last));
	put(" ", 128, 4, HEX_OF(n[30]));
	puts("");
}

/* Each call may be the one at which a library enters. */
static void await_line(void)
{
	struct pollfd in = {.events = POLLIN};

	puts("ready");
	fflush(stdout);
	while (!poll(&in, 1, 20))
		F(cuCtxSynchronize)();
}

int main(int argc, char **argv)
{
	handle m, f, l = NULL, k = NULL;
	void *none[] = {NULL};
	dptr block, freed;

	case_quiet = true;
	case_open();
	case_context();
	block = case_alloc(4096);
	freed = case_alloc(8192);
	must("cuMemFree", F(cuMemFree_v2)(freed), 0);
	printf("block %llx\nfreed %llx\n", H(block), H(freed));
	m = case_module(ptx);
	if (argc > 1)
		await_line();
	simple(case_function(m, "_Z6simplePfjchd", ""), block);
	structs(case_function(m, "_Z6structi3s24", ""), case_function(m, "_Z5large4s2004s200i", ""),
		block, freed);
	many(case_function(m, "_Z4manyPf", ""));
	must("none", launch(case_function(m, "_Z4nonev", ""), none, NULL), 0);
	puts("none unknown");
	f = case_function(case_module(fake), "_Z7unknownPf", "");
	must("unknown", launch(f, none, NULL), 0);
	puts("unknown unknown");
	must("cuLibraryLoadData", F(cuLibraryLoadData)(&l, ptx, NULL, NULL, 0, NULL, NULL, 0), 0);
	must("cuLibraryGetKernel", F(cuLibraryGetKernel)(&k, l, "_Z6simplePfjchd"), 0);
	simple(k, block);
	/* Another kernel may get the handle. */
	for (int i = 0; i < 20; i++) {
		uint8_t c = i;
		void *params[] = {&c};
		handle n = case_module(i % 2 ? other_ptx : ptx), g;
		uint64_t a = block;
		void *five[] = {&a, &a, &a, &a, &a};

		g = case_function(n, i % 2 ? "_Z5otherh" : "_Z6simplePfjchd", "");
		must("again", launch(g, i % 2 ? params : five, NULL), 0);
		if (i % 2) {
			put("other ", 0, 1, HEX_OF(c));
		} else {
			put("simple ", 0, 8, &a, 8);
			put(" ", 8, 4, &a, 4);
			put(" ", 12, 1, &a, 1);
			put(" ", 14, 2, &a, 2);
			put(" ", 16, 8, &a, 8);
		}
		puts("");
		must("cuModuleUnload", F(cuModuleUnload)(n), 0);
	}
	return 0;
}
