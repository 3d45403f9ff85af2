/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The Unix socket of `cudatrace ctl`. A request is one line of words separated by tabs. The answer
 * is one line of JSON, an object, with "error" in it when nothing was done.
 *
 * A daemon holds a lock on a file next to the socket: the socket of an ended daemon is replaced,
 * that of a running one is not.
 */
#ifndef DAEMON_CTL_H
#define DAEMON_CTL_H

#include <stdbool.h>

struct ctl;
struct event_base;
struct out;

#define CTL_MAX_WORDS 8

struct ctl_ops {
	/* root: the client is root, not only a member of the group. */
	void (*command)(void *ctx, int argc, char **argv, bool root, struct out *answer);
	void *ctx;
};

/* Reports its own errors. group: "" for none. NULL on error. */
struct ctl *ctl__new(struct event_base *base, const char *path, const char *group,
		     const struct ctl_ops *ops);
/* Changes the group whose members may connect; -errno when it does not exist. */
int ctl__set_group(struct ctl *c, const char *group);
void ctl__free(struct ctl *c);

/* The client: sends a request and returns the answer, which the caller frees. Reports its own
 * errors. NULL: there is no answer. */
char *ctl_request(const char *path, int argc, const char *const *argv);

#endif /* DAEMON_CTL_H */
