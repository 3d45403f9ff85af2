/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Events of the HTML page: those kept, those merged, and a page that survives hostile names. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "factory.h"
#include "report/page/html.h"
#include "report/page/html_events.h"

/* Reads the next LEB128 number of the columns. */
static uint64_t varint(const char **p)
{
	uint64_t x = 0;

	for (unsigned shift = 0;; shift += 7) {
		uint8_t b = (uint8_t) * (*p)++;

		x |= (uint64_t)(b & 127) << shift;
		if (b < 128)
			return x;
	}
}

static int64_t zigzag(const char **p)
{
	uint64_t x = varint(p);

	return (int64_t)(x >> 1) ^ -(int64_t)(x & 1);
}

static void test_columns(void **state)
{
	struct html_events *h = html_events__new(FACTORY_BASE_NS, 100);
	struct out *meta = out__memory(), *columns = out__memory();
	struct factory f = factory(7);
	struct trace_event inner, outer;
	const char *p;

	/* The nested call comes first, as in a trace; one began before the trace. */
	outer = factory_call(&f, "cuCtxSynchronize", 0, 1000);
	outer.start_ns = FACTORY_BASE_NS - 500;
	inner = factory_call(&f, "cuEventQuery", 0, 0);
	inner.start_ns = FACTORY_BASE_NS + 100;
	inner.end_ns = FACTORY_BASE_NS + 150;
	inner.id = 1ull << 40;
	html_events__event(h, &inner);
	html_events__event(h, &outer);
	assert_int_equal(html_events__write(h, meta, columns), 0);
	p = columns->buf;
	assert_int_equal(zigzag(&p), -500);
	assert_int_equal(zigzag(&p), 600);
	assert_int_equal(varint(&p), outer.end_ns - outer.start_ns);
	assert_int_equal(varint(&p), 50);
	assert_int_equal(varint(&p), 1); /* texts in order of arrival */
	assert_int_equal(varint(&p), 0);
	assert_int_equal(varint(&p), 0); /* no details */
	assert_int_equal(varint(&p), 0);
	assert_int_equal(zigzag(&p), outer.id);
	assert_int_equal(zigzag(&p),
			 -(int64_t)outer.id); /* an id of more than 32 bits is dropped */
	assert_ptr_equal(p, columns->buf + columns->len);
	out__close(meta);
	out__close(columns);
	html_events__free(h);
}

/* Every event is either kept or in a cell, for any durations; the longest are kept. */
static void test_merge(void **state)
{
	static const uint64_t spreads[] = {1, 7, 100, 1000000, 1ull << 50};

	for (unsigned s = 0; s < sizeof(spreads) / sizeof(spreads[0]); s++) {
		struct html_events *h = html_events__new(FACTORY_BASE_NS, 64);
		uint64_t cells = 0, x = 88172645463325252ull;

		for (unsigned i = 0; i < 5000; i++) {
			struct factory f = factory(7 + i % 3);
			struct trace_event ev;

			x ^= x << 13;
			x ^= x >> 7;
			x ^= x << 17;
			/* over an hour: cells double */
			f.now_ns += i * 1000000000ull;
			ev = factory_call(&f, "cuMemFree_v2", 0, x % spreads[s]);
			html_events__event(h, &ev);
		}
		assert_false(h->failed);
		assert_true(h->cnt <= 64);
		assert_int_equal(h->cnt + h->merged_cnt, 5000);
		for (unsigned l = 0; l < h->lane_cnt; l++) {
			for (unsigned c = 0; h->lane_at[l]->cells && c < CELLS; c++)
				cells += h->lane_at[l]->cells[c].cnt;
		}
		assert_int_equal(cells, h->merged_cnt);
		for (size_t i = 0; i < h->cnt; i++)
			assert_true(h->evs[i].dur >= h->below_ns);
		html_events__free(h);
	}
}

/* More threads than lanes: one extra lane takes the rest. */
static void test_lanes(void **state)
{
	struct html_events *h = html_events__new(FACTORY_BASE_NS, 10000);
	struct out *meta = out__memory(), *columns = out__memory();

	for (unsigned i = 0; i < MEMLIMIT_PAGE_MAX + 100; i++) {
		struct factory f = factory(1 + i);
		struct trace_event ev = factory_call(&f, "cuMemFree_v2", 10, 10);

		html_events__event(h, &ev);
	}
	assert_int_equal(html_events__write(h, meta, columns), 0);
	assert_int_equal(h->lane_cnt, MEMLIMIT_PAGE_MAX + 1);
	assert_int_equal(h->lane_at[MEMLIMIT_PAGE_MAX - 1]->cnt, 1);
	assert_int_equal(h->lane_at[MEMLIMIT_PAGE_MAX]->cnt, 100);
	assert_string_equal(h->lane_at[MEMLIMIT_PAGE_MAX]->comm, "(others)");
	out__close(meta);
	out__close(columns);
	html_events__free(h);
}

static size_t count(const struct out *o, const char *what)
{
	size_t cnt = 0, len = strlen(what);

	for (const char *p = o->buf; (p = memmem(p, (size_t)(o->buf + o->len - p), what, len));
	     p += len)
		cnt++;
	return cnt;
}

static void test_hostile(void **state)
{
	static const char report[] = "{\"a\":\"</script><!--{{nonce}}<script>\"}";
	struct html_events *h = html_events__new(FACTORY_BASE_NS, 100);
	struct out *page = out__memory(), *plain = out__memory();
	struct factory f = factory(7);
	struct trace_event ev;

	assert_int_equal(html__write(plain, "{}", 2, h), 0); /* no events at all */
	ev = factory_call(&f, "cuLaunchKernel", 0, 10);
	ev.has |= HAS_LAUNCH;
	ev.launch.kernel = "</script><!--{{columns}}";
	ev.comm = "<script>";
	html_events__event(h, &ev);
	assert_int_equal(html__write(page, report, sizeof(report) - 1, h), 0);
	assert_int_equal(count(page, "<script"), count(plain, "<script"));
	assert_int_equal(count(page, "</script"), count(plain, "</script"));
	assert_int_equal(count(page, "<!--"), count(plain, "<!--"));
	assert_int_equal(count(page, "{{nonce}}"), 1); /* text of the report: not filled in */
	out__close(page);
	out__close(plain);
	html_events__free(h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_columns),
		cmocka_unit_test(test_merge),
		cmocka_unit_test(test_lanes),
		cmocka_unit_test(test_hostile),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
