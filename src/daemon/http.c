/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Clients of the port may be hostile, so their use is limited: the number of connections, each with
 * one request of limited size and limited time from its first byte to its last. Answers are shared
 * (response_cache.h).
 *
 * A thread of its own serves them. The main thread only makes the texts of /metrics and profiles,
 * because a health check must be answered however long users keep the main thread busy. The thread
 * runs before other programs of the machine (SCHED_RR), for a limited share of the time. A health
 * check allocates no memory, because the main thread may be preempted while it holds the heap's
 * lock.
 *
 * libevent's evhttp has none of these limits: it reads on while answers wait, and its timeouts
 * restart with each byte.
 */
#include "http.h"

#include <errno.h>
#include <event2/event.h>
#include <event2/event_struct.h>
#include <event2/util.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "listener.h"
#include "peer_user.h"
#include "response_cache.h"
#include "util/clock.h"
#include "util/log.h"
#include "util/out.h"
#include "util/privs.h"

#define CLIENTS_MAX HTTP_CLIENTS
/* Limit of one user of this machine, or of one address. */
#define OF_ONE_MAX  (CLIENTS_MAX / 2)
#define REQUEST_MAX 8192
/* Time limit of a connection, with its answer. Prometheus waits for 10 s. */
#define TIME_NS (10 * SEC_NS)
/* A client that reads its answer must survive others that do not: a connection is not closed for
 * another one within KEEP_NS of its last progress, in its first KEEP_MAX_NS; before its request has
 * arrived, in its first WAIT_NS. */
#define KEEP_NS	    (SEC_NS / 10)
#define WAIT_NS	    (SEC_NS / 100)
#define KEEP_MAX_NS (2 * SEC_NS)
/* The thread runs before others for one URGENT_SHAREth of the time, and for this burst. It recovers
 * from any use beyond that within a burst's time. */
#define URGENT_SHARE	4
#define URGENT_BURST_NS (SEC_NS / 20)
#define URGENT_DEBT_NS	(URGENT_BURST_NS * 5 / 4)
#define CALM_MS		20

enum { NO_FD = -1, SAME_FD = -2 };

struct client {
	struct http *http;
	struct event ev; /* reading, then writing, or waiting for a text */
	int fd;
	uint64_t from, end_ns, keep_ns;
	size_t len, head_len, sent; /* sent: of head and text together */
	struct response *response;  /* owner of text, or NULL */
	struct text *of;	    /* that waits, or has response */
	const char *text;
	size_t text_len;
	bool used, waits, with_text;
	char in[REQUEST_MAX], head[512];
};

_Static_assert(sizeof(struct client) + 512 <= HTTP_CLIENT_SZ, "see memory.c");

/* A text that the main thread makes. */
enum { TEXT_METRICS, TEXT_PROFILE, TEXT_CNT };

/* The profile's time is also that of profiles (util/profile_budget.h). */
#define METRICS_PART 10
#define PROFILE_PART 200

struct text {
	struct http *http;
	const char *type;
	void (*put)(void *ctx, struct out *o); /* NULL: there is none */
	unsigned part;			       /* of the time, to make it */
	struct response_cache *responses;
	/* The answer to ask_fd: the main thread sets is_made last. */
	int ask_fd;
	struct event *ask_ev;
	struct out *made; /* NULL: no memory */
	uint64_t made_ns, took_ns;
	bool is_made;
};

struct http {
	struct event_base *base; /* the thread's */
	struct http_ops ops;
	struct listener *listener; /* NULL: none */
	struct client slots[CLIENTS_MAX];
	struct client *clients[CLIENTS_MAX]; /* oldest first */
	unsigned client_cnt;
	struct text texts[TEXT_CNT];
	struct listen_address wanted, current; /* the main thread's */
	int current_fd;			       /* listens there; NO_FD: none */
	pthread_t thread;
	sem_t ready;
	bool started;
	bool is_urgent, may_be_urgent;
	uint64_t urgent_ns, cpu_ns, balanced_ns; /* use of the share */
	struct event *wake_ev, *calm_ev;
	/* Both threads use the rest. The main thread sets these, and wakes the other one. */
	int wake_fd;
	int listen_fd; /* listen on it from now on; NO_FD: no longer listen; SAME_FD: no change */
	bool stop;
	uint64_t closed;
};

static void client__free(struct client *c)
{
	struct http *h = c->http;
	unsigned i = 0;

	while (h->clients[i] != c)
		i++;
	memmove(&h->clients[i], &h->clients[i + 1], (--h->client_cnt - i) * sizeof(c));
	event_del(&c->ev);
	close(c->fd);
	if (c->response)
		response_cache__put(c->of->responses, c->response);
	c->used = false;
}

static void count_closed(struct http *h)
{
	__atomic_fetch_add(&h->closed, 1, __ATOMIC_RELAXED);
}

static void ask(void *ctx)
{
	const struct text *t = ctx;

	eventfd_write(t->ask_fd, 1);
}

static void release(void *ctx, const struct response *p)
{
	struct http *h = ((struct text *)ctx)->http;

	for (unsigned i = h->client_cnt; i--;) {
		if (h->clients[i]->response != p)
			continue;
		count_closed(h);
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
	count_closed(h);
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
	count_closed(h);
	client__free(out);
	return true;
}

/* Waits until the end of its time limit. */
static bool wait_for(struct client *c)
{
	uint64_t now = now_ns(), left = now < c->end_ns ? c->end_ns - now : 0;
	const struct timeval tv = {.tv_sec = left / SEC_NS, .tv_usec = left % SEC_NS / 1000};

	return left && !event_add(&c->ev, &tv);
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
	event_del(&c->ev);
	event_assign(&c->ev, h->base, c->fd, EV_WRITE, on_writable, c);
	return wait_for(c);
}

static bool answer_text(struct client *c, const char *status, const char *text, bool with_text)
{
	return answer(c, status, "text/plain; charset=utf-8", text, strlen(text), with_text);
}

static void on_late(evutil_socket_t fd, short what, void *ctx)
{
	client__free(ctx);
}

/* Connections that wait at the same time share a text. */
static bool answer_made(struct client *c, struct text *t)
{
	const struct out *text;
	bool waited = c->waits;

	c->of = t;
	c->waits = !response_cache__get(t->responses, c->end_ns - TIME_NS, &c->response);
	if (c->waits && waited)
		return true;
	if (c->waits) {
		keep(c);
		event_del(&c->ev);
		event_assign(&c->ev, c->http->base, -1, 0, on_late, c);
		return wait_for(c);
	}
	text = response_text(c->response);
	if (!text->len)
		return answer_text(c, "503 Service Unavailable",
				   "the first profile is not complete yet\n", c->with_text);
	return answer(c, "200 OK", t->type, text->buf, text->len, c->with_text);
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
	c->with_text = get;
	if (!strcmp(path, "/metrics"))
		return answer_made(c, &c->http->texts[TEXT_METRICS]);
	if (c->http->ops.profile && !strcmp(path, HTTP_PROFILE))
		return answer_made(c, &c->http->texts[TEXT_PROFILE]);
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

/* There is one if make_place() has succeeded. */
static struct client *free_slot(struct http *h)
{
	unsigned i = 0;

	while (h->slots[i].used)
		i++;
	return &h->slots[i];
}

static void on_connection(void *ctx, int fd, const struct sockaddr_storage *from)
{
	struct http *h = ctx;
	uint64_t of = client_from(fd, from);
	struct client *c = has_share(h, of) && make_place(h) ? free_slot(h) : NULL;

	if (!c) {
		count_closed(h);
		close(fd);
		return;
	}
	c->used = true;
	c->waits = false;
	c->http = h;
	c->fd = fd;
	c->from = of;
	c->end_ns = now_ns() + TIME_NS;
	c->keep_ns = now_ns() + WAIT_NS;
	c->response = NULL;
	c->len = c->head_len = c->sent = c->text_len = 0;
	event_assign(&c->ev, h->base, fd, EV_READ, on_readable, c);
	h->clients[h->client_cnt++] = c;
	if (!wait_for(c))
		client__free(c);
	make_place(h);
}

/* In the main thread. */
static void on_ask(evutil_socket_t fd, short what, void *ctx)
{
	struct text *t = ctx;
	eventfd_t cnt;

	eventfd_read(fd, &cnt);
	t->made_ns = now_ns();
	t->made = out__memory();
	if (t->made) {
		t->put(t->http->ops.ctx, t->made);
		out__fit(t->made);
	}
	t->took_ns = now_ns() - t->made_ns;
	__atomic_store_n(&t->is_made, true, __ATOMIC_RELEASE);
	eventfd_write(t->http->wake_fd, 1);
}

static void take_text(struct http *h, struct text *t)
{
	bool ok = response_cache__add(t->responses, t->made, t->made_ns, t->took_ns);

	for (unsigned i = 0; i < CLIENTS_MAX; i++) {
		struct client *c = &h->slots[i];

		if (!c->used || !c->waits || c->of != t)
			continue;
		c->waits = ok;
		if (!(ok ? answer_made(c, t)
			 : answer_text(c, "500 Internal Server Error", "out of memory\n",
				       c->with_text)))
			client__free(c);
	}
}

static void listen_to(struct http *h, int fd)
{
	listener__free(h->listener);
	h->listener = fd == NO_FD ? NULL : listener__new(h->base, fd, on_connection, h);
}

static void on_wake(evutil_socket_t fd, short what, void *ctx)
{
	struct http *h = ctx;
	eventfd_t cnt;
	int next;

	eventfd_read(fd, &cnt);
	next = __atomic_exchange_n(&h->listen_fd, SAME_FD, __ATOMIC_ACQUIRE);
	if (next != SAME_FD)
		listen_to(h, next);
	for (struct text *t = h->texts; t < h->texts + TEXT_CNT; t++)
		if (__atomic_exchange_n(&t->is_made, false, __ATOMIC_ACQUIRE))
			take_text(h, t);
}

static void on_calm(evutil_socket_t fd, short what, void *ctx)
{
}

static bool set_urgent(bool urgent)
{
	const struct sched_param p = {.sched_priority = urgent};

	return !sched_setscheduler(0, urgent ? SCHED_RR : SCHED_OTHER, &p);
}

/* Clients may keep the thread busy. Beyond its share it runs like any other. */
static void limit_urgency(struct http *h)
{
	const struct timeval tv = {.tv_usec = CALM_MS * 1000};
	uint64_t now = now_ns(), cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	uint64_t share = (now - h->balanced_ns) / URGENT_SHARE;

	h->urgent_ns += cpu - h->cpu_ns;
	h->urgent_ns -= share < h->urgent_ns ? share : h->urgent_ns;
	if (h->urgent_ns > URGENT_DEBT_NS)
		h->urgent_ns = URGENT_DEBT_NS;
	h->cpu_ns = cpu;
	h->balanced_ns = now;
	if (h->is_urgent == (h->urgent_ns < URGENT_BURST_NS))
		return;
	h->is_urgent = !h->is_urgent;
	set_urgent(h->is_urgent);
	if (h->is_urgent)
		event_del(h->calm_ev);
	else
		event_add(h->calm_ev, &tv);
}

static void *thread_main(void *arg)
{
	struct http *h = arg;

	/* Needs CAP_SYS_NICE, or a limit of real-time priorities. */
	h->may_be_urgent = h->is_urgent = set_urgent(true);
	privs_drop_thread();
	sem_post(&h->ready);
	while (!__atomic_load_n(&h->stop, __ATOMIC_ACQUIRE)) {
		event_base_loop(h->base, EVLOOP_ONCE);
		if (h->may_be_urgent)
			limit_urgency(h);
	}
	return NULL;
}

static void *event_of(struct event_base *base, int fd, event_callback_fn fn, void *ctx)
{
	return event_new(base, fd, fd < 0 ? EV_PERSIST : EV_READ | EV_PERSIST, fn, ctx);
}

static bool make_text(struct text *t, struct event_base *main_base)
{
	const struct response_cache_ops po = {ask, release, t, t->part};

	if (!t->put)
		return true;
	t->ask_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (t->ask_fd < 0)
		return false;
	t->responses = response_cache__new(t->http->base, &po);
	t->ask_ev = event_of(main_base, t->ask_fd, on_ask, t);
	return t->responses && t->ask_ev && !event_add(t->ask_ev, NULL);
}

static bool make_events(struct http *h, struct event_base *main_base)
{
	h->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	h->base = h->base ?: event_base_new();
	if (h->wake_fd < 0 || !h->base)
		return false;
	h->texts[TEXT_METRICS] = (struct text){h, "text/plain; version=0.0.4; charset=utf-8",
					       h->ops.metrics, METRICS_PART, .ask_fd = -1};
	h->texts[TEXT_PROFILE] = (struct text){h, "application/octet-stream", h->ops.profile,
					       PROFILE_PART, .ask_fd = -1};
	h->wake_ev = event_of(h->base, h->wake_fd, on_wake, h);
	h->calm_ev = event_of(h->base, -1, on_calm, h);
	return make_text(&h->texts[TEXT_METRICS], main_base) &&
	       make_text(&h->texts[TEXT_PROFILE], main_base) && h->wake_ev && h->calm_ev &&
	       !event_add(h->wake_ev, NULL);
}

static bool start_thread(struct http *h)
{
	const struct rlimit priority = {1, 1};
	sigset_t all, old;
	int ret;

	setrlimit(RLIMIT_RTPRIO, &priority);
	sem_init(&h->ready, 0, 0);
	/* The main thread receives the signals. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	ret = pthread_create(&h->thread, NULL, thread_main, h);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (ret)
		return false;
	h->started = true;
	/* The system call filter that comes next would not let the thread drop its privileges. */
	while (sem_wait(&h->ready))
		;
	return true;
}

struct http *http__new(struct event_base *base, const struct http_ops *ops)
{
	struct http *h = calloc(1, sizeof(*h));

	if (!h)
		return NULL;
	h->ops = *ops;
	h->listen_fd = SAME_FD;
	h->current_fd = NO_FD;
	h->wake_fd = -1;
	if (make_events(h, base) && start_thread(h))
		return h;
	err("cannot start a thread: raise the limit of processes (ulimit -u)");
	http__free(h);
	return NULL;
}

/* A socket that it has not taken yet is replaced. */
static void pass_fd(struct http *h, int fd)
{
	int was = __atomic_exchange_n(&h->listen_fd, fd, __ATOMIC_ACQ_REL);

	if (was >= 0)
		close(was);
	eventfd_write(h->wake_fd, 1);
}

int http__listen(struct http *h, const struct listen_address *a)
{
	h->wanted = *a;
	return http__retry(h);
}

int http__retry(struct http *h)
{
	int fd = NO_FD;

	if (!memcmp(&h->wanted, &h->current, sizeof(h->wanted)))
		return 0;
	if (h->wanted.len)
		fd = listener__bind(&h->wanted, NO_FD);
	/* Our own socket may be what is there: on another address, with the same port. */
	if (fd == -EADDRINUSE && h->current_fd >= 0)
		fd = listener__bind(&h->wanted, h->current_fd);
	if (h->wanted.len && fd < 0)
		return fd;
	pass_fd(h, fd);
	h->current_fd = fd;
	h->current = h->wanted;
	return 0;
}

uint64_t http__closed(const struct http *h)
{
	return __atomic_load_n(&h->closed, __ATOMIC_RELAXED);
}

static void free_event(struct event *ev)
{
	if (ev)
		event_free(ev);
}

static void free_text(struct text *t)
{
	if (!t->put)
		return;
	if (t->is_made)
		out__close(t->made);
	response_cache__free(t->responses);
	free_event(t->ask_ev);
	if (t->ask_fd >= 0)
		close(t->ask_fd);
}

void http__free(struct http *h)
{
	if (!h)
		return;
	if (h->started) {
		__atomic_store_n(&h->stop, true, __ATOMIC_RELEASE);
		eventfd_write(h->wake_fd, 1);
		pthread_join(h->thread, NULL);
	}
	while (h->client_cnt)
		client__free(h->clients[0]);
	for (struct text *t = h->texts; t < h->texts + TEXT_CNT; t++)
		free_text(t);
	if (h->listen_fd >= 0)
		close(h->listen_fd);
	listener__free(h->listener);
	free_event(h->wake_ev);
	free_event(h->calm_ev);
	if (h->base)
		event_base_free(h->base);
	if (h->wake_fd >= 0)
		close(h->wake_fd);
	free(h);
}
