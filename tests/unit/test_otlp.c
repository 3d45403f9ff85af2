/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* With a collector in the same loop; the suite otlp has its own collector. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <event2/buffer.h>
#include <event2/event.h>
#include <event2/http.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "otlp/otlp.h"
#include "otlp/iter.h"
#include "otlp/message.h"
#include "otlp/queue.h"
#include "json_check.h"
#include "util/out.h"

/* The collector's response, and the last request that it received. */
struct collector {
	struct event_base *base;
	struct evhttp *server;
	char endpoint[64];
	int code, requests, events;
	const char *retry_after, *answer;
	char *spans;
	struct metrics *m;
};

static void on_request(struct evhttp_request *req, void *ctx)
{
	struct evbuffer *in = evhttp_request_get_input_buffer(req), *out = evbuffer_new();
	size_t len = evbuffer_get_length(in);
	struct collector *c = ctx;
	char *text = malloc(len + 1);

	evbuffer_copyout(in, text, len);
	text[len] = '\0';
	assert_true(json_valid(text, len));
	c->requests++;
	if (!strcmp(evhttp_request_get_uri(req), "/v1/traces")) {
		free(c->spans);
		c->spans = text;
	} else {
		bool is_event = !strcmp(evhttp_request_get_uri(req), "/v1/logs");

		c->events += is_event;
		assert_true(is_event || !strcmp(evhttp_request_get_uri(req), "/v1/metrics"));
		free(text);
	}
	if (c->retry_after)
		evhttp_add_header(evhttp_request_get_output_headers(req), "Retry-After",
				  c->retry_after);
	evbuffer_add_printf(out, "%s", c->answer ?: "{}");
	evhttp_send_reply(req, c->code, NULL, out);
	evbuffer_free(out);
}

static const struct metrics *metrics_now(void *ctx, struct metrics_self *self)
{
	*self = (struct metrics_self){.version = "1", .driver_version = "580.1", .start_time = 1};
	return ((struct collector *)ctx)->m;
}

static struct otlp *open_both(struct collector *c, uint64_t queue)
{
	struct evhttp_bound_socket *s;
	struct otlp_opts o = {
		.version = "1",
		.headers_file = "",
		.queue = queue,
		.metrics = metrics_now,
		.ctx = c,
		.interval_ns = 3600000000000ull,
	};
	struct sockaddr_in a;
	socklen_t len = sizeof(a);

	c->code = 200;
	c->base = event_base_new();
	c->server = evhttp_new(c->base);
	c->m = metrics__new(1000);
	evhttp_set_gencb(c->server, on_request, c);
	s = evhttp_bind_socket_with_handle(c->server, "127.0.0.1", 0);
	assert_non_null(s);
	assert_int_equal(getsockname(evhttp_bound_socket_get_fd(s), (struct sockaddr *)&a, &len),
			 0);
	snprintf(c->endpoint, sizeof(c->endpoint), "http://127.0.0.1:%d/", ntohs(a.sin_port));
	return otlp__new(c->base, c->endpoint, &o);
}

static void close_both(struct collector *c, struct otlp *o)
{
	otlp__free(o);
	evhttp_free(c->server);
	event_base_free(c->base);
	metrics__free(c->m);
	free(c->spans);
}

static void run_ms(struct collector *c, unsigned ms)
{
	const struct timeval tv = {.tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000};

	event_base_loopexit(c->base, &tv);
	event_base_dispatch(c->base);
}

static void finish(struct collector *c, struct otlp *o)
{
	otlp__finish(o);
	for (int i = 0; i < 500 && !otlp__is_done(o); i++)
		run_ms(c, 10);
	assert_true(otlp__is_done(o));
}

static void add(struct otlp *o, const char *name, unsigned cnt)
{
	const struct labels l = {.namespace = "llm", .pod = "p", .container = "c0ffee"};
	const struct otlp_span s = {
		.ids = {{1}, {2}},
		.labels = &l,
		.command = "\x80\"\\\n",
		.pid = 7,
		.name = name,
		.function = name,
		.start_ns = 5,
		.end_ns = 6,
		.error = "CUDA_ERROR_UNKNOWN",
	};

	while (cnt--)
		otlp__span(o, &s);
}

static void endpoints(void **state)
{
	assert_null(otlp_endpoint_problem("http://127.0.0.1:4318"));
	assert_null(otlp_endpoint_problem("http://[::1]:4318/otlp"));
	assert_null(otlp_endpoint_problem("http://collector"));
	assert_non_null(strstr(otlp_endpoint_problem("https://x"), "TLS"));
	assert_non_null(strstr(otlp_endpoint_problem("http://u:p@x"), "headers_file"));
	assert_non_null(strstr(otlp_endpoint_problem("http://x?a"), "path"));
	assert_non_null(otlp_endpoint_problem("http://"));
	assert_non_null(otlp_endpoint_problem("x:4318"));
	assert_non_null(otlp_endpoint_problem("http://x:y"));
}

static void hostile_names(void **state)
{
	static char name[5000];
	struct collector c = {0};
	struct otlp *o = open_both(&c, 100);
	struct otlp_stats s;

	memset(name, 0xff, sizeof(name) - 1);
	add(o, name, 3);
	finish(&c, o);
	otlp__stats(o, &s);
	assert_int_equal(s.dropped + s.queued + s.failed, 0);
	assert_true(s.sent > 3);
	assert_non_null(strstr(c.spans, "\"traceId\":\"01000000000000000000000000000000\""));
	assert_non_null(strstr(c.spans, "\"startTimeUnixNano\":\"5\",\"endTimeUnixNano\":\"6\""));
	assert_non_null(strstr(c.spans, "\"status\":{\"code\":2,"));
	/* One process appears once. */
	assert_null(strstr(strstr(c.spans, "\"resource\"") + 1, "\"resource\""));
	close_both(&c, o);
}

static void bounded(void **state)
{
	struct collector c = {0};
	struct otlp *o = open_both(&c, 100);
	struct otlp_stats s;

	c.code = 503;
	c.retry_after = "3600";
	add(o, "a", 1000);
	run_ms(&c, 300);
	add(o, "b", 1000);
	otlp__stats(o, &s);
	assert_int_equal(s.queued, 100);
	assert_int_equal(s.dropped, 1900);
	assert_int_equal(s.failed, 1);
	assert_int_equal(c.requests, 1);
	/* The end does not wait for a collector that does not respond. */
	finish(&c, o);
	assert_int_equal(c.requests, 3);
	close_both(&c, o);
}

static void add_events(struct otlp *o, unsigned cnt)
{
	static const struct labels none;
	const struct otlp_dossier d = {
		.labels = &none,
		.command = "\x80\"\\\n",
		.pid = 7,
		.is_failure = true,
		.reason = "hang",
		.folder = "dossier-1",
		.cause = "\xff\"",
		.verdict = "",
	};

	while (cnt--)
		otlp__dossier(o, &d);
}

/* Each is a request; they wait for the collector, and a full queue takes no more. */
static void events(void **state)
{
	struct collector c = {0};
	struct otlp *o = open_both(&c, 100);
	struct otlp_stats s;

	c.code = 503;
	c.retry_after = "3600";
	add_events(o, 1 + OTLP_EVENTS_MAX + 3);
	run_ms(&c, 300);
	otlp__stats(o, &s);
	assert_int_equal(s.dropped, 3);
	assert_int_equal(c.events, 1);
	c.code = 200;
	finish(&c, o);
	otlp__stats(o, &s);
	assert_int_equal(s.dropped, 3);
	assert_int_equal(c.events, 2 + OTLP_EVENTS_MAX);
	close_both(&c, o);
}

/* Bytes are limited, too: names may be long, and are longer as JSON. */
static void bounded_bytes(void **state)
{
	static char name[600];
	struct collector c = {0};
	struct otlp *o = open_both(&c, 1000);
	struct otlp_stats s;

	c.code = 503;
	c.retry_after = "3600";
	memset(name, 1, sizeof(name) - 1);
	add(o, name, 1000);
	run_ms(&c, 300);
	add(o, name, 1000);
	otlp__stats(o, &s);
	assert_in_range(s.queued, 50, 900);
	assert_true(s.queued_bytes <= 1000 * OTLP_SPAN_SZ);
	assert_int_equal(s.queued + s.dropped, 2000);
	close_both(&c, o);
}

static unsigned count_of(struct otlp_queue *q, const char *text)
{
	unsigned cnt = 0;

	for (struct otlp_item *it = q->first; it; it = it->next)
		cnt += it->len == strlen(text) && !memcmp(it->text, text, it->len);
	return cnt;
}

/* One process makes many spans: those of others stay in the queue, in order. */
static void shared_queue(void **state)
{
	struct otlp_item *it;
	struct otlp_queue q;
	unsigned dropped = 0;

	otlp_queue__init(&q, 100);
	for (int i = 0; i < 10; i++)
		assert_int_equal(otlp_queue__put(&q, 1, "mine", 2, 4, 0, 0), 0);
	for (int i = 0; i < 1000; i++)
		dropped += otlp_queue__put(&q, 2, "his", 2, 3, 0, 0);
	assert_int_equal(dropped, 910);
	assert_int_equal(count_of(&q, "mine"), 10);
	assert_int_equal(count_of(&q, "his"), 90);
	/* A process that comes later finds room. */
	for (int i = 0; i < 20; i++)
		dropped += otlp_queue__put(&q, 3, "late", 2, 4, 0, 0);
	assert_int_equal(dropped, 930);
	assert_int_equal(count_of(&q, "late"), 20);
	assert_int_equal(count_of(&q, "his"), 70);
	it = otlp_queue__pop(&q);
	assert_memory_equal(it->text, "mine", 4);
	free(it);
	/* Bytes being sent count. */
	assert_int_equal(otlp_queue__put(&q, 3, "late", 2, 4, 50, 0), 50);
	assert_int_equal(q.cnt, 50);
	assert_int_equal(otlp_queue__put(&q, 3, "late", 2, 4, 0, 100 * OTLP_SPAN_SZ), 51);
	assert_int_equal(q.cnt + q.bytes, 0);
	otlp_queue__put(&q, 4, "last", 2, 4, 0, 0);
	otlp_queue__clear(&q);
	assert_null(q.by_pid.first);
}

static bool mark(struct otlp_iters *its, uint32_t pid, uint32_t tid)
{
	static const struct labels none;
	static struct api_fn fn;
	struct trace_event ev = {.pid = pid, .tid = tid, .fn = &fn};
	struct otlp_span s = {.labels = &none, .command = ""};

	return otlp_iters__mark(its, &ev, 0, &s, 0);
}

/* A process with many threads removes none of the others' threads. */
static void iterations(void **state)
{
	struct quotas quotas;
	struct quota *q = quotas__get(&quotas, QUOTA_ITERATIONS);
	struct otlp_iters *its;

	quotas__init(&quotas, true, true);
	its = otlp_iters__new(q);
	assert_false(mark(its, 1, 1));
	for (uint32_t tid = 1; tid <= 10000; tid++)
		assert_false(mark(its, 2, tid));
	assert_int_equal(q->used, q->share + 1);
	assert_int_equal(q->full_cnt, 10000 - q->share);
	assert_true(mark(its, 1, 1));
	/* Its oldest one was removed. */
	assert_true(mark(its, 2, 10000));
	otlp_iters__forget(its, 2);
	assert_int_equal(q->used, 1);
	assert_false(mark(its, 2, 10000));
	otlp_iters__free(its);
	assert_int_equal(q->used, 0);
}

static void refused(void **state)
{
	struct collector c = {0};
	struct otlp *o = open_both(&c, 4096);
	struct otlp_stats s;

	c.answer = "{\"partialSuccess\": {\"rejectedSpans\": 2}}";
	add(o, "a", 512);
	run_ms(&c, 200);
	otlp__stats(o, &s);
	assert_int_equal(s.sent, 510);
	assert_int_equal(s.dropped, 2);
	c.code = 400;
	add(o, "a", 1024);
	run_ms(&c, 500);
	otlp__stats(o, &s);
	assert_int_equal(s.dropped, 2 + 1024);
	assert_int_equal(s.queued, 0);
	assert_int_equal(c.requests, 3);
	close_both(&c, o);
}

/* Freed with one request being sent, one waiting, and spans in the queue. */
static void freed_early(void **state)
{
	struct collector c = {0};
	struct otlp *o = open_both(&c, 4096);

	add(o, "a", 700);
	close_both(&c, o);
	o = open_both(&c, 4096);
	c.spans = NULL;
	c.code = 503;
	add(o, "a", 700);
	run_ms(&c, 100);
	close_both(&c, o);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(endpoints),	 cmocka_unit_test(hostile_names),
		cmocka_unit_test(bounded),	 cmocka_unit_test(events),
		cmocka_unit_test(refused),	 cmocka_unit_test(freed_early),
		cmocka_unit_test(bounded_bytes), cmocka_unit_test(iterations),
		cmocka_unit_test(shared_queue),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
