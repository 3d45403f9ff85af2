/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Answers of an untrusted collector. A byte selects whether the input is the whole answer or
 * follows a well-formed head, and whether the connection ends after it; the next byte is the length
 * of its first piece. libevent parses it, and our code interprets the result.
 */
#include "fuzz.h"

#include <assert.h>
#include <event2/event.h>
#include <signal.h>
#include <stdio.h>

#include "otlp/http.h"
#include "sockets.h"

static unsigned answers;

static void on_answer(void *ctx, const struct otlp_answer *a)
{
	answers++;
	assert(a->ok ? !a->retry : a->why != NULL);
	assert(a->retry_after_ns <= 3600000000000ull);
	assert(!a->rejected || a->ok);
}

static void put(const void *data, size_t size)
{
	if (sock_connected >= 0)
		sock_put(sock_connected, data, size);
}

static void hang_up(void)
{
	if (sock_connected >= 0)
		sock_hang_up(sock_connected);
	sock_connected = -1;
}

static void put_head(struct input *in)
{
	static const char *const retry[] = {"", "Retry-After: ", "Retry-After: Wed, ",
					    "Transfer-Encoding: chunked\r\n"};
	static const unsigned codes[] = {200, 200, 429, 503, 100, 204, 301, 404};
	uint8_t what = take8(in);
	char head[256];

	put(head, snprintf(head, sizeof(head), "HTTP/1.%d %u x\r\n%s%s", what >> 7, codes[what & 7],
			   what & 0x40 ? "" : "Content-Length: 64\r\n", retry[what >> 4 & 3]));
}

static void turn(struct event_base *base)
{
	event_base_loop(base, EVLOOP_NONBLOCK);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct otlp_http_opts opts = {
		.endpoint = "http://127.0.0.1:4318",
		.path = "/v1/traces",
		.version = "fuzz",
		.headers_file = "",
	};
	static struct event_base *base;
	static struct otlp_http *http;
	struct input in = {data, size};
	uint8_t how = take8(&in);
	size_t first = take8(&in), len = 0;
	if (!http) {
		signal(SIGPIPE, SIG_IGN); /* as in the daemon */
		base = event_base_new();
		http = otlp_http__new(base, NULL, &opts);
		assert(http);
	}
	answers = 0;
	assert(otlp_http__post(http, "{}", 2, on_answer, NULL));
	for (int i = 0; i < 4 && !answers && !len; i++) {
		turn(base);
		if (sock_connected >= 0)
			sock_take(sock_connected, &len);
	}
	if (how & 1)
		put_head(&in);
	first = first < in.left ? first : in.left;
	put(in.p, first);
	turn(base);
	put(in.p + first, in.left - first);
	turn(base);
	/* The connection has not ended, but has no more data. */
	for (int i = 0; i < 8 && !answers; i++) {
		hang_up();
		turn(base);
	}
	if (how & 2)
		hang_up();
	assert(answers == 1);
	return 0;
}
