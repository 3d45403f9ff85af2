/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* System call filters (seccomp) of a process that the library is to enter. They are simulated, not
 * tried: a filter may kill the process. */
#ifndef INJECT_LATE_FILTER_H
#define INJECT_LATE_FILTER_H

#include <linux/filter.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct attach;

/* Number of filters of the thread that has most of them; *least: of the one that has fewest.
 * UINT32_MAX: strict mode. */
unsigned late_filter__count(pid_t pid, unsigned *least);
/* Number of filters in this text of /proc/PID/task/TID/status. */
unsigned late_filter__in(const char *status);
/* Returns NULL if its filters allow all calls that loading the library takes, or why not: a static
 * text. *cnt: late_filter__count() of those that were read. a: opened for filters. */
const char *late_filter__check(struct attach *a, pid_t pid, unsigned *cnt);
/* Returns the first needed call that this filter harms; NULL: none. */
const char *late_filter__harms(const struct sock_filter *code, unsigned len);

#endif /* INJECT_LATE_FILTER_H */
