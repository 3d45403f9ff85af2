/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Between links.c, which asks, and links_run.c, which does it. */
#ifndef ATTACH_PROBE_LINKS_PRIV_H
#define ATTACH_PROBE_LINKS_PRIV_H

#include "links.h"

#include <stddef.h>
#include <sys/socket.h>

/* All but LINKS_SETTLE and LINKS_CLOSE_SOON are answered. */
enum links_op { LINKS_SETTLE, LINKS_ATTACH, LINKS_CLOSE, LINKS_CLOSE_SOON, LINKS_CLOSE_ALL };

/* With LINKS_ATTACH: the file, and one program (session) or two (entry, return). */
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

/* Whose the answer to LINKS_CLOSE_ALL is. */
#define LINKS_NOBODY UINT32_MAX

/* Memory that both see. */
struct links_shared {
	volatile pid_t holder; /* waits until this process lets go of its lock; 0: none */
};

/* Ends when the other end of the socket is closed and all links are. */
void links_run(int sock, struct links_shared *shared, bool sandbox) __attribute__((noreturn));

#endif /* ATTACH_PROBE_LINKS_PRIV_H */
