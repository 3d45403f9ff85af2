/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The lines of a client. While a request is served, later lines are searched for its cancellation.
 */
#ifndef MCP_CLIENT_H
#define MCP_CLIENT_H

#include <stdbool.h>
#include <stddef.h>

#include "saved/parse.h"

/* The ID of a request: a number as written, or a string. */
#define RPC_ID_MAX 128u
struct rpc_id {
	unsigned char val; /* enum parse_val; VAL_NULL: none */
	unsigned len;
	char text[RPC_ID_MAX];
};
/* Returns false if m cannot be an ID. */
bool rpc_id__read(struct rpc_id *id, const struct member *m);
bool rpc_id__equal(const struct rpc_id *a, const struct rpc_id *b);

#define CANCELLED_MAX 64

struct client {
	int fd;
	char *buf; /* MCP_MESSAGE_MAX, followed by PARSE_SLACK */
	size_t pos, len;
	size_t searched;    /* lines before it were searched for cancellations */
	bool at_end, skips; /* the rest of a line that is too long */
	/* Cancelled requests that are not answered yet, as a ring. */
	struct rpc_id cancelled[CANCELLED_MAX];
	unsigned cancelled_cnt;
	struct parser *parsers[2];
};

/* Returns 0 or -ENOMEM. */
int client__init(struct client *cl, int fd);
void client__clear(struct client *cl);
/* Waits for the next line, and returns it with a NUL instead of its newline; NULL: the end. *len is
 * SIZE_MAX for a line that is too long, which is skipped. */
char *client__line(struct client *cl, size_t *len);
/* Returns whether the client has cancelled the request. Does not wait. */
bool client__is_cancelled(struct client *cl, const struct rpc_id *id);

#endif /* MCP_CLIENT_H */
