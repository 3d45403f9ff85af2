/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Parents of processes that were stopped until their library was attached. bpf/stop.bpf.h avoids
 * such a stop if the parent would detect it, but a parent can begin to wait for stops meanwhile.
 * su, runuser, script, nsenter and sudo then stop themselves until they are continued, which
 * this file does. Other parents are left as they are.
 */
#ifndef TRACE_STOPS_H
#define TRACE_STOPS_H

#include <stdint.h>
#include <sys/types.h>

#define STOPS_MAX 64

struct stops {
	struct stop {
		pid_t child, parent;
		unsigned long long parent_start;
		uint64_t end_ns;
	} of[STOPS_MAX]; /* the oldest is replaced */
	unsigned cnt;
};

/* The process continues now. */
void stops__note(struct stops *s, pid_t pid, uint64_t now);
/* To be called by the clock: continues parents that have stopped themselves. A user who stops a
 * job stops the child, too: then the parent stays as it is. */
void stops__tick(struct stops *s, uint64_t now);

#endif /* TRACE_STOPS_H */
