/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Serving steps, made by hand. A step launches its products 1000 ns after the previous call; they
 * take 4000 ns each, and the step waits 500 ns after the last.
 */
#ifndef TESTS_SERVING_STEPS_H
#define TESTS_SERVING_STEPS_H

#include "findings_check.h"
#include "report/serving/serving_priv.h"

#include <stdlib.h>

#define LAYERS 3
#define HIDDEN 64
#define VOCAB  1000
#define HEAD   0x9000

static const struct serving *serving(void)
{
	return r->an[AN_SERVING];
}

static bool by_rows; /* m and n exchanged */
static uint64_t prev_end_ns;

static void gemm(uint64_t weights, uint64_t m, uint64_t n, uint64_t k, bool capturing)
{
	struct trace_event launch = factory_launch(&f, "gemm", 0), ev;

	ev = factory_call(&f, "cublasSgemm_v2", 0, 0);
	ev.start_ns = launch.start_ns;
	launch.capturing = capturing;
	launch.parent_id = ev.id;
	send(&launch);
	ev.has = HAS_GEMM;
	ev.gemm = (struct gemm_info){.m = by_rows ? n : m,
				     .n = by_rows ? m : n,
				     .k = k,
				     .batch = 1,
				     .flops = 1,
				     .a_type = "CUDA_R_32F",
				     .b_type = "CUDA_R_32F",
				     .c_type = "CUDA_R_32F"};
	if (by_rows)
		call_args(&ev, "'A':'0x77','B':'0x%llx'", (unsigned long long)weights);
	else
		call_args(&ev, "'A':'0x%llx','B':'0x77'", (unsigned long long)weights);
}

static void layers(uint64_t tokens, bool capturing)
{
	for (int i = 0; i < LAYERS; i++) {
		gemm(0x1000 + i * 0x100, 3 * HIDDEN, tokens, HIDDEN, capturing);
		gemm(0x2000 + i * 0x100, HIDDEN, tokens, 3 * HIDDEN, capturing);
	}
}

static void wait_ns(uint64_t ns)
{
	struct trace_event ev = factory_on_stream(&f, "cuStreamSynchronize", 0, ns);

	send(&ev);
	prev_end_ns = ev.end_ns;
}

/* 7 launches: 7 * 5000 - 1000 and 500 ns, and the wait. */
static void step(uint64_t tokens, uint64_t rows, uint64_t ns)
{
	layers(tokens, false);
	gemm(HEAD, VOCAB, rows, HIDDEN, false);
	wait_ns(ns);
}
#define STEP_NS (7 * 5000 - 1000 + 500)

static void decode(unsigned cnt, uint64_t rows, uint64_t ns)
{
	for (unsigned i = 0; i < cnt; i++)
		step(rows, rows, ns);
}

static void capture(uint64_t graph, uint64_t tokens)
{
	struct trace_event ev = factory_on_stream(&f, "cuStreamBeginCapture_v2", 0, 1000);

	send(&ev);
	layers(tokens, true);
	ev = factory_on_stream(&f, "cuStreamEndCapture", 0, 1000);
	call_args(&ev, "'phGraph':'0x%llx'", (unsigned long long)graph);
	ev = factory_call(&f, "cuGraphInstantiateWithFlags", 0, 1000);
	call_args(&ev, "'phGraphExec':'0x%llx','hGraph':'0x%llx'", (unsigned long long)graph + 1,
		  (unsigned long long)graph);
}

/* Two launches: 4000, 5000 and 500 ns, and the wait. */
static void replay(uint64_t graph, uint64_t rows, uint64_t ns)
{
	struct trace_event ev = factory_on_stream(&f, "cuGraphLaunch", 0, 4000);

	call_args(&ev, "'hGraphExec':'0x%llx'", (unsigned long long)graph + 1);
	gemm(HEAD, VOCAB, rows, HIDDEN, false);
	wait_ns(ns);
}
#define REPLAY_NS (4000 + 5000 + 500)

#endif /* TESTS_SERVING_STEPS_H */
