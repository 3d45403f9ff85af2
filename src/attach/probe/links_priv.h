/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Shared by links.c, which sends requests, and links_run.c, which executes them. */
#ifndef ATTACH_PROBE_LINKS_PRIV_H
#define ATTACH_PROBE_LINKS_PRIV_H

#include "links.h"

#include <stddef.h>
#include <sys/socket.h>

/* All requests except LINKS_SETTLE and LINKS_CLOSE_SOON are answered. */
enum links_op { LINKS_SETTLE, LINKS_ATTACH, LINKS_CLOSE, LINKS_CLOSE_SOON, LINKS_CLOSE_ALL };

/* Descriptors of LINKS_ATTACH: the file, and one program (session) or two (entry, return). */
#define LINKS_FDS 3

struct links_message {
	enum links_op op;
	unsigned owner;
	enum mechanism mech;
	pid_t pid;
	unsigned cnt, group_cnt[LINKS_GROUP_CNT];
	struct {
		uint64_t off, cookie;
	} sites[CT_MAX_FUNCS];
};
#define LINKS_MESSAGE_SZ(cnt) offsetof(struct links_message, sites[cnt])

union links_room {
	struct cmsghdr head;
	char bytes[CMSG_SPACE(LINKS_FDS * sizeof(int))];
};

/* Owner in the answer to LINKS_CLOSE_ALL. */
#define LINKS_NOBODY UINT32_MAX

/* Memory shared by both. */
struct links_shared {
	volatile pid_t holder; /* process whose lock is waited for; 0: none */
	volatile pid_t closer; /* thread that is waited for; 0: the main thread works itself */
};

/* Returns when the other end of the socket and all links are closed. */
void links_run(int sock, struct links_shared *shared, bool sandbox) __attribute__((noreturn));

/* Name of the process while it creates perf events. */
#define LINKS_NAME_PERF "cudatrace-probe"
/* Interval between attempts while a process holds a lock, so that the kernel never waits for it. */
#define LINKS_RETRY_MS 100

/* links_close.c. Returns whether another tracer creates perf events. */
bool links_yield(void);
/* Closes links together, each in a thread. */
#define LINKS_CLOSE_MAX 128
void links_close(const int *fds, unsigned cnt, struct links_shared *shared);

#endif /* ATTACH_PROBE_LINKS_PRIV_H */
