/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "http.h"

#include <errno.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/http.h>
#include <event2/keyvalq_struct.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <zlib.h>

#include "otlp.h"
#include "util/log.h"
#include "util/privs.h"

/* Timeout of a request, from the name lookup to the answer's last byte. evhttp's own timeout
 * restarts with each byte. */
#define TIMEOUT_S	  10
#define ANSWER_MAX	  65536
#define PORT		  4318
#define RETRY_AFTER_MAX_S 3600
#define HEADER_MAX	  16384
/* Limit of unsolicited "100 Continue" answers. */
#define CONTINUE_MAX 8

struct otlp_http {
	struct event_base *base;
	struct evdns_base *dns;
	struct evhttp_connection *conn;
	struct event *timer;	     /* of the current request */
	char *address, *host, *path; /* host: value of the Host header */
	int port;
	char *version, *headers_file;
	bool gzip, protobuf, warned_headers;
	unsigned continues; /* answers 100 to the current request */
	const char *why;    /* evhttp's error for the current request */
	void (*fn)(void *ctx, const struct otlp_answer *a);
	void *ctx;
	char text[128];
};

const char *otlp_endpoint_problem(const char *endpoint)
{
	struct evhttp_uri *uri;
	const char *why = NULL;

	if (!strncmp(endpoint, "https://", 8))
		return "https is not supported; name a collector on this node by http://, which "
		       "forwards by TLS";
	uri = evhttp_uri_parse(endpoint);
	if (!uri || strncmp(endpoint, "http://", 7) || !evhttp_uri_get_host(uri) ||
	    !*evhttp_uri_get_host(uri))
		why = "write it as http://127.0.0.1:4318";
	else if (evhttp_uri_get_userinfo(uri))
		why = "a password here is visible to all users; put \"Authorization: ...\" into "
		      "otlp.headers_file";
	else if (evhttp_uri_get_query(uri) || evhttp_uri_get_fragment(uri))
		why = "it must end with its path: /v1/traces, /v1/logs and /v1/metrics are added to it";
	if (uri)
		evhttp_uri_free(uri);
	return why;
}

static bool read_endpoint(struct otlp_http *h, const struct otlp_http_opts *o)
{
	struct evhttp_uri *uri = evhttp_uri_parse(o->endpoint);
	const char *host = uri ? evhttp_uri_get_host(uri) : NULL;
	const char *path = host ? evhttp_uri_get_path(uri) : NULL;
	size_t len = path ? strlen(path) : 0, host_len = host ? strlen(host) : 0;
	bool ok = false;

	if (!host_len)
		goto out;
	while (len && path[len - 1] == '/')
		len--;
	h->port = evhttp_uri_get_port(uri) > 0 ? evhttp_uri_get_port(uri) : PORT;
	h->address = *host == '[' ? strndup(host + 1, host_len - 2) : strdup(host);
	ok = h->address && asprintf(&h->host, "%s:%d", host, h->port) >= 0 &&
	     asprintf(&h->path, "%.*s%s", (int)len, path ?: "", o->path) >= 0;
out:
	if (uri)
		evhttp_uri_free(uri);
	return ok;
}

/* Parses RFC 9110's form: seconds or a date. */
static uint64_t read_retry_after(const char *text)
{
	char *end;
	long long s;
	struct tm tm = {0};

	if (!text)
		return 0;
	s = strtoll(text, &end, 10);
	if (end == text || *end) {
		if (!strptime(text, "%a, %d %b %Y %H:%M:%S GMT", &tm))
			return 0;
		s = timegm(&tm) - time(NULL);
	}
	if (s < 0)
		s = 0;
	return (s > RETRY_AFTER_MAX_S ? RETRY_AFTER_MAX_S : s) * 1000000000ull;
}

/* {"partialSuccess":{"rejectedSpans":"3"}}; the number may also be unquoted. The rest is not
 * needed. */
static uint64_t read_rejected(struct evhttp_request *req)
{
	struct evbuffer *in = evhttp_request_get_input_buffer(req);
	char text[4096];
	ev_ssize_t len = evbuffer_copyout(in, text, sizeof(text) - 1);
	const char *p;

	text[len > 0 ? len : 0] = '\0';
	p = strstr(text, "\"rejectedSpans\"")
		    ?: strstr(text, "\"rejectedDataPoints\"")
			       ?: strstr(text, "\"rejectedLogRecords\"");
	if (!p)
		return 0;
	p = strchr(p + 1, '"') + 1;
	p += strspn(p, " \t\r\n:\"");
	return *p >= '0' && *p <= '9' ? strtoull(p, NULL, 10) : 0;
}

static void on_error(enum evhttp_request_error code, void *ctx)
{
	struct otlp_http *h = ctx;

	h->why = code == EVREQ_HTTP_TIMEOUT ? "it did not reply in time"
		 : code == EVREQ_HTTP_EOF   ? "there is no connection, or it was closed"
					    : "its reply is not HTTP";
}

static void on_timeout(evutil_socket_t fd, short what, void *ctx)
{
	const struct otlp_answer a = {.retry = true, .why = "it did not reply in time"};
	struct otlp_http *h = ctx;

	/* Frees the request as well: on_done() is not called. */
	evhttp_connection_free(h->conn);
	h->conn = NULL;
	h->fn(h->ctx, &a);
}

static int on_header(struct evhttp_request *req, void *ctx)
{
	struct otlp_http *h = ctx;

	return evhttp_request_get_response_code(req) == 100 && ++h->continues > CONTINUE_MAX ? -1
											     : 0;
}

static void on_done(struct evhttp_request *req, void *ctx)
{
	struct otlp_http *h = ctx;
	int code = req ? evhttp_request_get_response_code(req) : 0;
	struct otlp_answer a = {.ok = code >= 200 && code < 300};

	event_del(h->timer);
	if (!code) {
		a.retry = true;
		a.why = h->why ?: "no connection";
	} else if (a.ok) {
		a.rejected = read_rejected(req);
	} else {
		const struct evkeyvalq *headers = evhttp_request_get_input_headers(req);

		a.retry = code == 429 || code == 502 || code == 503 || code == 504;
		if (a.retry)
			a.retry_after_ns =
				read_retry_after(evhttp_find_header(headers, "Retry-After"));
		snprintf(h->text, sizeof(h->text), "it returned status %d%s", code,
			 code == 401 || code == 403 ? " (check the token in otlp.headers_file)"
			 : code == 404		    ? " (write otlp.endpoint without /v1/...)"
						    : "");
		a.why = h->text;
	}
	h->fn(h->ctx, &a);
}

static void report_headers(struct otlp_http *h, unsigned line, const char *why)
{
	if (!h->warned_headers)
		warn("otlp.headers_file: %s: line %u: %s", h->headers_file, line, why);
	h->warned_headers = true;
}

/* Reads the file for each request, because tokens change while we run. Its contents are never
 * logged. */
static void add_headers(struct otlp_http *h, struct evkeyvalq *headers)
{
	char line[HEADER_MAX];
	unsigned number = 0;
	FILE *f;

	if (!h->headers_file[0])
		return;
	privs_lower();
	f = fopen(h->headers_file, "re");
	privs_raise();
	if (!f) {
		if (!h->warned_headers)
			warn("otlp.headers_file: cannot read %s: %s", h->headers_file,
			     strerror(errno));
		h->warned_headers = true;
		return;
	}
	while (fgets(line, sizeof(line), f)) {
		char *colon = strchr(line, ':');

		number++;
		line[strcspn(line, "\r\n")] = '\0';
		if (!*line || *line == '#')
			continue;
		if (!colon || colon == line) {
			report_headers(h, number, "write each as Name: value");
			continue;
		}
		*colon++ = '\0';
		colon += strspn(colon, " \t");
		evhttp_remove_header(headers, line);
		if (evhttp_add_header(headers, line, colon))
			report_headers(h, number, "this is not a header");
	}
	fclose(f);
}

static bool add_gzip(struct evbuffer *out, const char *body, size_t len)
{
	z_stream z = {0};
	struct evbuffer_iovec v;
	bool ok;

	if (deflateInit2(&z, Z_BEST_SPEED, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK)
		return false;
	z.next_in = (Bytef *)body;
	z.avail_in = len;
	z.avail_out = deflateBound(&z, len);
	if (evbuffer_reserve_space(out, z.avail_out, &v, 1) != 1) {
		deflateEnd(&z);
		return false;
	}
	z.next_out = v.iov_base;
	ok = deflate(&z, Z_FINISH) == Z_STREAM_END;
	v.iov_len = z.total_out;
	deflateEnd(&z);
	return ok && !evbuffer_commit_space(out, &v, 1);
}

static bool connect_to(struct otlp_http *h)
{
	if (h->conn)
		return true;
	h->conn = evhttp_connection_base_new(h->base, h->dns, h->address, h->port);
	if (!h->conn)
		return false;
	/* Otherwise it reads on while data arrives, as with repeated "100 Continue" answers. */
	bufferevent_setwatermark(evhttp_connection_get_bufferevent(h->conn), EV_READ, 0,
				 2 * ANSWER_MAX);
	evhttp_connection_set_max_body_size(h->conn, ANSWER_MAX);
	evhttp_connection_set_max_headers_size(h->conn, ANSWER_MAX);
	return true;
}

bool otlp_http__post(struct otlp_http *h, const char *body, size_t len,
		     void (*fn)(void *ctx, const struct otlp_answer *a), void *ctx)
{
	const struct timeval timeout = {.tv_sec = TIMEOUT_S};
	struct evhttp_request *req;
	struct evkeyvalq *headers;
	struct evbuffer *out;
	char agent[96];

	if (!connect_to(h))
		return false;
	req = evhttp_request_new(on_done, h);
	if (!req)
		return false;
	evhttp_request_set_error_cb(req, on_error);
	evhttp_request_set_header_cb(req, on_header);
	h->continues = 0;
	h->fn = fn;
	h->ctx = ctx;
	h->why = NULL;
	headers = evhttp_request_get_output_headers(req);
	out = evhttp_request_get_output_buffer(req);
	snprintf(agent, sizeof(agent), "cudatrace/%s", h->version);
	evhttp_add_header(headers, "Host", h->host);
	evhttp_add_header(headers, "User-Agent", agent);
	add_headers(h, headers);
	evhttp_remove_header(headers, "Content-Type");
	evhttp_add_header(headers, "Content-Type",
			  h->protobuf ? "application/x-protobuf" : "application/json");
	if (h->gzip)
		evhttp_add_header(headers, "Content-Encoding", "gzip");
	if (h->gzip ? !add_gzip(out, body, len) : evbuffer_add(out, body, len)) {
		evhttp_request_free(req);
		return false;
	}
	event_add(h->timer, &timeout);
	if (!evhttp_make_request(h->conn, req, EVHTTP_REQ_POST, h->path))
		return true;
	event_del(h->timer);
	return false;
}

struct otlp_http *otlp_http__new(struct event_base *base, struct evdns_base *dns,
				 const struct otlp_http_opts *o)
{
	struct otlp_http *h = calloc(1, sizeof(*h));

	if (!h)
		return NULL;
	h->base = base;
	h->dns = dns;
	h->gzip = o->gzip;
	h->protobuf = o->protobuf;
	h->version = strdup(o->version);
	h->headers_file = strdup(o->headers_file);
	h->timer = event_new(base, -1, 0, on_timeout, h);
	if (!h->timer || !h->version || !h->headers_file || !read_endpoint(h, o)) {
		otlp_http__free(h);
		return NULL;
	}
	return h;
}

void otlp_http__free(struct otlp_http *h)
{
	if (!h)
		return;
	if (h->conn)
		evhttp_connection_free(h->conn);
	if (h->timer)
		event_free(h->timer);
	free(h->address);
	free(h->host);
	free(h->path);
	free(h->version);
	free(h->headers_file);
	free(h);
}
