/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "client.h"

#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mcp.h"

#define CANCELLED "notifications/cancelled"

bool rpc_id__read(struct rpc_id *id, const struct member *m)
{
	if ((m->val != VAL_STRING && m->val != VAL_NUMBER) || m->len > sizeof(id->text))
		return false;
	id->val = m->val;
	id->len = m->len;
	memcpy(id->text, m->text, m->len);
	return true;
}

bool rpc_id__equal(const struct rpc_id *a, const struct rpc_id *b)
{
	return a->val == b->val && a->len == b->len && !memcmp(a->text, b->text, a->len);
}

int client__init(struct client *cl, int fd)
{
	*cl = (struct client){.fd = fd};
	cl->buf = calloc(1, MCP_MESSAGE_MAX + PARSE_SLACK + 1);
	cl->parsers[0] = parser__new();
	cl->parsers[1] = parser__new();
	return cl->buf && cl->parsers[0] && cl->parsers[1] ? 0 : -ENOMEM;
}

void client__clear(struct client *cl)
{
	free(cl->buf);
	parser__free(cl->parsers[0]);
	parser__free(cl->parsers[1]);
}

/* Reads once; returns false at the end, or if there is no room. */
static bool read_more(struct client *cl)
{
	ssize_t n;

	if (cl->at_end || cl->len == MCP_MESSAGE_MAX)
		return false;
	do
		n = read(cl->fd, cl->buf + cl->len, MCP_MESSAGE_MAX - cl->len);
	while (n < 0 && errno == EINTR);
	if (n <= 0)
		cl->at_end = true;
	else
		cl->len += n;
	return n > 0;
}

/* Discards what was read. */
static void compact(struct client *cl)
{
	memmove(cl->buf, cl->buf + cl->pos, cl->len - cl->pos);
	cl->len -= cl->pos;
	cl->searched = cl->searched > cl->pos ? cl->searched - cl->pos : 0;
	cl->pos = 0;
}

char *client__line(struct client *cl, size_t *len)
{
	size_t looked = cl->pos;

	for (;;) {
		char *line = cl->buf + cl->pos;
		char *end = memchr(cl->buf + looked, '\n', cl->len - looked);

		if (!end && cl->at_end && cl->len > cl->pos)
			end = cl->buf + cl->len;
		if (end) {
			*end = '\0';
			*len = cl->skips ? SIZE_MAX : (size_t)(end - line);
			cl->skips = false;
			cl->pos = end - cl->buf + 1;
			if (cl->pos > cl->len)
				cl->len = cl->pos;
			return line;
		}
		if (cl->at_end)
			return NULL;
		compact(cl);
		if (cl->len == MCP_MESSAGE_MAX) {
			cl->skips = true;
			cl->len = cl->searched = 0;
		}
		looked = cl->len;
		read_more(cl);
	}
}

/* Remembers the request that a notification cancels. */
static void take_cancellation(struct client *cl, const char *line, size_t len)
{
	struct rpc_id *to = &cl->cancelled[cl->cancelled_cnt % CANCELLED_MAX];
	struct json_value v, params;
	bool is_one = false;

	if (!memmem(line, len, CANCELLED, strlen(CANCELLED)) ||
	    parser__line(cl->parsers[0], line, len, &v) || !v.is_object)
		return;
	for (unsigned i = 0; i < v.cnt; i++)
		is_one |= v.m[i].name_len == 6 && !memcmp(v.m[i].name, "method", 6) &&
			  v.m[i].val == VAL_STRING && v.m[i].len == strlen(CANCELLED) &&
			  !memcmp(v.m[i].text, CANCELLED, v.m[i].len);
	for (unsigned i = 0; is_one && i < v.cnt; i++) {
		if (v.m[i].val != VAL_OBJECT || parser__slice(cl->parsers[1], &v.m[i], &params))
			continue;
		for (unsigned k = 0; k < params.cnt; k++)
			if (params.m[k].name_len == 9 &&
			    !memcmp(params.m[k].name, "requestId", 9) &&
			    rpc_id__read(to, &params.m[k]))
				cl->cancelled_cnt++;
	}
}

/* Searches the lines that have arrived since the last time. */
static void search(struct client *cl)
{
	char *end;

	if (cl->searched < cl->pos)
		cl->searched = cl->pos;
	while (cl->searched < cl->len &&
	       (end = memchr(cl->buf + cl->searched, '\n', cl->len - cl->searched))) {
		char *line = cl->buf + cl->searched;

		*end = '\0';
		take_cancellation(cl, line, end - line);
		*end = '\n';
		cl->searched = end - cl->buf + 1;
	}
}

bool client__is_cancelled(struct client *cl, const struct rpc_id *id)
{
	struct pollfd p = {.fd = cl->fd, .events = POLLIN};
	unsigned cnt;

	while (poll(&p, 1, 0) == 1 && read_more(cl))
		;
	search(cl);
	cnt = cl->cancelled_cnt < CANCELLED_MAX ? cl->cancelled_cnt : CANCELLED_MAX;
	for (unsigned i = 0; i < cnt; i++) {
		if (!rpc_id__equal(&cl->cancelled[i], id))
			continue;
		cl->cancelled[i].val = VAL_NULL;
		return true;
	}
	return false;
}
