/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The daemon's way to enter running processes (late.h): a process that is forked before the daemon
 * gives up its privileges. It does nothing but fork another one for each request, one at a time,
 * and kill it if it does not end.
 */
#ifndef INJECT_LATE_SERVER_H
#define INJECT_LATE_SERVER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct attach;
struct inject;

enum late_result { LATE_ENTERED, LATE_REFUSED, LATE_RESULT_CNT };

/* why: NULL if the process was entered. */
typedef void (*late_fn)(void *ctx, pid_t pid, const char *why);

/* Before the sandbox. in: with a folder. att: opened for filters. Returns 0 or -errno. */
int late_server__start(struct inject *in, struct attach *att, bool sandbox, late_fn fn, void *ctx);
/* Requests to enter a process. gently: pauses afterwards, so that requests take at most a fifth of
 * a processor. Returns NULL, or why not: a static text. fn receives the result. */
const char *late_server__request(struct inject *in, pid_t pid, bool gently);
/* Reads the results. */
void late_server__look(struct inject *in);
void late_server__end(struct inject *in);

#endif /* INJECT_LATE_SERVER_H */
