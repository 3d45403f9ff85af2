/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Names of abstract sockets belong to a network namespace: the tracer listens in those of the
 * processes that it enters. */
#ifndef INJECT_LATE_NET_H
#define INJECT_LATE_NET_H

#include <stdint.h>
#include <sys/types.h>

struct inject;

/* Returns a listening socket in the process's namespace, under our name, or -errno. -EADDRINUSE:
 * there is one. Needs CAP_SYS_ADMIN. */
int late_net__socket(const struct inject *in, pid_t pid, uint64_t *ino);
/* Also listens there, if it is another namespace. Before the sandbox. */
int late_net__add(struct inject *in, pid_t pid);

#endif /* INJECT_LATE_NET_H */
