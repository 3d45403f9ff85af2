/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Clients of the port may be hostile, so their use is limited: the number of connections, each with
 * one request of limited size and limited time from its first byte to its last. Answers are shared
 * (response_cache.h). A turn of the loop handles at most this many connections, because the ring
 * must be read next.
 *
 * libevent's evhttp has none of these limits: it reads on while answers wait, and its timeouts
 * restart with each byte.
 */
#include "http.h"

#include <errno.h>
#include <event2/event.h>
#include <event2/util.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "listener.h"
#include "peer_user.h"
#include "response_cache.h"
#include "util/clock.h"
#include "util/log.h"
#include "util/out.h"

#define CLIENTS_MAX HTTP_CLIENTS
/* Limit of one user of this machine, or of one address. */
#define OF_ONE_MAX  (CLIENTS_MAX / 2)
#define BACKLOG	    1024
#define REQUEST_MAX 8192
/* Time limit of a connection, with its answer. Prometheus waits for 10 s. */
#define TIME_NS (10 * SEC_NS)
/* Socket buffers that the kernel may use for a connection. */
#define RECEIVE_SZ 16384
#define SEND_SZ	   16384
/* A client that reads its answer must survive others that do not: a connection is not closed for
 * another one within KEEP_NS of its last progress, in its first KEEP_MAX_NS; before its request has
 * arrived, in its first WAIT_NS. */
#define KEEP_NS	    (SEC_NS / 10)
#define WAIT_NS	    (SEC_NS / 100)
#define KEEP_MAX_NS (2 * SEC_NS)

struct client {
	struct http *http;
	struct event *ev; /* reading, then writing */
	int fd;
	uint64_t from, end_ns, keep_ns;
	size_t len, head_len, sent;   /* sent: of head and text together */
	struct response *response;    /* owner of text, or NULL */
	struct response_cache *cache; /* of response */
	const char *text;
	size_t text_len;
	char in[REQUEST_MAX], head[512];
};

_Static_assert(sizeof(struct client) + 512 <= HTTP_CLIENT_SZ, "see memory.c");

struct http {
	struct event_base *base;
	struct http_ops ops;
	struct listener *listener;
	struct client *clients[CLIENTS_MAX]; /* oldest first */
	unsigned client_cnt;
	struct response_cache *responses, *profiles;
	uint64_t closed;
};

static void client__free(struct client *c)
{
	struct http *h = c->http;
	unsigned i = 0;

	while (h->clients[i] != c)
		i++;
	memmove(&h->clients[i], &h->clients[i + 1], (--h->client_cnt - i) * sizeof(c));
	if (c->ev)
		event_free(c->ev);
	close(c->fd);
	if (c->response)
		response_cache__put(c->cache, c->response);
	free(c);
}

static void make_response(void *ctx, struct out *o)
{
	const struct http *h = ctx;

	h->ops.metrics(h->ops.ctx, o);
}

static void make_profile(void *ctx, struct out *o)
{
	const struct http *h = ctx;

	h->ops.profile(h->ops.ctx, o);
}

static void release(void *ctx, const struct response *p)
{
	struct http *h = ctx;

	for (unsigned i = h->client_cnt; i--;) {
		if (h->clients[i]->response != p)
			continue;
		h->closed++;
		client__free(h->clients[i]);
	}
}

static uint8_t hash(uint64_t from)
{
	return from * 0x9e3779b97f4a7c15 >> 56;
}

static void keep(struct client *c)
{
	uint64_t most = c->end_ns - TIME_NS + KEEP_MAX_NS, until = now_ns() + KEEP_NS;

	c->keep_ns = until < most ? until : most;
}

/* The connection to close for another one: of those with the most, the one that has made no
 * progress for the longest time. */
static struct client *next_out(const struct http *h)
{
	unsigned cnt[256] = {0}, most = 0;
	struct client *out = NULL;

	for (unsigned i = 0; i < h->client_cnt; i++)
		cnt[hash(h->clients[i]->from)]++;
	for (unsigned i = 0; i < 256; i++)
		most = cnt[i] > most ? cnt[i] : most;
	for (unsigned i = 0; i < h->client_cnt; i++) {
		struct client *c = h->clients[i];

		if (cnt[hash(c->from)] == most && (!out || c->keep_ns < out->keep_ns))
			out = c;
	}
	return out;
}

/* Returns false if the connection has to go: its user has half of the connections, and none can be
 * closed for it yet. */
static bool has_share(struct http *h, uint64_t from)
{
	struct client *out = NULL;
	unsigned cnt = 0;

	for (unsigned i = 0; i < h->client_cnt; i++) {
		struct client *c = h->clients[i];

		if (c->from != from)
			continue;
		cnt++;
		if (!out || c->keep_ns < out->keep_ns)
			out = c;
	}
	if (cnt < OF_ONE_MAX)
		return true;
	if (now_ns() < out->keep_ns)
		return false;
	h->closed++;
	client__free(out);
	return true;
}

/* Keeps a slot free for the next connection. If there is none now, connections wait in the
 * kernel. */
static bool make_place(struct http *h)
{
	uint64_t now = now_ns();
	struct client *out;

	if (h->client_cnt < CLIENTS_MAX)
		return true;
	out = next_out(h);
	if (now < out->keep_ns) {
		listener__pause(h->listener, out->keep_ns - now);
		return false;
	}
	h->closed++;
	client__free(out);
	return true;
}

/* Waits until the end of its time limit. */
static bool wait_for(struct client *c)
{
	uint64_t now = now_ns(), left = now < c->end_ns ? c->end_ns - now : 0;
	const struct timeval tv = {.tv_sec = left / SEC_NS, .tv_usec = left % SEC_NS / 1000};

	return left && !event_add(c->ev, &tv);
}

/* false: the connection is finished. */
static bool send_more(struct client *c)
{
	size_t of_head = c->sent < c->head_len ? c->head_len - c->sent : 0;
	size_t of_text = c->sent - (c->head_len - of_head);
	struct iovec iov[2] = {{c->head + c->head_len - of_head, of_head},
			       {(char *)c->text + of_text, c->text_len - of_text}};
	struct msghdr msg = {.msg_iov = iov, .msg_iovlen = 2};
	ssize_t n = sendmsg(c->fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);

	if (n < 0)
		return errno == EAGAIN || errno == EINTR;
	c->sent += n;
	keep(c);
	return c->sent < c->head_len + c->text_len;
}

static void on_writable(evutil_socket_t fd, short what, void *ctx)
{
	struct client *c = ctx;

	if (what & EV_TIMEOUT || !send_more(c) || !wait_for(c))
		client__free(c);
}

/* false: the connection is finished. */
static bool answer(struct client *c, const char *status, const char *type, const char *text,
		   size_t len, bool with_text)
{
	struct http *h = c->http;
	char date[64];

	evutil_date_rfc1123(date, sizeof(date), NULL);
	c->head_len = snprintf(c->head, sizeof(c->head),
			       "HTTP/1.1 %s\r\nDate: %s\r\nContent-Type: %s\r\n"
			       "Content-Length: %zu\r\nX-Content-Type-Options: nosniff\r\n%s"
			       "Connection: close\r\n\r\n",
			       status, date, type, len,
			       strncmp(status, "405", 3) ? "" : "Allow: GET, HEAD\r\n");
	c->text = text;
	c->text_len = with_text ? len : 0;
	keep(c);
	if (!send_more(c))
		return false;
	event_free(c->ev);
	c->ev = event_new(h->base, c->fd, EV_WRITE, on_writable, c);
	return c->ev && wait_for(c);
}

static bool answer_text(struct client *c, const char *status, const char *text, bool with_text)
{
	return answer(c, status, "text/plain; charset=utf-8", text, strlen(text), with_text);
}

static bool answer_cached(struct client *c, struct response_cache *cache, const char *type,
			  bool with_text)
{
	const struct out *text;

	/* Connections accepted in one turn share a text, so that a turn makes only one. */
	c->cache = cache;
	c->response = response_cache__get(cache, c->end_ns - TIME_NS);
	if (!c->response)
		return answer_text(c, "500 Internal Server Error", "out of memory\n", with_text);
	text = response_text(c->response);
	if (!text->len)
		return answer_text(c, "503 Service Unavailable",
				   "the first profile is not complete yet\n", with_text);
	return answer(c, "200 OK", type, text->buf, text->len, with_text);
}

/* line: METHOD PATH HTTP/1.x */
static bool answer_request(struct client *c, char *line)
{
	const char *method = strsep(&line, " "), *path = line ? strsep(&line, " ") : NULL;
	bool get = path && !strcmp(method, "GET");

	if (!line || strncmp(line, "HTTP/1.", 7) || *path != '/')
		return answer_text(c, "400 Bad Request", "this is not a valid request\n", true);
	if (!get && strcmp(method, "HEAD"))
		return answer_text(c, "405 Method Not Allowed", "use GET or HEAD\n", true);
	*strchrnul(path, '?') = '\0';
	if (!strcmp(path, "/metrics"))
		return answer_cached(c, c->http->responses,
				     "text/plain; version=0.0.4; charset=utf-8", get);
	if (c->http->ops.profile && !strcmp(path, HTTP_PROFILE))
		return answer_cached(c, c->http->profiles, "application/octet-stream", get);
	if (!strcmp(path, "/healthz"))
		return c->http->ops.healthy(c->http->ops.ctx)
			       ? answer_text(c, "200 OK", "ok\n", get)
			       : answer_text(c, "503 Service Unavailable", "not tracing\n", get);
	if (!strcmp(path, "/"))
		return answer_text(c, "200 OK", "cudatrace: /metrics /healthz\n", get);
	return answer_text(c, "404 Not Found", "use /metrics or /healthz\n", get);
}

/* Data after the first request is never read: each connection gets one answer. */
static bool read_more(struct client *c)
{
	ssize_t n = recv(c->fd, c->in + c->len, sizeof(c->in) - c->len, MSG_DONTWAIT);

	if (n < 0)
		return (errno == EAGAIN || errno == EINTR) && wait_for(c);
	if (!n)
		return false;
	c->len += n;
	if (memmem(c->in, c->len, "\r\n\r\n", 4) || memmem(c->in, c->len, "\n\n", 2)) {
		size_t end = (char *)memchr(c->in, '\n', c->len) - c->in;

		c->in[end] = '\0';
		if (end && c->in[end - 1] == '\r')
			c->in[end - 1] = '\0';
		return answer_request(c, c->in);
	}
	if (c->len == sizeof(c->in))
		return answer_text(c, "431 Request Header Fields Too Large",
				   "the request is too long\n", true);
	return wait_for(c);
}

static void on_readable(evutil_socket_t fd, short what, void *ctx)
{
	struct client *c = ctx;

	if (what & EV_TIMEOUT || !read_more(c))
		client__free(c);
}

enum from_kind { FROM_FOUR, FROM_USER, FROM_UNKNOWN };

/* No address of a client begins with 0xff. */
static uint64_t key(enum from_kind kind, uint32_t id)
{
	uint8_t bytes[8] = {0xff, kind};
	uint64_t key;

	memcpy(&bytes[4], &id, sizeof(id));
	memcpy(&key, bytes, sizeof(key));
	return key;
}

/* Key of clients that share one limit: a user of this machine; otherwise an address, for IPv6 the
 * network. Unknown users of this machine share one. */
static uint64_t client_from(int fd, const struct sockaddr_storage *a)
{
	const struct in6_addr *six = &((const struct sockaddr_in6 *)a)->sin6_addr;
	uint32_t four = ((const struct sockaddr_in *)a)->sin_addr.s_addr;
	uint64_t net;
	uid_t uid;

	if (peer_user__of(fd, a, &uid))
		return key(FROM_USER, uid);
	if (a->ss_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(six))
		return key(FROM_UNKNOWN, 0);
	if (a->ss_family == AF_INET6 && !IN6_IS_ADDR_V4MAPPED(six)) {
		memcpy(&net, six, sizeof(net));
		return net;
	}
	if (a->ss_family == AF_INET6)
		memcpy(&four, &six->s6_addr[12], sizeof(four));
	return ntohl(four) >> 24 == IN_LOOPBACKNET ? key(FROM_UNKNOWN, 0) : key(FROM_FOUR, four);
}

static void on_connection(void *ctx, int fd, const struct sockaddr_storage *from)
{
	struct http *h = ctx;
	uint64_t of = client_from(fd, from);
	struct client *c = has_share(h, of) && make_place(h) ? calloc(1, sizeof(*c)) : NULL;

	if (!c) {
		h->closed++;
		close(fd);
		return;
	}
	c->http = h;
	c->fd = fd;
	c->from = of;
	c->end_ns = now_ns() + TIME_NS;
	c->keep_ns = now_ns() + WAIT_NS;
	c->ev = event_new(h->base, fd, EV_READ, on_readable, c);
	h->clients[h->client_cnt++] = c;
	if (!c->ev || !wait_for(c))
		client__free(c);
	make_place(h);
}

/* Splits ADDRESS:PORT; false when it is invalid. */
static bool split(const char *text, char host[128], const char **port)
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
	*port = colon + 1;
	return !errno && *end == '\0' && end > colon + 1 && num >= 0 && num <= 65535;
}

/* Returns the socket, or -1 and the reason. */
static int listen_on(const char *host, const char *port, const char **why)
{
	const struct evutil_addrinfo hints = {.ai_flags = EVUTIL_AI_PASSIVE,
					      .ai_socktype = SOCK_STREAM};
	const int on = 1, receive = RECEIVE_SZ, send = SEND_SZ;
	struct evutil_addrinfo *ai = NULL;
	int fd;

	*why = "it is not an address of this machine";
	if (evutil_getaddrinfo(*host ? host : NULL, port, &hints, &ai) || !ai)
		return -1;
	fd = socket(ai->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	/* Accepted connections inherit the buffer sizes. */
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) ||
	    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &receive, sizeof(receive)) ||
	    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &send, sizeof(send)) ||
	    bind(fd, ai->ai_addr, ai->ai_addrlen) || listen(fd, BACKLOG)) {
		*why = errno == EADDRINUSE ? "Address already in use: choose "
					     "another port, or stop the program that listens there"
					   : strerror(errno);
		if (fd >= 0)
			close(fd);
		fd = -1;
	}
	evutil_freeaddrinfo(ai);
	return fd;
}

struct http *http__new(struct event_base *base, const char *listen, const struct http_ops *ops)
{
	struct http *h = calloc(1, sizeof(*h));
	const struct response_cache_ops po = {make_response, release, h};
	const struct response_cache_ops profiles = {make_profile, release, h};
	const char *port, *why;
	char host[128];
	int fd;

	if (!h)
		return NULL;
	h->base = base;
	h->ops = *ops;
	if (!split(listen, host, &port)) {
		err("metrics.listen: '%s' is not an address with a port; write it as "
		    "127.0.0.1:9464",
		    listen);
		goto fail;
	}
	fd = listen_on(host, port, &why);
	if (fd < 0) {
		err("metrics.listen: cannot listen on %s: %s", listen, why);
		goto fail;
	}
	h->responses = response_cache__new(base, &po);
	h->profiles = response_cache__new(base, &profiles);
	h->listener = listener__new(base, fd, on_connection, h);
	if (h->responses && h->profiles && h->listener)
		return h;
fail:
	http__free(h);
	return NULL;
}

uint64_t http__closed(const struct http *h)
{
	return h->closed;
}

void http__free(struct http *h)
{
	if (!h)
		return;
	while (h->client_cnt)
		client__free(h->clients[0]);
	response_cache__free(h->responses);
	response_cache__free(h->profiles);
	listener__free(h->listener);
	free(h);
}
