/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* For tests of the summary: a run with events of every kind. */
#ifndef TESTS_SUMMARY_CHECK_H
#define TESTS_SUMMARY_CHECK_H

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>

#include "decode/nv/nv_decode.h"
#include "factory.h"
#include "sink/summary/summary.h"
#include "sink/summary/summary_priv.h"
#include "util/out.h"

#define UNUSED __attribute__((unused))
#define ADD_KERNEL                                                                                 \
	"void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, "   \
	"std::array<char*, 3ul> >(int, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul>)"

struct run {
	struct factory f;
	struct summary *s;
	struct trace_info info;
	struct trace_end end;
	uint64_t cnt;
};

UNUSED static void put(struct run *r, struct trace_event ev)
{
	summary__event(r->s, &ev);
	r->cnt++;
}

UNUSED static void put_error(struct run *r, const char *symbol, int code)
{
	struct trace_event ev = factory_call(&r->f, symbol, 100, 50000);

	ev.result = code;
	ev.is_error = true;
	put(r, ev);
}

UNUSED static void put_tokens(struct run *r)
{
	static const char gemm[] = "ampere_sgemm_128x64_tn", add[] = ADD_KERNEL;
	struct trace_event ev;
	int i;

	for (i = 0; i < 4400; i++) {
		put(r, factory_launch(&r->f, i % 3 ? add : gemm, 0x10 * (i % 2)));
		if (i % 200 != 199)
			continue;
		put(r, factory_sync(&r->f, 0));
		put(r, factory_copy(&r->f, "cuMemcpyDtoH_v2", COPY_DIR_DTOH, 4096, 30000));
	}
	ev = factory_launch(&r->f, add, 0x10);
	ev.capturing = true;
	put(r, ev);
	put(r, factory_launch(&r->f, NULL, 0x10));
	put(r, factory_on_stream(&r->f, "cuGraphLaunch", 1, 9000));
}

UNUSED static void put_memory(struct run *r)
{
	struct trace_event ev;
	uint64_t i;

	for (i = 1; i <= 100; i++) {
		put(r, factory_alloc(&r->f, 20 << 20, i * (20 << 20)));
		put(r, factory_copy(&r->f, "cuMemcpyHtoDAsync_v2", COPY_DIR_HTOD, 20 << 20, 9000));
		put(r, factory_copy(&r->f, "cuMemcpyHtoD_v2", COPY_DIR_HTOD, 20 << 20, 1700000));
	}
	ev = factory_call(&r->f, "cuMemAllocManaged", 100, 5000);
	ev.has = HAS_SIZE;
	ev.size = 1000;
	ev.has_mem = true;
	ev.mem = (struct mem_totals){{100 * (20 << 20), 0, 1000}};
	put(r, ev);
	/* cuMemFree frees managed memory too */
	ev = factory_free(&r->f, 100 * (20 << 20));
	put(r, ev);
	put(r, factory_free(&r->f, 99 * (20 << 20)));
	put(r, factory_call(&r->f, "cuMemsetD8_v2", 10, 3000));
}

/* An inference run with events of every kind. */
UNUSED static int make_run(void **state)
{
	static const char *const more[] = {"cuStreamCreate", "cuEventCreate", "cuModuleLoadData",
					   "cuCtxSetCurrent"};
	struct run *r = calloc(1, sizeof(*r));
	struct trace_event ev;
	size_t i;

	r->f = factory(100);
	r->s = summary__new();
	r->info = factory_info();
	put(r, factory_call(&r->f, "cuInit", 100, 80000000));
	put(r, factory_call(&r->f, "cuDevicePrimaryCtxRetain", 100, 180000000));
	for (i = 0; i < sizeof(more) / sizeof(more[0]); i++)
		put(r, factory_call(&r->f, more[i], 100, 7000));
	put_memory(r);
	put_tokens(r);
	put_error(r, "cuMemAlloc_v2", 2);
	put_error(r, "cuModuleGetFunction", 500);
	put_error(r, "cuModuleGetFunction", 500);
	put_error(r, "cuModuleGetFunction", 99999);
	ev = factory_sync(&r->f, 0);
	ev.unfinished = true;
	put(r, ev);
	ev.abandoned = true;
	put(r, ev);
	r->end = factory_end(&r->f, r->cnt);
	put(r, factory_process(&r->f, "exit"));
	*state = r;
	return 0;
}

UNUSED static int free_run(void **state)
{
	struct run *r = *state;

	summary__free(r->s);
	free(r);
	return 0;
}

/* The text of the summary; the caller frees it. */
UNUSED static char *print(struct run *r, int width, bool color)
{
	char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	summary__print(r->s, f, &r->info, &r->end, width, color);
	fclose(f);
	return text;
}

UNUSED static int widest(const char *text)
{
	int col = 0, most = 0;

	for (; *text; text++) {
		if (*text == '\n')
			col = 0;
		else if ((*text & 0xc0) != 0x80)
			col++;
		if (col > most)
			most = col;
	}
	return most;
}

#define WITH_RUN(fn) cmocka_unit_test_setup_teardown(fn, make_run, free_run)

#endif /* TESTS_SUMMARY_CHECK_H */
