/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Lines that worker threads format for the daemon's files and flight recorder equal its own, in the
 * same order, with marks in place; the end of a file counts them. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "daemon/formatter.h"
#include "factory.h"
#include "sink/delivery/workers.h"
#include "sink/delivery/items.h"
#include "util/out.h"

#define EVENT_CNT 30000
#define MARK	  "-- mark\n"

static const struct trace_info info = {.version = "1.2.3", .base_ns = FACTORY_BASE_NS};

/* The output of both. */
struct got {
	struct out *file, *record;
	struct trace_end end;
	uint64_t frames, asked;
	_Atomic uint64_t newest_ns;
	pthread_t caller;
	unsigned refuse; /* other threads than the caller: one of so many lines; 0: none */
};

static void put_frame(struct out *o, const struct formatter_text *t)
{
	size_t n = ZSTD_decompress(out_reserve(o, t->len), t->len, t->frame, t->frame_len);

	assert_int_equal(n, t->len);
	o->len += n;
}

static bool file(void *ctx, const struct formatter_text *t, size_t *at, bool is_caller)
{
	struct got *g = ctx;
	struct line l;

	assert_int_equal(is_caller, pthread_equal(g->caller, pthread_self()));
	assert_true(t->now_ns <= g->newest_ns);
	/* Every other frame is taken line by line. */
	if (!*at && t->frame && g->frames++ % 2) {
		put_frame(g->file, t);
		line__count_all(t->sums, &g->end);
		return true;
	}
	for (size_t was = *at; formatter_text__next(t, at, &l); was = *at) {
		if (!is_caller && (!l.len || (g->refuse && rand() % g->refuse == 0))) {
			*at = was;
			g->asked++;
			return false;
		}
		out_bytes(g->file, l.text, l.len);
		if (l.len)
			line__count(&l, &g->end);
		else
			out_lit(g->file, MARK);
	}
	return true;
}

static void record(void *ctx, const struct formatter_text *t)
{
	struct got *g = ctx;
	struct line l;
	size_t at = 0;

	if (t->frame)
		put_frame(g->record, t);
	else
		while (formatter_text__next(t, &at, &l))
			out_bytes(g->record, l.text, l.len);
}

static void free_got(struct got *g)
{
	out__close(g->file);
	out__close(g->record);
}

/* Longer than any batch. */
static struct trace_event make_stack(void)
{
	static char name[9000];
	static struct {
		struct stack stack;
		struct stack_frame frames[100];
	} big = {.stack = {.id = 1, .frame_cnt = 100}};

	memset(name, 'n', sizeof(name) - 1);
	for (int f = 0; f < 100; f++)
		big.frames[f] = (struct stack_frame){.symbol = name};
	return (struct trace_event){.kind = EVENT_STACK,
				    .type = TYPE_STACK,
				    .op = "stack",
				    .name = "stack",
				    .comm = "",
				    .stack = &big.stack};
}

static struct trace_event make(struct factory *f, unsigned i)
{
	struct trace_event ev;

	if (i % 10000 == 9999)
		return make_stack();
	if (i % 100 == 99)
		return (struct trace_event){.kind = EVENT_PROCESS,
					    .type = TYPE_PROCESS,
					    .op = "exit",
					    .name = "exit",
					    .comm = "w"};
	ev = factory_call(f, i % 3 ? "cuLaunchKernel" : "cuMemAlloc_v2", 100, 1000);
	ev.words = f->words;
	ev.word_cnt = ev.fn->arg_cnt;
	f->words[0] = i;
	ev.unfinished = i % 50 == 0;
	return ev;
}

static void run(struct got *g, unsigned threads, unsigned refuse, bool frames, size_t wait)
{
	const struct formatter_opts o = {.info = &info,
					 .threads = threads,
					 .frames = frames,
					 .wait = wait,
					 .file = file,
					 .record = record,
					 .ctx = g};
	struct factory f = factory(7);
	struct formatter *l;
	char more[64];

	*g = (struct got){.file = out__memory(),
			  .record = out__memory(),
			  .caller = pthread_self(),
			  .refuse = refuse};
	l = formatter__new(&o);
	assert_non_null(l);
	for (unsigned i = 0; i < EVENT_CNT; i++) {
		struct trace_event ev = make(&f, i);

		g->newest_ns = 1000000ull * i;
		/* At the same address, for another process. */
		snprintf(more, sizeof(more), ",\"pod\":\"p%u\"", i / 70 % 5);
		formatter__event(l, &ev, i % 7 ? more : NULL, g->newest_ns);
		if (i % 4001 == 4000)
			formatter__mark(l, g->newest_ns);
		if (i % 7001 == 7000)
			formatter__release(l);
		if (i % 900 == 0)
			formatter__tick(l, g->newest_ns);
	}
	formatter__release(l);
	formatter__free(l);
}

static void check_same(const struct got *want, const struct got *got)
{
	assert_int_equal(got->file->len, want->file->len);
	assert_memory_equal(got->file->buf, want->file->buf, want->file->len);
	assert_int_equal(got->record->len, want->record->len);
	assert_memory_equal(got->record->buf, want->record->buf, want->record->len);
	assert_memory_equal(&got->end, &want->end, sizeof(want->end));
}

static void test_same(void **state)
{
	struct got want, got;
	uint64_t asked = 0;

	run(&want, 0, 0, false, 0);
	assert_int_equal(want.end.call_cnt, EVENT_CNT - EVENT_CNT / 100);
	assert_int_equal(want.end.event_cnt, EVENT_CNT - EVENT_CNT / 10000);
	assert_non_null(strstr(want.file->buf, ",\"pod\":\"p3\"}\n" MARK));
	run(&got, 0, 0, true, 1 << 20);
	check_same(&want, &got);
	free_got(&got);
	for (unsigned threads = 1; threads <= 3; threads++) {
		for (unsigned how = 0; how < 4; how++) {
			run(&got, threads, how & 1 ? 500 : 0, how & 2, 0);
			check_same(&want, &got);
			assert_int_equal(got.frames > 0, how >= 2);
			asked += got.asked;
			free_got(&got);
		}
	}
	assert_true(asked > 0);
	free_got(&want);
}

/* One formatted batch takes at most the documented memory, whatever the names of kernels. */
static void test_bound(void **state)
{
	struct sink *s = sink__memory(SINK_JSONL, &info), *words;
	struct item_names names = {0};
	struct items is = {0};
	struct factory f = factory(7);
	struct trace_event ev;
	char kernel[8192], mangled[4096], more[1024];

	assert_non_null(s);
	words = sink__copy(s);
	memset(kernel, 1, sizeof(kernel));
	kernel[sizeof(kernel) - 1] = 0;
	memset(mangled, 2, sizeof(mangled));
	mangled[sizeof(mangled) - 1] = 0;
	memset(more, 'x', sizeof(more));
	more[sizeof(more) - 1] = 0;
	ev = factory_call(&f, "cuLaunchKernel", 1, 1);
	ev.has = HAS_LAUNCH;
	ev.launch = (struct launch_info){.kernel = kernel, .kernel_mangled = mangled};
	assert_true(items__get_room(&is));
	while (items__put_call(&is, &names, &ev, more, NULL))
		;
	assert_true(is.cnt > 10);
	items__format(&is, words);
	assert_true(words->out->len > ITEMS_TEXT_SZ / 4);
	assert_true(words->out->cap <= ITEMS_TEXT_SZ);
	items__free(&is);
	sink__free_copy(words);
	sink__close(s, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_same),
		cmocka_unit_test(test_bound),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
