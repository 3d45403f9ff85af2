/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A trace like that of an inference program: four threads load a model (modules, lookups,
 * allocations, copies) and then make tokens. Each token has a few hundred launches of few kernels,
 * a copy in, a copy out, a wait, and sometimes an allocation. The JSONL sink writes EVENTS calls;
 * the same numbers give the same trace.
 *
 *   gen_trace EVENTS [FILE [short]]     short: no launches, lines of about 280 bytes
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sink/sink.h"

#define BASE_NS	    1000000000000ull
#define THREADS	    4
#define KERNELS	    64
#define LAUNCHES    130 /* per token */
#define LOAD_ALLOCS 200

struct gen {
	struct sink *sink;
	struct trace_end end;
	uint64_t max, now_ns, seed;
	unsigned tid;
	uint64_t words[CT_MAX_WORDS], out;
	char kernels[KERNELS][512], mangled[KERNELS][512];
};

static uint64_t rnd(struct gen *g, uint64_t n)
{
	g->seed = g->seed * 6364136223846793005ull + 1442695040888963407ull;
	return (g->seed >> 33) % n;
}

/* A call of this duration, which advances the clock. */
static struct trace_event call(struct gen *g, const char *symbol, enum event_type type, uint64_t ns)
{
	const struct api_fn *fn = api_fn_by_symbol(symbol);
	struct trace_event ev = {.kind = EVENT_CALL, .type = type, .pid = 4711, .comm = "python3"};

	ev.fn = fn;
	ev.op = api_op_name(fn->op);
	ev.name = fn->name;
	ev.tid = 4711 + g->tid;
	ev.id = g->end.call_cnt + 1;
	ev.lib_id = 1;
	ev.start_ns = g->now_ns;
	ev.end_ns = g->now_ns + ns + rnd(g, ns);
	g->now_ns = ev.end_ns + 200 + rnd(g, 2000);
	memset(g->words, 0, sizeof(g->words));
	ev.words = g->words;
	ev.word_cnt = fn->arg_cnt;
	return ev;
}

static void put(struct gen *g, const struct trace_event *ev)
{
	if (g->end.event_cnt >= g->max)
		return;
	sink__event(g->sink, ev);
	g->end.event_cnt++;
	g->end.call_cnt++;
	g->end.type_cnt[ev->type]++;
	g->end.end_ns = ev->end_ns;
}

static void put_alloc(struct gen *g, uint64_t ptr, uint64_t size)
{
	struct trace_event ev = call(g, "cuMemAlloc_v2", TYPE_MEMORY, 30000);

	g->words[0] = 0x7ffd0000;
	g->words[1] = ev.size = size;
	g->out = ev.ptr = ptr;
	ev.caps[0] = (struct pointee){(const uint8_t *)&g->out, 8};
	ev.cap_cnt = 1;
	ev.has = HAS_SIZE | HAS_PTR;
	put(g, &ev);
}

static void put_free(struct gen *g, uint64_t ptr, uint64_t size)
{
	struct trace_event ev = call(g, "cuMemFree_v2", TYPE_MEMORY, 9000);

	g->words[0] = ev.ptr = ptr;
	ev.size = size;
	ev.has = HAS_SIZE | HAS_PTR;
	put(g, &ev);
}

static void put_copy(struct gen *g, const char *symbol, enum copy_dir dir, uint64_t dst,
		     uint64_t src, uint64_t size)
{
	struct trace_event ev = call(g, symbol, TYPE_TRANSFER, 4000);

	g->words[0] = ev.ptr = dst;
	g->words[1] = src;
	g->words[2] = ev.size = size;
	g->words[3] = ev.stream = 0x55d0c0ff0000 + g->tid;
	ev.dir = dir;
	ev.has = HAS_SIZE | HAS_PTR | HAS_DIR | HAS_STREAM;
	put(g, &ev);
}

static void put_launch(struct gen *g, unsigned k)
{
	struct trace_event ev = call(g, "cuLaunchKernel", TYPE_KERNEL, 3000);
	static const uint64_t words[] = {0, 96, 1, 1, 128, 1, 1, 0, 0, 0x7ffc61bb72f0, 0};

	memcpy(g->words, words, sizeof(words));
	g->words[0] = ev.launch.func = 0x3b33d000 + k * 64;
	g->words[1] = ev.launch.grid[0] = 32 << k % 5;
	g->words[8] = ev.stream = 0x55d0c0ff0000 + g->tid;
	ev.launch.grid[1] = ev.launch.grid[2] = 1;
	ev.launch.block[0] = 128;
	ev.launch.block[1] = ev.launch.block[2] = 1;
	ev.launch.has_config = true;
	ev.launch.kernel = g->kernels[k];
	ev.launch.kernel_mangled = g->mangled[k];
	ev.has = HAS_LAUNCH | HAS_KERNEL | HAS_STREAM;
	put(g, &ev);
}

static void put_sync(struct gen *g)
{
	struct trace_event ev = call(g, "cuStreamSynchronize", TYPE_SYNC, 60000);

	g->words[0] = ev.stream = 0x55d0c0ff0000 + g->tid;
	ev.has = HAS_STREAM;
	put(g, &ev);
}

static void name_kernels(struct gen *g)
{
	for (unsigned k = 0; k < KERNELS; k++) {
		snprintf(g->kernels[k], sizeof(g->kernels[k]),
			 "void at::native::vectorized_elementwise_kernel<%u, "
			 "at::native::CUDAFunctor_op%u<float, float, float, at::native::"
			 "binary_internal::MulFunctor<float> >, std::array<char*, %uul> >(int, "
			 "at::native::CUDAFunctor_op%u<float, float, float, at::native::"
			 "binary_internal::MulFunctor<float> >, std::array<char*, %uul>)",
			 1 + k % 4, k, 2 + k % 3, k, 2 + k % 3);
		snprintf(g->mangled[k], sizeof(g->mangled[k]),
			 "_ZN2at6native29vectorized_elementwise_kernelILi%uENS0_15CUDAFunctor_op%uI"
			 "fffNS0_15binary_internal10MulFunctorIfEEEESt5arrayIPcLm%uEEEEviT0_T1_",
			 1 + k % 4, k, 2 + k % 3);
	}
}

static void load(struct gen *g)
{
	for (unsigned i = 0; i < LOAD_ALLOCS; i++) {
		uint64_t ptr = 0x7f0000000000 + ((uint64_t)i << 26);

		put_alloc(g, ptr, 32 << 20);
		put_copy(g, "cuMemcpyHtoDAsync_v2", COPY_DIR_HTOD, ptr, 0x7fc000000000, 32 << 20);
		if (i % 8 == 7)
			put_sync(g);
	}
}

static void token(struct gen *g, uint64_t n)
{
	uint64_t scratch = 0x7e0000000000 + ((uint64_t)g->tid << 32);

	put_copy(g, "cuMemcpyHtoDAsync_v2", COPY_DIR_HTOD, 0x7f0000000000, 0x7fc000000000, 4096);
	if (n % 10 == 0)
		put_alloc(g, scratch, 1 << 20);
	for (unsigned i = 0; i < LAUNCHES; i++)
		put_launch(g, i * 7 % KERNELS);
	if (n % 10 == 0)
		put_free(g, scratch, 1 << 20);
	put_copy(g, "cuMemcpyDtoHAsync_v2", COPY_DIR_DTOH, 0x7fc000000000, 0x7f0000000000, 200);
	put_sync(g);
	g->now_ns += 300000;
}

/* Lines without kernel names. */
static void short_token(struct gen *g)
{
	uint64_t scratch = 0x7e0000000000 + ((uint64_t)g->tid << 32);

	for (unsigned i = 0; i < LAUNCHES / 4; i++) {
		put_alloc(g, scratch, 1 << 20);
		put_copy(g, "cuMemcpyHtoDAsync_v2", COPY_DIR_HTOD, scratch, 0x7fc000000000, 4096);
		put_sync(g);
		put_free(g, scratch, 1 << 20);
	}
	g->now_ns += 300000;
}

int main(int argc, char **argv)
{
	static const char *const command[] = {"python3", "infer.py", NULL};
	static const struct trace_info info = {
		.version = "gen_trace",
		.argv = command,
		.argc = 2,
		.hostname = "node",
		.kernel = "6.1.0",
		.machine = "x86_64",
		.driver_version = "580.0",
		.cuda_version = 13000,
		.traced = "everything",
		.not_traced = "nothing",
		.mechanism = "uprobe.multi",
		.base_ns = BASE_NS,
		.wall_ns = 1767225600000000000,
	};
	static struct gen g = {.now_ns = BASE_NS, .seed = 1};

	if (argc < 2) {
		fprintf(stderr, "usage: gen_trace EVENTS [FILE [short]]\n");
		return 2;
	}
	g.max = strtoull(argv[1], NULL, 10);
	g.end.reason = "command exited";
	g.end.not_traced = "nothing";
	g.sink = sink__open(SINK_JSONL, argc > 2 ? argv[2] : "-", &info);
	if (!g.sink)
		return 1;
	name_kernels(&g);
	load(&g);
	for (uint64_t n = 0; g.end.event_cnt < g.max; n++) {
		g.tid = n % THREADS;
		if (argc > 3)
			short_token(&g);
		else
			token(&g, n / THREADS);
	}
	return !!sink__close(g.sink, &g.end);
}
