/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The Unix socket that `cudatrace ctl` talks to. A request is one line, its words between tabs; the
 * answer is one line of JSON, an object, with "error" in it when nothing was done.
 *
 * A daemon holds a lock on a file beside the socket: the socket of one that died is replaced, that
 * of one that lives is not.
 */
#ifndef DAEMON_CTL_H
#define DAEMON_CTL_H

#include <stdbool.h>

struct ctl;
struct event_base;
struct out;

#define CTL_MAX_WORDS 8

struct ctl_ops {
	/* root: the user who asks is root, not only a member of the group. */
	void (*command)(void *ctx, int argc, char **argv, bool root, struct out *answer);
	void *ctx;
};

/* Reports its own errors. group: "" for none. NULL on error. */
struct ctl *ctl__new(struct event_base *base, const char *path, const char *group,
		     const struct ctl_ops *ops);
/* Who may ask from now on; -errno when there is no such group. */
int ctl__set_group(struct ctl *c, const char *group);
void ctl__free(struct ctl *c);

/* The other end: asks the daemon and gives its answer, to be freed. Reports its own errors. NULL
 * when there is no answer. */
char *ctl_ask(const char *path, int argc, const char *const *argv);

#endif /* DAEMON_CTL_H */
