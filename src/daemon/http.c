// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "http.h"

#include <errno.h>
#include <event2/buffer.h>
#include <event2/event.h>
#include <event2/http.h>
#include <stdlib.h>
#include <string.h>

#include "util/log.h"
#include "util/out.h"

/* Scrapers are few, their requests small, and they do not wait. */
#define TIMEOUT_S   10
#define REQUEST_MAX 8192

struct http {
	struct evhttp *server;
	struct http_ops ops;
};

static void answer(struct evhttp_request *req, int status, const char *type, const char *text,
		   size_t len)
{
	struct evkeyvalq *headers = evhttp_request_get_output_headers(req);
	struct evbuffer *body = evbuffer_new();

	if (!body || evbuffer_add(body, text, len)) {
		evhttp_send_error(req, HTTP_INTERNAL, NULL);
	} else {
		evhttp_add_header(headers, "Content-Type", type);
		evhttp_add_header(headers, "X-Content-Type-Options", "nosniff");
		evhttp_send_reply(req, status, NULL, body);
	}
	if (body)
		evbuffer_free(body);
}

static void answer_text(struct evhttp_request *req, int status, const char *text)
{
	answer(req, status, "text/plain; charset=utf-8", text, strlen(text));
}

static void on_metrics(struct evhttp_request *req, void *ctx)
{
	const struct http *h = ctx;
	struct out *o = out__memory();

	if (!o) {
		evhttp_send_error(req, HTTP_INTERNAL, NULL);
		return;
	}
	h->ops.metrics(h->ops.ctx, o);
	answer(req, HTTP_OK, "text/plain; version=0.0.4; charset=utf-8", o->buf, o->len);
	out__close(o);
}

static void on_healthz(struct evhttp_request *req, void *ctx)
{
	const struct http *h = ctx;

	if (h->ops.healthy(h->ops.ctx))
		answer_text(req, HTTP_OK, "ok\n");
	else
		answer_text(req, HTTP_SERVUNAVAIL, "not tracing\n");
}

static void on_other(struct evhttp_request *req, void *ctx)
{
	const char *path = evhttp_uri_get_path(evhttp_request_get_evhttp_uri(req));

	(void)ctx;
	if (path && !strcmp(path, "/"))
		answer_text(req, HTTP_OK, "cudatrace: /metrics /healthz\n");
	else
		answer_text(req, HTTP_NOTFOUND, "there are /metrics and /healthz\n");
}

/* Splits ADDRESS:PORT; false when it is none. */
static bool split(const char *text, char host[128], unsigned short *port)
{
	const char *colon = strrchr(text, ':');
	size_t len = colon ? (size_t)(colon - text) : 0;
	char *end;
	long num;

	if (!colon || len >= 128)
		return false;
	if (len > 1 && text[0] == '[' && text[len - 1] == ']') {
		text++;
		len -= 2;
	}
	memcpy(host, text, len);
	host[len] = '\0';
	errno = 0;
	num = strtol(colon + 1, &end, 10);
	*port = num;
	return !errno && *end == '\0' && end > colon + 1 && num >= 0 && num <= 65535;
}

struct http *http__new(struct event_base *base, const char *listen, const struct http_ops *ops)
{
	struct http *h = calloc(1, sizeof(*h));
	unsigned short port;
	char host[128];

	if (!h || !split(listen, host, &port)) {
		err("metrics.listen: '%s' is no address with a port; write it as 127.0.0.1:9464",
		    listen);
		goto out;
	}
	h->ops = *ops;
	h->server = evhttp_new(base);
	if (!h->server)
		goto out;
	evhttp_set_allowed_methods(h->server, EVHTTP_REQ_GET | EVHTTP_REQ_HEAD);
	evhttp_set_timeout(h->server, TIMEOUT_S);
	evhttp_set_max_headers_size(h->server, REQUEST_MAX);
	evhttp_set_max_body_size(h->server, REQUEST_MAX);
	evhttp_set_cb(h->server, "/metrics", on_metrics, h);
	evhttp_set_cb(h->server, "/healthz", on_healthz, h);
	evhttp_set_gencb(h->server, on_other, h);
	errno = 0;
	if (!evhttp_bind_socket_with_handle(h->server, host[0] ? host : NULL, port)) {
		err("metrics.listen: cannot listen on %s: %s%s", listen,
		    errno ? strerror(errno) : "it is no address of this machine",
		    errno == EADDRINUSE ? ": something else does; choose another port, or end it"
					: "");
		goto out;
	}
	return h;
out:
	http__free(h);
	return NULL;
}

void http__free(struct http *h)
{
	if (!h)
		return;
	if (h->server)
		evhttp_free(h->server);
	free(h);
}
