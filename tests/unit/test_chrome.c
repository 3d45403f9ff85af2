/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The Chrome trace: valid JSON for any input, nesting, arrows, counters, names. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>

#include "chrome_check.h"
#include "decode/nv/nv_decode.h"
#include "factory.h"
#include "json_check.h"
#include "sink/format/chrome_flow.h"
#include "sink/format/chrome_proc.h"
#include "sink/sink.h"
#include "util/out.h"

extern const struct sink_ops chrome_sink_ops;

/* A sink that writes into memory. */
struct rec {
	struct sink *s;
	struct factory f;
	uint64_t cnt;
};

static struct rec rec_begin(void)
{
	struct trace_info info = factory_info();
	struct rec r = {.s = calloc(1, chrome_sink_ops.size), .f = factory(100)};

	assert_non_null(r.s);
	r.s->ops = &chrome_sink_ops;
	r.s->out = out__memory();
	r.s->base_ns = info.base_ns;
	assert_int_equal(chrome_sink_ops.open(r.s, &info), 0);
	return r;
}

static void rec_put(struct rec *r, struct trace_event ev)
{
	r->s->event_cnt++;
	r->cnt++;
	chrome_sink_ops.event(r->s, &ev);
}

/* Returns the text; the caller frees it. */
static char *rec_end(struct rec *r, const struct trace_end *end)
{
	char *text;

	if (end)
		chrome_sink_ops.end(r->s, end);
	text = strndup(r->s->out->buf, r->s->out->len);
	chrome_sink_ops.close(r->s);
	out__close(r->s->out);
	free(r->s);
	assert_non_null(text);
	return text;
}

static char *rec_finish(struct rec *r)
{
	struct trace_end end = factory_end(&r->f, r->cnt);

	return rec_end(r, &end);
}

/* Newlines occur only between lines: json_valid() allows no white space. */
static bool valid(const char *text, size_t len)
{
	char *flat = malloc(len + 1), *p = flat;
	bool ok;
	size_t i;

	for (i = 0; i < len; i++)
		if (text[i] != '\n')
			*p++ = text[i];
	ok = json_valid(flat, p - flat);
	free(flat);
	return ok;
}

static void empty_trace(void **state)
{
	struct rec r = rec_begin();
	char *text = rec_finish(&r);

	check_py(text, "[e[\"name\"] for e in d] == [\"trace begins\", \"trace ends\"] and "
		       "d[0][\"args\"][\"command\"] == [\"python3\", \"infer.py\"] and "
		       "d[0][\"args\"][\"wall_time\"] == \"2023-11-14T22:13:20.123456789Z\" and "
		       "d[0][\"s\"] == d[1][\"s\"] == \"g\"");
	assert_true(valid(text, strlen(text)));
	free(text);
}

static void calls_and_names(void **state)
{
	struct rec r = rec_begin();
	struct trace_event ev;
	char *text;

	rec_put(&r, factory_launch(&r.f, "void ns::k<int>(float*)", 0x10));
	ev = factory_call(&r.f, "cuMemAlloc_v2", 10, 1001);
	ev.result = 2;
	ev.is_error = true;
	rec_put(&r, ev);
	r.f.comm = "worker";
	rec_put(&r, factory_sync(&r.f, 0x99));
	ev = factory_sync(&r.f, 0x99);
	ev.unfinished = true;
	rec_put(&r, ev);
	text = rec_finish(&r);
	check_py(text, "[e[\"name\"] for e in ph(\"X\")] == [\"ns::k\", \"cuMemAlloc\", "
		       "\"cuStreamSynchronize\", \"cuStreamSynchronize\"]");
	check_py(text, "ph(\"X\")[0][\"cat\"] == \"kernel\" and "
		       "ph(\"X\")[0][\"args\"][\"call\"] == \"cuLaunchKernel\" and "
		       "ph(\"X\")[0][\"args\"][\"kernel\"] == \"void ns::k<int>(float*)\" and "
		       "ph(\"X\")[0][\"args\"][\"grid\"] == [80, 1, 1]");
	check_py(text,
		 "ph(\"X\")[1][\"cname\"] == \"terrible\" and "
		 "ph(\"X\")[1][\"dur\"] == 1.001 and ph(\"X\")[1][\"args\"][\"result\"] == 2 and "
		 "ph(\"X\")[1][\"args\"][\"error\"] == \"CUDA_ERROR_OUT_OF_MEMORY\" and "
		 "ph(\"X\")[1][\"args\"][\"symbol\"] == \"cuMemAlloc_v2\"");
	check_py(text, "ph(\"X\")[3][\"args\"][\"unfinished\"] and "
		       "\"result\" not in ph(\"X\")[3][\"args\"]");
	check_py(text, "[(e[\"name\"], list(e[\"args\"].values())) for e in ph(\"M\")] == ["
		       "(\"process_sort_index\", [0]), (\"process_name\", [\"python3\"]), "
		       "(\"thread_name\", [\"python3\"]), (\"process_name\", [\"worker\"]), "
		       "(\"thread_name\", [\"worker\"])]");
	free(text);
}

/* The first thread names the process until the main thread does. */
static void process_named_by_main_thread(void **state)
{
	struct rec r = rec_begin();
	char *text;

	r.f.tid = 101;
	r.f.comm = "helper";
	rec_put(&r, factory_sync(&r.f, 0));
	r.f.tid = 100;
	r.f.comm = "python3";
	rec_put(&r, factory_sync(&r.f, 0));
	r.f.tid = 101;
	r.f.comm = "helper2";
	rec_put(&r, factory_sync(&r.f, 0));
	text = rec_finish(&r);
	check_py(text, "[e[\"args\"][\"name\"] for e in ph(\"M\") if e[\"name\"] == "
		       "\"process_name\"] == [\"helper\", \"python3\"] and "
		       "[e[\"args\"][\"name\"] for e in ph(\"M\") if e[\"name\"] == "
		       "\"thread_name\"] == [\"helper\", \"python3\", \"helper2\"]");
	free(text);
}

static void nesting_keeps_nanoseconds(void **state)
{
	struct rec r = rec_begin();
	struct trace_event outer = factory_call(&r.f, "cuCtxSynchronize", 7, 3), inner = outer;
	char *text;

	inner.start_ns++;
	inner.end_ns--;
	inner.depth = inner.api_depth = 1;
	rec_put(&r, inner);
	rec_put(&r, outer);
	/* far from the start: still exact to the nanosecond */
	r.f.now_ns = FACTORY_BASE_NS + 123456789012345678ull;
	rec_put(&r, factory_call(&r.f, "cuCtxSynchronize", 1, 1));
	/* began before the trace did */
	outer.start_ns = FACTORY_BASE_NS - 1500;
	rec_put(&r, outer);
	text = rec_finish(&r);
	assert_non_null(strstr(text, "\"ts\":0.008,\"dur\":0.001,"));
	assert_non_null(strstr(text, "\"ts\":0.007,\"dur\":0.003,"));
	assert_non_null(strstr(text, "\"ts\":123456789012345.679,\"dur\":0.001,"));
	assert_non_null(strstr(text, "\"ts\":-1.500,\"dur\":1.510,"));
	check_py(text, "len(ph(\"X\")) == 4");
	free(text);
}

/* Each arrow as "launch>sync", in order. */
#define ARROWS                                                                                     \
	"[[x[\"name\"] for k in (\"s\", \"f\") for e in ph(k) if e[\"id\"] == i for x in "         \
	"ph(\"X\") if x[\"ts\"] == e[\"ts\"] and x[\"tid\"] == e[\"tid\"]] for i in "              \
	"[e[\"id\"] for e in ph(\"s\")]] == "

static void arrows(void **state)
{
	struct rec r = rec_begin();
	struct trace_event ev;
	char *text;

	rec_put(&r, factory_launch(&r.f, "a1", 1000));
	rec_put(&r, factory_launch(&r.f, "a2", 1000));
	rec_put(&r, factory_launch(&r.f, "b1", 2000));
	rec_put(&r, factory_sync(&r.f, 1000)); /* a2 */
	rec_put(&r, factory_sync(&r.f, 1000)); /* no new arrow */
	rec_put(&r, factory_launch(&r.f, "a3", 1000));
	ev = factory_on_stream(&r.f, "cuEventRecord", 1000, 900);
	ev.has |= HAS_CU_EVENT;
	ev.cu_event = 0xe;
	rec_put(&r, ev);
	rec_put(&r, factory_launch(&r.f, "a4", 1000));
	ev = factory_call(&r.f, "cuEventSynchronize", 10, 5000);
	ev.has = HAS_CU_EVENT;
	ev.cu_event = 0xe;
	rec_put(&r, ev);						  /* a3 */
	rec_put(&r, factory_call(&r.f, "cuCtxSynchronize", 10, 5000));	  /* a4, b1 */
	rec_put(&r, factory_on_stream(&r.f, "cuGraphLaunch", 3000, 500)); /* g */
	ev = factory_copy(&r.f, "cuMemcpyDtoH_v2", COPY_DIR_DTOH, 64, 9000);
	ev.has |= HAS_STREAM;
	ev.stream = 3000;
	rec_put(&r, ev); /* g */
	text = rec_finish(&r);
	check_py(text,
		 ARROWS "[[\"a2\", \"cuStreamSynchronize\"], "
			"[\"a3\", \"cuEventSynchronize\"], [\"a4\", \"cuCtxSynchronize\"], "
			"[\"b1\", \"cuCtxSynchronize\"], [\"cuGraphLaunch\", \"cuMemcpyDtoH\"]]");
	check_py(text,
		 "sorted(e[\"id\"] for e in ph(\"s\")) == sorted(e[\"id\"] for e in ph(\"f\")) "
		 "and all(e[\"bp\"] == \"e\" for e in ph(\"f\"))");
	free(text);
}

static void no_arrows(void **state)
{
	struct rec r = rec_begin();
	struct trace_event ev, late;
	char *text;

	ev = factory_launch(&r.f, "captured", 1);
	ev.capturing = true;
	rec_put(&r, ev);
	rec_put(&r, factory_sync(&r.f, 1));
	ev = factory_launch(&r.f, "failed", 2000);
	ev.result = 1;
	ev.is_error = true;
	rec_put(&r, ev);
	rec_put(&r, factory_sync(&r.f, 2000));
	rec_put(&r, factory_launch(&r.f, "k", 3000));
	ev = factory_sync(&r.f, 3000); /* fails */
	ev.result = 700;
	ev.is_error = true;
	rec_put(&r, ev);
	/* the stream was destroyed, its handle reused */
	rec_put(&r, factory_on_stream(&r.f, "cuStreamDestroy_v2", 3000, 500));
	rec_put(&r, factory_sync(&r.f, 3000));
	/* another process */
	rec_put(&r, factory_launch(&r.f, "k", 4000));
	r.f.pid = r.f.tid = 200;
	rec_put(&r, factory_sync(&r.f, 4000));
	/* launched by another thread while this one was already waiting */
	ev = factory_sync(&r.f, 5000);
	late = factory_launch(&r.f, "late", 5000);
	late.tid++;
	late.start_ns = ev.start_ns + 10;
	late.end_ns = ev.start_ns + 20;
	rec_put(&r, late);
	rec_put(&r, ev);
	text = rec_finish(&r);
	check_py(text, "not ph(\"s\") and not ph(\"f\")");
	free(text);
}

/* Stream 0 is one stream or one for each thread, depending on how the function is called. */
static void default_streams(void **state)
{
	struct rec r = rec_begin();
	struct trace_event ev;
	char *text;

	ev = factory_launch(&r.f, "mine", 0);
	ev.fn = api_fn_by_symbol("cuLaunchKernel_ptsz");
	assert_non_null(ev.fn);
	rec_put(&r, ev);
	r.f.tid++;
	ev = factory_launch(&r.f, "other", 2); /* CU_STREAM_PER_THREAD */
	rec_put(&r, ev);
	rec_put(&r, factory_sync(&r.f, 0)); /* legacy: nothing ran there */
	r.f.tid--;
	rec_put(&r, factory_on_stream(&r.f, "cuStreamSynchronize_ptsz", 0, 900));
	rec_put(&r, factory_launch(&r.f, "legacy", 1)); /* CU_STREAM_LEGACY */
	rec_put(&r, factory_sync(&r.f, 0));
	text = rec_finish(&r);
	check_py(text, ARROWS "[[\"mine\", \"cuStreamSynchronize\"], "
			      "[\"legacy\", \"cuStreamSynchronize\"]]");
	free(text);
}

static void counters_are_rare(void **state)
{
	struct rec r = rec_begin();
	struct trace_event ev;
	char *text;
	int i;

	/* 1000 allocations, one every microsecond: 10 gaps */
	for (i = 1; i <= 1000; i++) {
		ev = factory_call(&r.f, "cuMemAlloc_v2", 500, 500);
		ev.has_mem = true;
		ev.mem.bytes[MEM_DEVICE] = i;
		ev.mem.bytes[MEM_MANAGED] = i >= 500 ? 7 : 0;
		rec_put(&r, ev);
	}
	text = rec_finish(&r);
	check_py(text, "(lambda c: 10 <= len(c) <= 12 and c[0][\"args\"][\"bytes\"] == 1 and "
		       "c[-1][\"args\"][\"bytes\"] == 1000 and all(b[\"ts\"] - a[\"ts\"] > 99.9 "
		       "for a, b in zip(c, c[1:])))"
		       "([e for e in ph(\"C\") if e[\"name\"] == \"device memory\"])");
	check_py(text, "[e[\"args\"][\"bytes\"] for e in ph(\"C\") if e[\"name\"] == "
		       "\"managed memory\"] == [7]");
	check_py(text, "not [e for e in ph(\"C\") if e[\"name\"] == \"pinned host memory\"]");
	free(text);
}

static void counters_catch_up(void **state)
{
	struct rec r = rec_begin();
	char *text;

	rec_put(&r, factory_alloc(&r.f, 10, 10)); /* ends at 91 µs */
	r.f.now_ns -= 50000;
	rec_put(&r, factory_free(&r.f, 0)); /* ends at 82 µs: waits */
	r.f.now_ns += 5000000;
	rec_put(&r, factory_alloc(&r.f, 30, 30));
	rec_put(&r, factory_process(&r.f, "exit"));
	text = rec_finish(&r);
	check_py(text, "[(e[\"ts\"], e[\"args\"][\"bytes\"]) for e in ph(\"C\")] == "
		       "[(91, 10), (191, 0), (5173, 30), (5174, 0)]");
	check_py(text, "[e[\"name\"] for e in ph(\"i\") if e[\"s\"] == \"p\"] == [\"exit\"]");
	free(text);
}

static void put_ioctl(struct rec *r, uint64_t gap_ns, uint64_t ns, const char *op)
{
	static const struct driver_info drv = {.device = "nvidiactl", .fd = 3, .call_id = 1};
	struct trace_event ev = {.kind = EVENT_DRIVER, .type = TYPE_KERNEL, .op = op, .name = op};

	ev.pid = r->f.pid;
	ev.tid = r->f.tid;
	ev.comm = r->f.comm;
	ev.start_ns = r->f.now_ns + gap_ns;
	ev.end_ns = r->f.now_ns = ev.start_ns + ns;
	ev.drv = &drv;
	rec_put(r, ev);
}

#define RATES "[(e[\"ts\"], e[\"args\"][\"ioctls/s\"]) for e in ph(\"C\")]"

static void ioctl_rate(void **state)
{
	struct rec r = rec_begin();
	struct trace_event call = factory_call(&r.f, "cuInit", 0, 30000000);
	char *text;
	int i;

	/* one every 100 us for 25 ms, a long pause, one more */
	r.f.now_ns = call.start_ns;
	put_ioctl(&r, 1000, 1000, "open");
	for (i = 0; i < 250; i++)
		put_ioctl(&r, 98000, 2000, "ioctl");
	rec_put(&r, call);
	put_ioctl(&r, 1000000000, 1000, "mmap");
	put_ioctl(&r, 0, 1000, "ioctl");
	text = rec_finish(&r);
	check_py(text, RATES " == [(102, 10000), (10102, 10000), (20102, 5000), (30102, 0), "
			     "(1025004, 100), (1035004, 0)]");
	check_py(
		text,
		"all(e[\"name\"] == \"ioctls/s\" and e[\"cat\"] == \"kernel\" for e in ph(\"C\"))");
	/* interrupts of a call lie within it */
	check_py(text, "all(ph(\"X\")[-3][\"ts\"] <= e[\"ts\"] and e[\"ts\"] + e[\"dur\"] <= "
		       "ph(\"X\")[-3][\"ts\"] + ph(\"X\")[-3][\"dur\"] for e in ph(\"X\")[:-3])");
	free(text);
}

/* Half of a program's requests to the driver make an object, whose class is shown. */
static void allocations_have_their_class(void **state)
{
	static const struct nv_class class = {.name = "HOPPER_CHANNEL_GPFIFO_A"};
	static const struct nv_ioctl io = {.name = "NV_ESC_RM_ALLOC", .class = &class};
	static const struct driver_info drv = {.device = "nvidiactl", .fd = 3, .io = &io};
	struct rec r = rec_begin();
	struct trace_event ev = {.kind = EVENT_DRIVER, .type = TYPE_KERNEL, .op = "ioctl"};
	char *text;

	ev.name = io.name;
	ev.pid = ev.tid = 7;
	ev.comm = "python3";
	ev.start_ns = ev.end_ns = r.f.now_ns;
	ev.drv = &drv;
	rec_put(&r, ev);
	text = rec_finish(&r);
	check_py(text, "ph(\"X\")[0][\"name\"] == \"alloc HOPPER_CHANNEL_GPFIFO_A\" and "
		       "ph(\"X\")[0][\"args\"][\"escape\"] == \"NV_ESC_RM_ALLOC\"");
	free(text);
}

/* An Xid concerns all processes; an interrupt renames no thread. */
static void errors_and_interrupts(void **state)
{
	static const enum event_kind kinds[] = {EVENT_XID, EVENT_IRQ, EVENT_UVM};
	struct rec r = rec_begin();
	char *text;
	size_t i;

	rec_put(&r, factory_sync(&r.f, 0));
	for (i = 0; i < 3; i++) {
		struct trace_event ev = {.kind = kinds[i], .op = "fault", .name = "x"};

		ev.type = i ? TYPE_INTERRUPT : TYPE_XID;
		ev.comm = "";
		ev.pid = ev.tid = r.f.pid;
		ev.start_ns = ev.end_ns = r.f.now_ns;
		if (ev.kind == EVENT_XID)
			ev.xid = (struct event_xid){79, "0000:18:00.0", "\"\xff"};
		rec_put(&r, ev);
	}
	text = rec_finish(&r);
	check_py(text,
		 "[(e[\"name\"], e[\"s\"]) for e in ph(\"i\")][1:-1] == [(\"Xid 79\", \"g\"), "
		 "(\"x\", \"p\"), (\"x\", \"p\")] and len(ph(\"M\")) == 3");
	free(text);
}

/* Each process has its own counter; a process that ended leaves no rate. */
static void ioctl_rate_of_processes(void **state)
{
	struct rec r = rec_begin();
	char *text;
	int i;

	for (i = 0; i < 1000; i++) {
		r.f.pid = r.f.tid = 100 + i % 2;
		put_ioctl(&r, 0, 50000, "ioctl");
	}
	rec_put(&r, factory_process(&r.f, "exit"));
	text = rec_finish(&r);
	check_py(text, "all((lambda c: len(c) == 6 and c[-1][\"args\"][\"ioctls/s\"] == 0 and "
		       "sum(e[\"args\"][\"ioctls/s\"] for e in c) == 50000 and "
		       "all(b[\"ts\"] - a[\"ts\"] > 9999 for a, b in zip(c, c[1:])))"
		       "([e for e in ph(\"C\") if e[\"pid\"] == pid]) for pid in (100, 101))");
	free(text);
}

static void hostile_names(void **state)
{
	static const char *const nasty[] = {
		"\"}],",   "\\",	"\xff\xfe\xc0\x80", "\x01\x02\x1b[2J\x7f",
		"a\nb\tc", "</script>", "\xed\xa0\x80",	    "\xf4\x90\x80\x80",
		"",	   "\xe2\x82",
	};
	struct rec r = rec_begin();
	struct trace_event ev;
	char *text;
	size_t i;

	for (i = 0; i < sizeof(nasty) / sizeof(nasty[0]); i++) {
		struct api_fn fn = {.symbol = nasty[i], .name = nasty[i], .class = CLASS_OTHER};

		r.f.tid++;
		r.f.comm = nasty[i];
		rec_put(&r, factory_launch(&r.f, nasty[i], 1));
		ev = factory_call(&r.f, "cuInit", 10, 10);
		ev.fn = &fn;
		ev.name = nasty[i];
		ev.type = TYPE_OTHER;
		rec_put(&r, ev);
		ev = factory_process(&r.f, "exec");
		ev.kind = EVENT_LIBRARY;
		ev.type = TYPE_LIBRARY;
		ev.library = (struct event_library){nasty[i], nasty[i], nasty[i]};
		rec_put(&r, ev);
	}
	text = rec_finish(&r);
	check_py(text, "len(ph(\"X\")) == 20 and len(ph(\"i\")) == 12");
	assert_true(valid(text, strlen(text)));
	free(text);
}

/* A file truncated anywhere still has every whole line: up to the last ",\n", closed by "]". */
static void truncated_anywhere(void **state)
{
	struct rec r = rec_begin();
	size_t len, cut, end;
	char *text, *copy;
	int i;

	for (i = 0; i < 3; i++) {
		rec_put(&r, factory_alloc(&r.f, 1, i));
		rec_put(&r, factory_launch(&r.f, "void f<4>(int)", 1));
		rec_put(&r, factory_sync(&r.f, 1));
	}
	text = rec_finish(&r);
	len = strlen(text);
	copy = malloc(len + 2);
	for (cut = strchr(strchr(text, '\n') + 1, '\n') + 1 - text; cut < len; cut++) {
		for (end = cut; memcmp(text + end - 2, ",\n", 2); end--)
			;
		end -= 2;
		memcpy(copy, text, end);
		memcpy(copy + end, "]", 2);
		assert_true(valid(copy, end + 1));
	}
	check_py(copy, "len(ph(\"X\")) == 9");
	free(copy);
	free(text);
}

static void losses_are_shown(void **state)
{
	struct rec r = rec_begin();
	struct trace_end end;
	char *text;

	rec_put(&r, factory_sync(&r.f, 0));
	end = factory_end(&r.f, 1);
	end.drops[CT_DROP_CALL] = 1200;
	end.drops[CT_DROP_TASK] = 34;
	text = rec_end(&r, &end);
	check_py(text, "d[-2][\"name\"] == \"INCOMPLETE, missing: 1,200 CUDA calls, \" "
		       "\"34 records of processes and threads\" and d[-2][\"s\"] == \"g\" and "
		       "d[-2][\"args\"] == d[-1][\"args\"][\"lost\"] == {\"calls\": 1200, "
		       "\"tasks\": 34} and d[-1][\"args\"][\"complete\"] is False and "
		       "d[-1][\"args\"][\"cost_ms\"] == 0.00135");
	free(text);
}

/* More processes, threads, streams and events than the limits. */
static void bounded(void **state)
{
	struct rec r = rec_begin();
	struct trace_event ev;
	char *text;
	unsigned i;

	for (i = 0; i < 20000; i++) {
		r.f.pid = r.f.tid = 1000 + i % 5000;
		rec_put(&r, factory_launch(&r.f, "k", i));
		ev = factory_on_stream(&r.f, "cuEventRecord", i, 10);
		ev.has |= HAS_CU_EVENT;
		ev.cu_event = i;
		rec_put(&r, ev);
		r.s->out->len = r.s->out->mark = 0;
	}
	r.f.pid = r.f.tid = 77;
	for (i = 0; i < 20000; i++) {
		rec_put(&r, factory_launch(&r.f, "k", i));
		ev = factory_on_stream(&r.f, "cuEventRecord", i, 10);
		ev.has |= HAS_CU_EVENT;
		ev.cu_event = i;
		rec_put(&r, ev);
		r.s->out->len = r.s->out->mark = 0;
	}
	rec_put(&r, factory_call(&r.f, "cuCtxSynchronize", 1, 1));
	text = rec_finish(&r);
	assert_non_null(strstr(text, "\"forgotten\":"));
	assert_null(strstr(text, "\"forgotten\":0"));
	/* the limit of one process */
	assert_non_null(strstr(text, "\"id\":1024,"));
	assert_null(strstr(text, "\"id\":1025,"));
	free(text);
}

static void on_arrow(void *ctx, const struct flow_launch *from, const struct trace_event *to)
{
	++*(unsigned *)ctx;
}

static void flow_put(struct flows *fl, struct trace_event ev, uint64_t event, unsigned *arrows)
{
	ev.has |= HAS_CU_EVENT;
	ev.cu_event = event;
	flows__event(fl, &ev, on_arrow, arrows);
}

/* The limit of all processes together; a process that comes last still has arrows. */
static void bounded_in_all(void **state)
{
	struct factory f = factory(100);
	struct flows *fl = flows__new();
	unsigned arrows = 0;

	for (f.pid = 1; f.pid <= 40; f.pid++) {
		flow_put(fl, factory_launch(&f, "k", 1), 0, &arrows);
		for (uint64_t i = 1; i <= 8000; i++)
			flow_put(fl, factory_on_stream(&f, "cuEventRecord", 1, 10), i, &arrows);
	}
	assert_in_range(flows__forgotten(fl), 40 * 8000 - 262144, 40 * 8000 - 200000);
	f.pid = 1000;
	flow_put(fl, factory_launch(&f, "k", 1), 0, &arrows);
	flow_put(fl, factory_on_stream(&f, "cuEventRecord", 1, 10), 5, &arrows);
	assert_int_equal(arrows, 0);
	flow_put(fl, factory_call(&f, "cuEventSynchronize", 1, 1), 5, &arrows);
	assert_int_equal(arrows, 1);
	flows__free(fl);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(empty_trace),
		cmocka_unit_test(calls_and_names),
		cmocka_unit_test(process_named_by_main_thread),
		cmocka_unit_test(nesting_keeps_nanoseconds),
		cmocka_unit_test(arrows),
		cmocka_unit_test(no_arrows),
		cmocka_unit_test(default_streams),
		cmocka_unit_test(counters_are_rare),
		cmocka_unit_test(counters_catch_up),
		cmocka_unit_test(ioctl_rate),
		cmocka_unit_test(ioctl_rate_of_processes),
		cmocka_unit_test(allocations_have_their_class),
		cmocka_unit_test(errors_and_interrupts),
		cmocka_unit_test(hostile_names),
		cmocka_unit_test(truncated_anywhere),
		cmocka_unit_test(losses_are_shown),
		cmocka_unit_test(bounded),
		cmocka_unit_test(bounded_in_all),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
