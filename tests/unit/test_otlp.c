/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Against a collector in the same loop; the suite of that name has one of its own. */
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

#include "daemon/otlp.h"
#include "daemon/otlp_json.h"
#include "json_check.h"
#include "util/out.h"

/* What the collector answers, and the last that it got. */
struct collector {
	struct event_base *base;
	struct evhttp *server;
	char endpoint[64];
	int code, requests;
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
		assert_string_equal(evhttp_request_get_uri(req), "/v1/metrics");
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
	(void)state;
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

	(void)state;
	memset(name, 0xff, sizeof(name) - 1);
	add(o, name, 3);
	finish(&c, o);
	otlp__stats(o, &s);
	assert_int_equal(s.dropped + s.queued + s.failed, 0);
	assert_true(s.sent > 3);
	assert_non_null(strstr(c.spans, "\"traceId\":\"01000000000000000000000000000000\""));
	assert_non_null(strstr(c.spans, "\"startTimeUnixNano\":\"5\",\"endTimeUnixNano\":\"6\""));
	assert_non_null(strstr(c.spans, "\"status\":{\"code\":2,"));
	/* One process, once. */
	assert_null(strstr(strstr(c.spans, "\"resource\"") + 1, "\"resource\""));
	close_both(&c, o);
}

static void bounded(void **state)
{
	struct collector c = {0};
	struct otlp *o = open_both(&c, 100);
	struct otlp_stats s;

	(void)state;
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
	/* The end does not wait for a collector that does not want to. */
	finish(&c, o);
	assert_int_equal(c.requests, 3);
	close_both(&c, o);
}

static void refused(void **state)
{
	struct collector c = {0};
	struct otlp *o = open_both(&c, 4096);
	struct otlp_stats s;

	(void)state;
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

/* Freed with a request under way, one that waits for its turn, and spans in the queue. */
static void freed_early(void **state)
{
	struct collector c = {0};
	struct otlp *o = open_both(&c, 4096);

	(void)state;
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
		cmocka_unit_test(endpoints),   cmocka_unit_test(hostile_names),
		cmocka_unit_test(bounded),     cmocka_unit_test(refused),
		cmocka_unit_test(freed_early),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
