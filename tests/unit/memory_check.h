/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* For tests of the report's analyses: calls as in a saved trace, and the results. */
#ifndef TESTS_MEMORY_CHECK_H
#define TESTS_MEMORY_CHECK_H

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>

#include "factory.h"
#include "model/capture.h"
#include "model/event_path.h"
#include "model/mem.h"
#include "report/memory/memory_priv.h"
#include "util/out.h"

#define UNUSED __attribute__((unused))
#define MIB    1048576ull

static struct factory f;
static struct trace_info info;
static struct report *r;
static const struct memory *m;
static struct capture_set captures;
/* The live sums of the same calls; NULL: not kept. */
static struct mem live_mem, *live;

UNUSED static int setup(void **state)
{
	const struct report_opts opts = {.top = 10};

	f = factory(100);
	info = factory_info();
	r = report__new(&opts, &info);
	m = r->an[AN_MEMORY];
	return 0;
}

UNUSED static int teardown(void **state)
{
	report__free(r);
	capture_set__clear(&captures);
	mem__clear(&live_mem);
	live = NULL;
	return 0;
}

UNUSED static struct trace_event begin(const char *symbol)
{
	return factory_call(&f, symbol, 1000, 2000);
}

/* Sets what the reader of saved traces sets. */
UNUSED static uint64_t send(struct trace_event *ev)
{
	if (ev->kind == EVENT_CALL)
		capture_set__event(&captures, ev);
	if (live && ev->kind == EVENT_CALL &&
	    (ev->type == TYPE_MEMORY || ev->type == TYPE_CONTEXT || ev->type == TYPE_INIT))
		mem__event(live, ev);
	report__event(r, ev);
	return ev->id;
}

/* args: the members of "args" in JSONL, with ' in place of ". */
UNUSED static uint64_t call_args(struct trace_event *ev, const char *fmt, ...)
{
	static char args[2048];
	struct event_text text = {.args = args};
	va_list ap;

	va_start(ap, fmt);
	text.args_len = vsnprintf(args, sizeof(args), fmt, ap);
	va_end(ap);
	for (char *p = args; *p; p++)
		if (*p == '\'')
			*p = '"';
	ev->text = &text;
	return send(ev);
}

UNUSED static uint64_t process(const char *what)
{
	struct trace_event ev = factory_process(&f, what);

	return send(&ev);
}

UNUSED static uint64_t alloc(const char *symbol, uint64_t ptr, uint64_t size)
{
	struct trace_event ev = begin(symbol);

	ev.has = HAS_SIZE | HAS_PTR;
	ev.ptr = ptr;
	ev.size = size;
	return call_args(&ev, "'dptr':'0x%llx','bytesize':%llu", (unsigned long long)ptr,
			 (unsigned long long)size);
}

UNUSED static uint64_t release_err(const char *symbol, uint64_t ptr, int32_t result)
{
	struct trace_event ev = begin(symbol);

	ev.has = HAS_PTR;
	ev.ptr = ptr;
	ev.result = result;
	ev.is_error = result;
	return call_args(&ev, "'dptr':'0x%llx'", (unsigned long long)ptr);
}

UNUSED static uint64_t release(const char *symbol, uint64_t ptr)
{
	return release_err(symbol, ptr, 0);
}

UNUSED static void context(uint64_t ctx, int dev)
{
	struct trace_event ev = begin("cuDevicePrimaryCtxRetain");

	call_args(&ev, "'pctx':'0x%llx','dev':%d", (unsigned long long)ctx, dev);
}

UNUSED static void set_current(uint64_t ctx)
{
	struct trace_event ev = begin("cuCtxSetCurrent");

	call_args(&ev, "'ctx':'0x%llx'", (unsigned long long)ctx);
}

UNUSED static void finish(void)
{
	static struct trace_end end;

	end = factory_end(&f, 1);
	report__finish(r, &end, NULL, 0);
}

UNUSED static char *json_of(void)
{
	struct out *o = out__memory();
	struct json j;
	char *s;

	json__init(&j, o);
	report__json(r, &j);
	s = strndup(o->buf, o->len);
	out__close(o);
	return s;
}

UNUSED static void check_json(const char *part)
{
	char want[1024], *s = json_of();

	snprintf(want, sizeof(want), "%s", part);
	for (char *p = want; *p; p++)
		if (*p == '\'')
			*p = '"';
	if (!strstr(s, want))
		fail_msg("no %s in %s", want, s);
	free(s);
}

UNUSED static void check_kind(enum block_kind kind, uint64_t allocs, uint64_t frees, uint64_t live,
			      uint64_t peak)
{
	const struct kind_stat *k = &m->kinds[kind];

	assert_int_equal(k->allocs, allocs);
	assert_int_equal(k->frees, frees);
	assert_int_equal(k->live + k->kept, live);
	assert_int_equal(k->peak, peak);
}

UNUSED static void copy(const char *symbol, enum copy_dir dir, uint64_t size, const char *args)
{
	struct trace_event ev = factory_copy(&f, symbol, dir, size, 1000);

	if (!dir)
		ev.has &= ~(HAS_DIR | HAS_BANDWIDTH);
	call_args(&ev, "%s", args);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

UNUSED static void on(const char *symbol, uint64_t stream, const char *args)
{
	struct trace_event ev = factory_on_stream(&f, symbol, stream, 1000);

	call_args(&ev, "%s", args);
}

UNUSED static void with_event(const char *symbol, uint64_t stream, uint64_t event)
{
	struct trace_event ev = factory_on_stream(&f, symbol, stream, 1000);

	ev.has |= HAS_CU_EVENT;
	ev.cu_event = event;
	send(&ev);
}

#endif /* TESTS_MEMORY_CHECK_H */
