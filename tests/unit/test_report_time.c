/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Use of time: overview, stages, idle periods, waits, longest calls, the driver, and their
 * findings. Expected numbers are worked out by hand from the calls. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>

#include "decode/nv/nv_decode.h"
#include "factory.h"
#include "json_check.h"
#include "report/advice/findings_priv.h"
#include "report/layers/driver_priv.h"
#include "report/time/idle_priv.h"
#include "report/iter/iter.h"
#include "report/time/overview_priv.h"
#include "report/time/stage_priv.h"
#include "report/time/wait.h"
#include "util/out.h"

struct run {
	struct factory f;
	struct report *r;
	struct trace_info info;
	struct trace_end end;
	uint64_t cnt;
};

static int begin(void **state)
{
	struct report_opts opts = {.top = 5};
	struct run *x = calloc(1, sizeof(*x));

	x->f = factory(100);
	x->info = factory_info();
	x->r = report__new(&opts, &x->info);
	*state = x;
	return !x->r;
}

static int done(void **state)
{
	struct run *x = *state;

	report__free(x->r);
	free(x);
	return 0;
}

static void put(struct run *x, struct trace_event ev)
{
	x->cnt += ev.kind == EVENT_CALL;
	report__event(x->r, &ev);
}

static void call(struct run *x, const char *symbol, uint64_t gap, uint64_t dur)
{
	put(x, factory_call(&x->f, symbol, gap, dur));
}

static const struct findings *findings_of(const struct run *x)
{
	return x->r->an[AN_FINDINGS];
}

static void finish(struct run *x)
{
	x->end = factory_end(&x->f, x->cnt);
	report__finish(x->r, &x->end, NULL, 0);
}

static void token(struct run *x)
{
	put(x, factory_copy(&x->f, "cuMemcpyHtoDAsync_v2", COPY_DIR_HTOD, 64, 300));
	put(x, factory_launch(&x->f, "a", 0));
	put(x, factory_launch(&x->f, "b", 0));
	put(x, factory_copy(&x->f, "cuMemcpyDtoHAsync_v2", COPY_DIR_DTOH, 8, 600));
	put(x, factory_sync(&x->f, 0));
}

/* A program that loads weights, warms up, makes ten tokens and cleans up. */
static void inference(struct run *x)
{
	call(x, "cuInit", 1000000, 200000);
	call(x, "cuDevicePrimaryCtxRetain", 500, 100000);
	for (int i = 0; i < 3; i++) {
		put(x, factory_alloc(&x->f, 1 << 20, (uint64_t)(i + 1) << 20));
		put(x, factory_copy(&x->f, "cuMemcpyHtoDAsync_v2", COPY_DIR_HTOD, 1 << 20, 20000));
		put(x, factory_sync(&x->f, 0));
	}
	call(x, "cuModuleLoadData", 2000, 700000);
	for (int i = 0; i < 11; i++)
		token(x);
	call(x, "cuMemFree_v2", 4000, 10000);
	call(x, "cuModuleUnload", 1000, 3000);
	x->f.now_ns += 6000;
}

static void stages_of_inference(void **state)
{
	struct run *x = *state;
	uint64_t wall = 0, calls = 0, parts = 0, steady = 0;
	struct overview_totals t;
	struct stage_result s;
	struct iter_result it;
	const struct stages *st;

	inference(x);
	finish(x);
	stage_result(x->r, &s);
	overview_totals(x->r, &t);
	iter_result(x->r, &it);
	assert_int_equal(it.count, 11);
	assert_int_equal(it.warmup, 1);

	assert_int_equal(s.stages[STAGE_OTHER].wall_ns, 1000000);
	assert_int_equal(s.stages[STAGE_INIT].wall_ns, 300500);
	assert_int_equal(s.stages[STAGE_INIT].call_cnt, 2);
	assert_int_equal(s.stages[STAGE_LOAD].wall_ns, 3 * (91000 + 20700 + 50500));
	assert_int_equal(s.stages[STAGE_LOAD].call_ns, 3 * (90000 + 20000 + 50000));
	assert_int_equal(s.stages[STAGE_LOAD].call_cnt, 9);
	assert_int_equal(s.stages[STAGE_LOAD].alloc_bytes, 3 << 20);
	assert_int_equal(s.stages[STAGE_LOAD].htod_bytes, 3 << 20);
	/* the module, and the launches of the first token, with the gaps before all five calls */
	assert_int_equal(s.stages[STAGE_WARMUP].wall_ns, 702000 + 8000 + 700 + 2000 + 700 + 500);
	assert_int_equal(s.stages[STAGE_WARMUP].launch_cnt, 2);
	assert_int_equal(s.stages[STAGE_INPUT].wall_ns, 11 * 300);
	assert_int_equal(s.stages[STAGE_OUTPUT].wall_ns, 11 * 600);
	assert_int_equal(s.stages[STAGE_OUTPUT].bytes, 11 * 8);
	assert_int_equal(s.stages[STAGE_SYNC].wall_ns, 11 * 50000);
	assert_int_equal(s.stages[STAGE_INFERENCE].call_ns, 10 * 8000);
	assert_int_equal(s.stages[STAGE_INFERENCE].wall_ns, 10 * (8000 + 3900));
	assert_int_equal(s.stages[STAGE_INFERENCE].launch_cnt, 20);
	assert_int_equal(s.stages[STAGE_CLEANUP].wall_ns, 4000 + 10000 + 1000 + 3000 + 6000);
	assert_int_equal(s.stages[STAGE_CLEANUP].call_cnt, 2);

	for (int i = 0; i < STAGE_CNT; i++) {
		wall += s.stages[i].wall_ns;
		calls += s.stages[i].call_cnt;
	}
	for (int i = 0; i < PART_CNT; i++) {
		parts += s.all.ns[i];
		steady += s.steady.ns[i];
	}
	assert_int_equal(wall, report_wall_ns(x->r));
	assert_int_equal(calls, t.call_cnt);
	assert_int_equal(parts, wall);
	assert_int_equal(s.all.ns[PART_LAUNCH], 22 * 4000);
	assert_int_equal(s.all.ns[PART_MODULE], 703000);
	assert_int_equal(steady, 10 * (2 * 5000 + 1000 + 1300 + 50500));
	st = x->r->an[AN_STAGE];
	assert_int_equal(st->load_cnt, 3);
	assert_string_equal(st->load[0].name, "cuMemAlloc");
	assert_int_equal(st->load[0].total_ns, 270000);
}

/* A long trace: more waits than cells, several threads, nested and unfinished calls. */
static void stages_add_up(void **state)
{
	struct run *x = *state;
	uint64_t wall = 0, calls = 0, call_ns = 0;
	struct overview_totals t;
	struct stage_result s;
	struct trace_event ev;

	inference(x);
	for (int i = 0; i < 5000; i++) {
		x->f.tid = 100 + i % 3;
		ev = factory_launch(&x->f, i % 7 ? "a" : "c", i % 3);
		ev.start_ns -= i % 3 * 2000; /* overlaps what other threads did */
		put(x, ev);
		ev.depth = ev.api_depth = 1;
		put(x, ev);
		ev.depth = ev.api_depth = 0;
		ev.unfinished = i % 50 == 0;
		put(x, ev);
		put(x, factory_sync(&x->f, i % 3));
	}
	finish(x);
	stage_result(x->r, &s);
	overview_totals(x->r, &t);
	for (int i = 0; i < STAGE_CNT; i++) {
		wall += s.stages[i].wall_ns;
		calls += s.stages[i].call_cnt;
		call_ns += s.stages[i].call_ns;
	}
	assert_int_equal(wall, report_wall_ns(x->r));
	assert_int_equal(calls, t.call_cnt);
	assert_int_equal(call_ns, t.call_ns);
	assert_int_equal(s.stages[STAGE_INIT].wall_ns, 300500);
}

static void has_in_json(const struct run *x, const char *want)
{
	struct out *o = out__memory();
	struct json j;

	json__init(&j, o);
	report__json(x->r, &j);
	out_char(o, 0);
	if (!strstr(o->buf, want))
		fail_msg("no %s", want);
	out__close(o);
}

/* One thread waits; another makes short calls meanwhile, the first of them before the wait began.
 * The time outside of calls is the same below and above the number of gaps kept. */
static void stages_of_two_threads(void **state)
{
	static const unsigned calls[] = {10, 3 * STAGE_GAPS};
	struct run *x = *state;

	for (unsigned i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		struct trace_event ev;
		struct stage_result s;
		uint64_t begun;

		call(x, "cuInit", 1000, 1000);
		begun = x->f.now_ns + 3500; /* within the first gap */
		for (unsigned n = 0; n < calls[i]; n++)
			call(x, "cuCtxGetCurrent", 7000, 1000);
		for (int thread = 1; thread <= 2; thread++) {
			ev = factory_sync(&x->f, 0);
			ev.tid += thread;
			ev.start_ns = begun;
			ev.end_ns = x->f.now_ns = begun + calls[i] * 8000ull + thread * 500;
			put(x, ev);
		}
		finish(x);
		stage_result(x->r, &s);
		assert_int_equal(s.all.ns[PART_OTHER], 1000 + calls[i] * 1000ull);
		/* In a merged gap the position of calls is unknown. */
		assert_in_range(s.all.ns[PART_OUTSIDE], 4500 - (i ? 500 : 1), 4500 + 1);
		assert_int_equal(s.all.ns[PART_OUTSIDE] + s.all.ns[PART_OTHER] +
					 s.all.ns[PART_SYNC],
				 report_wall_ns(x->r));
		done(state);
		begin(state);
		x = *state;
	}
}

/* An unfinished call at the end of the trace took the time. */
static void a_wait_that_never_returns(void **state)
{
	struct run *x = *state;
	struct trace_event ev;
	struct stage_result s;
	struct wait_result w;

	inference(x);
	ev = factory_sync(&x->f, 0);
	ev.end_ns = x->f.now_ns = ev.start_ns + 5000000000;
	ev.unfinished = true;
	put(x, ev);
	finish(x);
	stage_result(x->r, &s);
	wait_result(x->r, &w);
	assert_int_equal(s.stages[STAGE_SYNC].wall_ns, 11 * 50000 + 5000000000);
	assert_int_equal(w.unfinished.ns, 5000000000);
	assert_int_equal(w.total_ns, 14 * 50000 + 5000000000);
	has_in_json(x, "\"longest\":[{\"ts\":");
	has_in_json(
		x,
		"\"name\":\"cuStreamSynchronize\",\"duration_ns\":5000000000,\"unfinished\":true");
	has_in_json(
		x,
		"\"findings\":[{\"id\":\"unfinished-wait\",\"title\":\"A wait has not returned\","
		"\"text\":\"cuStreamSynchronize was called 5.00 s before the end");
}

/* A wait that the trace's end interrupted, no longer than others: no finding. */
static void a_wait_that_is_cut_off(void **state)
{
	struct run *x = *state;
	struct trace_event ev;

	inference(x);
	put(x, factory_call(&x->f, "cuCtxSynchronize", 0, 2000000000));
	ev = factory_sync(&x->f, 0);
	ev.end_ns = x->f.now_ns = ev.start_ns + 5000000000;
	ev.unfinished = true;
	put(x, ev);
	finish(x);
	has_in_json(x, "\"unfinished\":1,");
	for (unsigned i = 0; i < findings_of(x)->list_cnt; i++)
		assert_string_not_equal(findings_of(x)->list[i].rule->id, "unfinished-wait");
}

static void idle_between_tokens(void **state)
{
	struct run *x = *state;
	struct idle_result d;

	inference(x);
	finish(x);
	idle_result(x->r, &d);
	/* each alloc between two copies, the module before the first token, ten gaps of 700 */
	assert_int_equal(d.count, 2 + 1 + 10);
	assert_int_equal(d.total_ns, 2 * (91000 + 700) + 702000 + 700 + 10 * 700);
	assert_int_equal(d.cause_ns[IDLE_ALLOC], 2 * 91700);
	assert_int_equal(d.cause_ns[IDLE_MODULE], 702700);
	assert_int_equal(d.cause_ns[IDLE_CPU], 7000);
	assert_int_equal(d.in_iter_cnt, 10);
	assert_int_equal(d.longest_ns, 702700);
	assert_string_equal(d.longest_after, "cuStreamSynchronize");
	assert_string_equal(d.longest_before, "cuMemcpyHtoDAsync");
}

static void idle_needs_all_streams(void **state)
{
	struct run *x = *state;
	struct idle_result d;
	struct trace_event ev;

	put(x, factory_launch(&x->f, "a", 0x10));
	put(x, factory_launch(&x->f, "a", 0x20));
	put(x, factory_sync(&x->f, 0x10)); /* 0x20 may still run */
	put(x, factory_launch(&x->f, "a", 0x10));
	/* the event covers all work on 0x20, and 0x10 waits for it */
	ev = factory_on_stream(&x->f, "cuEventRecord", 0x20, 100);
	ev.has |= HAS_CU_EVENT;
	ev.cu_event = 0xe0;
	put(x, ev);
	ev = factory_on_stream(&x->f, "cuStreamWaitEvent", 0x10, 100);
	ev.has |= HAS_CU_EVENT;
	ev.cu_event = 0xe0;
	put(x, ev);
	put(x, factory_sync(&x->f, 0x10));
	put(x, factory_launch(&x->f, "a", 0x20)); /* idle for 1000 */
	ev = factory_on_stream(&x->f, "cuEventRecord", 0x20, 100);
	ev.has |= HAS_CU_EVENT;
	ev.cu_event = 0xe0;
	put(x, ev);
	put(x, factory_launch(&x->f, "a", 0x20)); /* after the event */
	ev = factory_call(&x->f, "cuEventSynchronize", 500, 9000);
	ev.has = HAS_CU_EVENT;
	ev.cu_event = 0xe0;
	put(x, ev);
	put(x, factory_launch(&x->f, "a", 0x20));
	call(x, "cuCtxSynchronize", 500, 9000);
	call(x, "cuMemAlloc_v2", 300, 400);
	put(x, factory_launch(&x->f, "a", 0x10)); /* idle for 1700 */
	finish(x);
	idle_result(x->r, &d);
	assert_int_equal(d.count, 2);
	assert_int_equal(d.total_ns, 1000 + 1700);
	assert_int_equal(d.cause_ns[IDLE_CPU], 2700);
}

/* A launch of another thread during a wait is work that the wait does not cover. */
static void idle_with_threads(void **state)
{
	struct run *x = *state;
	struct idle_result d;
	struct trace_event launch, sync;

	put(x, factory_launch(&x->f, "a", 0));
	sync = factory_sync(&x->f, 0);
	launch = sync;
	launch.fn = api_fn_by_symbol("cuLaunchKernel");
	launch.type = TYPE_KERNEL;
	launch.tid = 101;
	launch.start_ns = sync.start_ns + 1000;
	launch.end_ns = sync.start_ns + 2000;
	put(x, launch);
	put(x, sync);
	put(x, factory_launch(&x->f, "a", 0));
	finish(x);
	idle_result(x->r, &d);
	assert_int_equal(d.count, 0);
}

static void waits(void **state)
{
	struct run *x = *state;
	struct wait_result w;
	struct trace_event ev;

	put(x, factory_launch(&x->f, "a", 0));
	put(x, factory_sync(&x->f, 0));
	put(x, factory_copy(&x->f, "cuMemcpyDtoH_v2", COPY_DIR_DTOH, 4096, 30000));
	put(x, factory_copy(&x->f, "cuMemcpyDtoHAsync_v2", COPY_DIR_DTOH, 4096, 80000));
	x->f.tid = 105;
	x->f.comm = "worker";
	call(x, "cuCtxSynchronize", 100, 90000);
	call(x, "cuMemFree_v2", 100, 900);
	ev = factory_sync(&x->f, 0);
	ev.unfinished = true;
	put(x, ev);
	finish(x);
	wait_result(x->r, &w);
	assert_int_equal(w.count, 4);
	assert_int_equal(w.total_ns, 170000 + 50000);
	assert_int_equal(w.unfinished.ns, 50000);
	assert_int_equal(w.fn_cnt, 3);
	assert_string_equal(w.fns[0].name, "cuStreamSynchronize");
	assert_string_equal(w.fns[1].name, "cuCtxSynchronize");
	assert_string_equal(w.fns[2].name, "cuMemcpyDtoH");
	assert_int_equal(w.thread_cnt, 2);
	assert_string_equal(w.thread_comm, "worker");
	assert_int_equal(w.thread_ns, 90000 + 50000);
	assert_int_equal(w.may_cnt, 2);
	assert_string_equal(w.may[0].name, "cuMemcpyDtoHAsync");
}

static void ioctl_of(struct run *x, const char *name, uint64_t dur, uint64_t call_id,
		     const char *call)
{
	struct driver_info drv = {.device = "nvidiactl", .call_id = call_id, .call = call};
	struct trace_event ev = {.kind = EVENT_DRIVER,
				 .type = TYPE_KERNEL,
				 .op = "ioctl",
				 .name = name,
				 .pid = 100,
				 .tid = 100,
				 .comm = "python3",
				 .drv = &drv};

	ev.start_ns = x->f.now_ns + 100;
	ev.end_ns = x->f.now_ns = ev.start_ns + dur;
	ev.is_error = dur == 777;
	put(x, ev);
}

static void driver(void **state)
{
	static const char *const init = "cuInit", *const alloc = "cuMemAlloc";
	static const char *const a = "NV_ESC_RM_ALLOC", *const b = "NV_ESC_RM_CONTROL";
	struct run *x = *state;
	const struct driver_calls *d = x->r->an[AN_DRIVER];
	struct driver_info drv = {.sched = nv_scheds(&(unsigned){0})};
	struct trace_event ev = {.kind = EVENT_SCHED,
				 .type = TYPE_SCHEDULER,
				 .op = "schedule",
				 .name = "NVA06C_CTRL_CMD_GPFIFO_SCHEDULE",
				 .drv = &drv};
	struct driver_result res;

	ioctl_of(x, a, 5000, 1, init);
	ioctl_of(x, a, 2000, 1, init);
	ioctl_of(x, b, 1000, 1, init);
	x->f.now_ns += 3000000000;
	ioctl_of(x, b, 777, 2, alloc);
	ioctl_of(x, b, 100, 3, alloc);
	ioctl_of(x, b, 100, 0, NULL);
	ev.start_ns = ev.end_ns = x->f.now_ns;
	put(x, ev);
	put(x, ev);
	finish(x);
	driver_result(x->r, &res);
	assert_true(res.traced);
	assert_int_equal(res.ioctl_cnt, 6);
	assert_int_equal(res.total_ns, 8977);
	assert_int_equal(res.error_cnt, 1);
	assert_int_equal(res.outside_cnt, 1);
	assert_int_equal(res.command_cnt, 2);
	assert_string_equal(res.commands[0].name, a);
	assert_int_equal(res.commands[0].total_ns, 7000);
	assert_string_equal(res.calls[0].name, init);
	assert_int_equal(res.calls[0].cnt, 3);
	assert_int_equal(d->calls.rows[0].call_cnt, 1);
	assert_int_equal(d->calls.rows[1].call_cnt, 2);
	assert_int_equal(d->pairs.keys.cnt, 3);
	assert_int_equal(res.sched_total, 2);
	assert_string_equal(res.sched[0].name, "schedule");
	assert_int_equal(d->second_cnt, 4);
	assert_int_equal(d->seconds[0], 3);
	assert_int_equal(d->seconds[3], 3);
}

static void hours_of_ioctls(void **state)
{
	struct run *x = *state;
	const struct driver_calls *d = x->r->an[AN_DRIVER];
	uint64_t sum = 0;

	for (int i = 0; i < 10000; i++) {
		ioctl_of(x, "a", 100, 0, NULL);
		x->f.now_ns += 3000000000;
	}
	finish(x);
	assert_int_equal(d->step_ns, 8000000000);
	for (unsigned i = 0; i < d->second_cnt; i++)
		sum += d->seconds[i];
	assert_int_equal(sum, 10000);
}

static void overview(void **state)
{
	struct run *x = *state;
	const struct overview *o = x->r->an[AN_OVERVIEW];
	struct overview_totals t;
	struct trace_event ev;

	inference(x);
	ev = factory_call(&x->f, "cuMemAlloc_v2", 100, 5000);
	ev.result = 2;
	ev.is_error = true;
	put(x, ev);
	ev = factory_launch(&x->f, "a", 0);
	ev.depth = ev.api_depth = 1;
	put(x, ev);
	ev = factory_launch(&x->f, "a", 0);
	ev.unfinished = true;
	put(x, ev);
	put(x, factory_process(&x->f, "exit"));
	finish(x);
	overview_totals(x->r, &t);
	assert_int_equal(t.call_cnt, 2 + 9 + 1 + 55 + 2 + 3);
	assert_int_equal(t.launch_cnt, 23);
	assert_int_equal(t.error_cnt, 1);
	assert_int_equal(t.class_ns[CLASS_LAUNCH], 23 * 4000);
	assert_int_equal(t.class_cnt[CLASS_LAUNCH], 24);
	assert_int_equal(o->unfinished_cnt, 1);
	assert_int_equal(o->proc_keys.cnt, 1);
	assert_true(o->procs[0].exited);
	assert_string_equal(o->errors[0].first->name, "cuMemAlloc");
}

static void json_is_json(void **state)
{
	struct run *x = *state;
	struct out *o = out__memory();
	struct json j;

	inference(x);
	ioctl_of(x, "NV_ESC_RM_ALLOC", 5000, 1, "cuInit");
	finish(x);
	json__init(&j, o);
	report__json(x->r, &j);
	assert_true(json_valid(o->buf, o->len));
	out__close(o);
}

/* An empty trace: nothing is reported. */
static void empty(void **state)
{
	struct run *x = *state;
	struct out *o = out__memory();
	struct json j;

	finish(x);
	json__init(&j, o);
	report__json(x->r, &j);
	assert_true(json_valid(o->buf, o->len));
	out__close(o);
}

static int columns(const char *s, size_t len)
{
	int n = 0;

	for (; len; s++, len--)
		n += (*s & 0xc0) != 0x80;
	return n;
}

/* The printed text; it must fit its width. */
static char *printed(const struct run *x, struct term *term)
{
	size_t size, len;
	char *text;

	term->f = open_memstream(&text, &size);
	report__print(x->r, term);
	fclose(term->f);
	for (const char *p = text; *p; p += len + (p[len] == '\n')) {
		len = strcspn(p, "\n");
		if (columns(p, len) > term->width)
			fail_msg("%.*s", (int)len, p);
	}
	return text;
}

static void fits_its_width(void **state)
{
	struct run *x = *state;
	struct term term = {.color = false};
	char *text;

	inference(x);
	for (int i = 0; i < 3; i++)
		ioctl_of(x, "NV2080_CTRL_CMD_GPU_GET_A_LONG_NAME_THAT_GOES_ON_AND_ON_AND_ON", 5000,
			 1, "cuDevicePrimaryCtxRetain");
	finish(x);
	for (term.width = 80; term.width <= 160; term.width += 40) {
		text = printed(x, &term);
		assert_non_null(strstr(text, "\nVerdict: "));
		free(text);
		x->r->opts.full = true;
		text = printed(x, &term);
		x->r->opts.full = false;
		assert_non_null(strstr(text, "\nIterations: 11 in 1 round"));
		assert_non_null(strstr(text, "2 kernel launches per iteration"));
		free(text);
	}
}

int main(void)
{
#define WITH_RUN(fn) cmocka_unit_test_setup_teardown(fn, begin, done)
	const struct CMUnitTest tests[] = {
		WITH_RUN(stages_of_inference),
		WITH_RUN(stages_add_up),
		WITH_RUN(stages_of_two_threads),
		WITH_RUN(a_wait_that_never_returns),
		WITH_RUN(a_wait_that_is_cut_off),
		WITH_RUN(idle_between_tokens),
		WITH_RUN(idle_needs_all_streams),
		WITH_RUN(idle_with_threads),
		WITH_RUN(waits),
		WITH_RUN(driver),
		WITH_RUN(hours_of_ioctls),
		WITH_RUN(overview),
		WITH_RUN(json_is_json),
		WITH_RUN(empty),
		WITH_RUN(fits_its_width),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
