/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Parts of a call's line written at once equal those that the visitor writes one by one. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "json_check.h"
#include "random.h"
#include "sink/sink.h"
#include "text/json.h"
#include "util/out.h"

static const struct trace_info info = {.version = "1.2.3"};

static void any_words(uint64_t *words)
{
	for (int i = 0; i < CT_MAX_WORDS; i++)
		words[i] = rnd() % 4 ? rnd() >> rnd() % 64 : 0 - rnd() % 3;
}

/* For all functions, arguments written at once equal those written one by one. */
static void test_numbers_at_once(void **state)
{
	struct visitor_ops one_by_one = json_visitor_ops;
	struct json at_once, each;
	uint64_t words[CT_MAX_WORDS];
	unsigned cnt, word_cnt;
	const struct api_fn *fns = api_fns(&cnt);

	one_by_one.numbers = NULL;
	json__init(&at_once, out__memory());
	json__init(&each, out__memory());
	each.v.ops = &one_by_one;
	for (unsigned i = 0; i < 20 * cnt; i++) {
		any_words(words);
		word_cnt = rnd() % 4 ? CT_MAX_WORDS : rnd() % CT_MAX_WORDS;
		at_once.o->len = each.o->len = 0;
		at_once.comma = each.comma = false;
		at_once.fixed_names = rnd() % 8;
		api_visit_args(&fns[i % cnt], words, word_cnt, NULL, 0, &at_once.v);
		api_visit_args(&fns[i % cnt], words, word_cnt, NULL, 0, &each.v);
		out_char(at_once.o, 0);
		out_char(each.o, 0);
		assert_string_equal(at_once.o->buf, each.o->buf);
		assert_int_equal(at_once.comma, each.comma);
	}
	out__close(at_once.o);
	out__close(each.o);
}

static void add_gpu_times(struct json *j, const struct gpu_times *t)
{
	json_micro(j, "gpu_start", t->start_ns);
	json_milli(j, "gpu_us", t->ns);
	json_f64(j, "gpu_queue_us", t->queue_ns / 1e3);
}

/* The body of a call equals what other outputs get from the visitor; JSONL's own members follow. */
static void test_body(void **state)
{
	static const char *const texts[] = {NULL, "x", "a \"longer\" one\n", "float32"};
	const struct api_fn *fn = api_fn_by_symbol("cuInit");
	struct sink *sink = sink__memory(SINK_JSONL, &info);
	uint64_t words[CT_MAX_WORDS];
	struct json body;

	json__init(&body, out__memory());
	for (int i = 0; i < 20000; i++) {
		struct gpu_times times;
		struct trace_event ev = {.kind = EVENT_CALL,
					 .type = TYPE_INIT,
					 .op = api_op_name(fn->op),
					 .name = fn->name,
					 .comm = "c",
					 .fn = fn,
					 .words = words,
					 .word_cnt = i % 2};

		any_words(words);
		for (uint8_t *p = (uint8_t *)&ev.launch; p < (uint8_t *)&ev.has_mem;
		     p += 1 + rnd() % 32)
			*p = rnd() % 2;
		ev.stack = NULL;
		ev.launch.params = NULL;
		ev.has = rnd() & ((HAS_GEMM << 1) - 1);
		ev.size = ev.ptr = words[0];
		ev.stream = words[1];
		ev.dir = rnd() % 7;
		ev.bandwidth_gbps = (double)words[2] / 1000;
		ev.ioctl_cnt = rnd() % 3;
		ev.ioctl_ns = ev.off_cpu_ns = words[3];
		ev.launch.kernel = texts[rnd() % 4];
		ev.launch.kernel_mangled = texts[rnd() % 4];
		ev.coll.datatype = texts[i % 3 ? 0 : 3];
		ev.coll.redop = ev.coll.algorithm = ev.coll.protocol = texts[i % 2 ? 0 : 3];
		ev.gemm = (struct gemm_info){.m = words[4], .a_type = texts[i % 2 ? 0 : 3]};
		ev.range_id = ev.operator_id = rnd() % 2 ? words[5] : 0;
		ev.range_text = ev.operator= texts[rnd() % 4];
		times = (struct gpu_times){words[6], words[7], words[0], rnd() % 2};
		ev.gpu_times = rnd() % 2 ? &times : NULL;
		body.o->len = 0;
		body.comma = true;
		event_visit_fields(&ev, &body.v);
		if (ev.gpu_times && times.cnt)
			add_gpu_times(&body, &times);
		out_lit(body.o, ",\"args\":{\0");
		sink->out->len = 0;
		sink__event(sink, &ev);
		if (!json_valid(sink->out->buf, sink->out->len - 1))
			fail_msg("no JSON: %.*s", (int)sink->out->len, sink->out->buf);
		out_char(sink->out, 0);
		if (!strstr(sink->out->buf, body.o->buf))
			fail_msg("%s is not in %s", body.o->buf, sink->out->buf);
	}
	out__close(body.o);
	sink__close(sink, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_numbers_at_once),
		cmocka_unit_test(test_body),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
