/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The daemon's profile: sums stay exact, however few calls are sampled and however full it is. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>

#include "daemon/profile.h"
#include "factory.h"
#include "report/page/pprof.h"
#include "util/out.h"

static struct dproc proc;

struct got {
	uint64_t v[PROFILE_VALUE_CNT];
	uint64_t with_a, with_b, alone; /* host time by the outermost frame */
	unsigned samples;
};

static void on_sample(void *ctx, const struct dprofile_sample *s)
{
	const char *outer = s->frames[s->frame_cnt - 1].name;
	uint64_t ns = s->v[PROFILE_HOST_NS];
	struct got *g = ctx;

	for (unsigned i = 0; i < PROFILE_VALUE_CNT; i++)
		g->v[i] += s->v[i];
	g->samples++;
	if (!strcmp(outer, "a"))
		g->with_a += ns;
	else if (!strcmp(outer, "b"))
		g->with_b += ns;
	else
		g->alone += ns;
}

static struct got all_of(struct dprofile *d)
{
	const struct profile_span span = {.wall_ns = 1, .duration_ns = 2};
	struct out *o = out__memory();
	struct got g = {0}, again = {0};

	dprofile__each(d, on_sample, &g);
	dprofile__each(d, on_sample, &again);
	assert_memory_equal(&g, &again, sizeof(g));
	assert_int_equal(dprofile__write(d, &span, "strings", o), 0);
	assert_int_equal(dprofile__write_otlp(d, &span, o), 0);
	assert_true(o->len);
	out__close(o);
	return g;
}

static void sampled(struct dprofile *d, struct factory *f, const char *symbol, const char *caller,
		    uint64_t ns)
{
	struct trace_event ev = factory_call(f, symbol, 10, ns);
	struct stack *s = calloc(1, sizeof(*s) + sizeof(s->frames[0]));

	s->frame_cnt = 1;
	s->frames[0] = (struct stack_frame){.symbol = caller, .module = "/bin/x"};
	ev.stack = s;
	ev.sampled = true;
	dprofile__event(d, &proc, &ev, ev.sampled);
	free(s);
}

static void counted(struct dprofile *d, const char *symbol, uint64_t calls, uint64_t ns)
{
	struct ct_count c = {.total_ns = ns};

	c.hist[3] = calls;
	dprofile__counted(d, &proc, api_fn_by_symbol(symbol), &c);
}

static void exact(void **state)
{
	struct dprofile *d = dprofile__new();
	struct factory f = factory(7);
	struct got g;

	proc = (struct dproc){.pid = 7, .comm = "x"};
	sampled(d, &f, "cuLaunchKernel", "a+0x12", 3000);
	sampled(d, &f, "cuLaunchKernel", "b", 1000);
	counted(d, "cuLaunchKernel", 1001, 999999999999999999);
	counted(d, "cuCtxSynchronize", 5, 1234567);
	g = all_of(d);
	assert_int_equal(g.v[PROFILE_CALLS], 1008);
	assert_int_equal(g.v[PROFILE_LAUNCHES], 1003);
	assert_int_equal(g.v[PROFILE_HOST_NS], 999999999999999999 + 4000 + 1234567);
	assert_int_equal(g.v[PROFILE_WAIT_NS], 1234567);
	assert_int_equal(g.alone, 1234567);
	assert_int_equal(g.with_a, (999999999999999999 + 4000) / 4 * 3 + 2);
	assert_int_equal(g.with_a + g.with_b, 999999999999999999 + 4000);
	assert_int_equal(g.samples, 3);
	dprofile__free(d);
}

static void full(void **state)
{
	struct dprofile *d = dprofile__new();
	struct factory f = factory(7);
	char name[900];
	struct got g;

	proc = (struct dproc){.pid = 7, .comm = "x"};
	for (unsigned i = 0; i < 11000; i++) {
		snprintf(name, sizeof(name), "%0800u", i);
		sampled(d, &f, "cuLaunchKernel", name, 1000);
	}
	g = all_of(d);
	assert_int_equal(g.v[PROFILE_CALLS], 11000);
	assert_int_equal(g.v[PROFILE_HOST_NS], 11000000);
	assert_true(dprofile__sums(d)->full > 3000 && g.samples > 3000 && g.samples < 10000);
	dprofile__free(d);
	/* No space at all, not even for the process. */
	d = dprofile__new();
	for (unsigned i = 0; i < 40000; i++) {
		proc.pid = i;
		counted(d, "cuLaunchKernel", 1, 7);
	}
	g = all_of(d);
	assert_int_equal(g.v[PROFILE_CALLS], 40000);
	assert_int_equal(g.v[PROFILE_HOST_NS], 280000);
	dprofile__free(d);
}

/* Returns the stage of the call; -1: unknown. */
static int live_call(struct live_stage *s, struct trace_event ev, bool marks, bool ends,
		     uint32_t interval)
{
	int stage;

	live_stage__begin(s, &ev, marks);
	stage = s->known ? s->stage : -1;
	live_stage__end(s, &ev, ends, interval);
	return stage;
}

static void live_stages(void **state)
{
	static const struct {
		const char *symbol;
		int plain, marked; /* stages */
	} calls[] = {
		{"cuDriverGetVersion", -1, -1},
		{"cuInit", STAGE_INIT, STAGE_INIT},
		{"cuCtxCreate_v2", STAGE_INIT, STAGE_INIT},
		{"cuMemAlloc_v2", STAGE_LOAD, STAGE_LOAD},
		{"cuInit", STAGE_LOAD, STAGE_LOAD},
		{"cuLaunchKernel", STAGE_INFERENCE, STAGE_WARMUP},
		{"cuStreamSynchronize", STAGE_INFERENCE, STAGE_WARMUP},
		{"cuLaunchKernel", STAGE_INFERENCE, STAGE_INFERENCE},
		{"cuCtxCreate_v2", STAGE_INFERENCE, STAGE_INFERENCE},
	};
	struct factory f = factory(7);

	for (unsigned marks = 0; marks < 2; marks++) {
		struct live_stage s = {0};

		for (unsigned i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
			bool ends = marks && !strcmp(calls[i].symbol, "cuStreamSynchronize");

			assert_int_equal(live_call(&s, factory_call(&f, calls[i].symbol, 10, 100),
						   marks, ends, 0),
					 marks ? calls[i].marked : calls[i].plain);
		}
		assert_int_equal(live_stage__first(&s), marks);
	}
}

/* Of a program that ran before, and of one whose launches are counted. */
static void late_stages(void **state)
{
	const struct api_fn *launch = api_fn_by_symbol("cuLaunchKernel");
	struct factory f = factory(7);
	struct live_stage s = {0};

	assert_int_equal(live_call(&s, factory_call(&f, "cuMemAlloc_v2", 10, 100), true, false, 0),
			 -1);
	assert_int_equal(live_call(&s, factory_call(&f, "cuLaunchKernel", 10, 100), true, false, 0),
			 STAGE_INFERENCE);
	s = (struct live_stage){.known = true, .stage = STAGE_LOAD};
	live_stage__counted(&s, launch, f.now_ns, false);
	live_stage__counted(&s, launch, f.now_ns, false);
	assert_int_equal(s.stage, STAGE_LOAD);
	live_stage__counted(&s, launch, f.now_ns + 1, false);
	assert_int_equal(s.stage, STAGE_INFERENCE);
}

/* An interval has few groups of iterations, which do not overlap. */
static void live_groups(void **state)
{
	struct factory f = factory(7);
	struct live_stage s = {0};
	unsigned groups = 0, last = 0;

	for (unsigned i = 1; i <= 100000; i++) {
		live_call(&s, factory_sync(&f, 0), true, true, i > 90000);
		if (i == 90001)
			groups = 0;
		groups += live_stage__first(&s) != last;
		last = live_stage__first(&s);
		assert_true(last <= i && i < last + s.group);
		assert_true(groups <= 64 + 32 * 12);
	}
	assert_true(s.group > 1024 && groups < 16);
	/* Another thread's calls end none. */
	f.tid++;
	live_call(&s, factory_sync(&f, 0), true, true, 1);
	assert_int_equal(s.iteration, 100000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(exact),       cmocka_unit_test(full),
		cmocka_unit_test(live_stages), cmocka_unit_test(late_stages),
		cmocka_unit_test(live_groups),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
