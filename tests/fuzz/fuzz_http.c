/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Requests to the port, in pieces, from clients that leave, stay, or do not read. A byte selects
 * which; the bytes after it are sent: first a piece of the length of the second byte, then the
 * rest.
 */
#include "fuzz.h"

#include <assert.h>

#include "daemon/http.c" /* its clients connect to a listener; here they are passed directly */
#include "sockets.h"

#define STAY_MAX (CLIENTS_MAX + 8)
#define PAGE_SZ	 300000 /* more than a socket takes */

static struct http *h;
static int stay[STAY_MAX]; /* connections that stay */
static bool large, well;

static void metrics(void *ctx, struct out *o)
{
	size_t n = large ? PAGE_SZ : 100;

	memset(out__room(o, n), 'm', n);
	o->len += n;
}

static bool healthy(void *ctx)
{
	return well;
}

static void open_http(void)
{
	static const struct http_ops ops = {.metrics = metrics, .healthy = healthy};

	h = calloc(1, sizeof(*h));
	assert(h);
	h->ops = ops;
	h->listen_fd = SAME_FD;
	h->base = event_base_new();
	assert(h->base && make_events(h, h->base));
	for (int i = 0; i < STAY_MAX; i++)
		stay[i] = -1;
}

static void turn(void)
{
	struct text *metrics_text = &h->texts[TEXT_METRICS];
	eventfd_t asked;

	event_base_loop(h->base, EVLOOP_NONBLOCK);
	/* The main thread's part */
	if (!eventfd_read(metrics_text->ask_fd, &asked)) {
		on_ask(metrics_text->ask_fd, 0, metrics_text);
		on_wake(h->wake_fd, 0, h);
	}
	assert(h->client_cnt <= CLIENTS_MAX);
}

static int accept_conn(uint8_t from)
{
	struct sockaddr_storage a = {.ss_family = from & 1 ? AF_INET : AF_INET6};
	int fd = sock_new();

	memset((char *)&a + 4, from, 24);
	on_connection(h, fd, &a);
	return fd;
}

/* There is one answer, as long as its head states. */
static void check_answer(int fd)
{
	char buf[1024];
	const char *sent;
	size_t len;

	sent = sock_take(fd, &len);
	if (!len)
		return;
	len = len < sizeof(buf) ? len : sizeof(buf) - 1;
	memcpy(buf, sent, len);
	buf[len] = '\0';
	assert(!strncmp(buf, "HTTP/1.1 ", 9) && strstr(buf, "\r\nContent-Length: ") &&
	       strstr(buf, "\r\n\r\n"));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = {data, size};
	static unsigned next;
	uint8_t how = take8(&in);
	size_t first = take8(&in);
	int fd;

	if (!h)
		open_http();
	large = how & 1;
	well = how & 2;
	fd = accept_conn(how >> 4);
	first = first < in.left ? first : in.left;
	sock_put(fd, in.p, first);
	turn();
	sock_put(fd, in.p + first, in.left - first);
	turn();
	if (how & 4)
		check_answer(fd);
	if (!(how & 8)) {
		sock_hang_up(fd);
		turn();
		return 0;
	}
	if (stay[next] >= 0)
		sock_hang_up(stay[next]);
	stay[next] = fd;
	next = (next + 1) % STAY_MAX;
	return 0;
}
