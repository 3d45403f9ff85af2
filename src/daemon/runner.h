/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A process of its own that starts the command of files.on_rotate: the daemon itself may start
 * nothing (util/sandbox.h). It reads the configuration itself and is told no more than which file
 * it is about, so that who takes over the daemon cannot have it run anything else.
 */
#ifndef DAEMON_RUNNER_H
#define DAEMON_RUNNER_H

#include <stdbool.h>

struct runner;

struct runner_what {
	char *command; /* for the shell, "$1" is the file; "" or NULL: none */
	char *folder;  /* the file's */
};

/* In that process, at the start and after each reload; what was there is to be freed, and stays as
 * it is when the configuration cannot be read. */
typedef void (*runner_read_fn)(void *ctx, struct runner_what *what);

/* Before the daemon opens anything. NULL after reporting. */
struct runner *runner__new(runner_read_fn fn, void *ctx);
/* file: a name in the folder. One at a time. false: there is nobody who could. */
bool runner__start(struct runner *r, const char *file);
/* Has the command ended? status: as of waitpid(). */
bool runner__ended(struct runner *r, int *status);
/* The configuration is another now. */
void runner__reload(struct runner *r);
/* A command that runs is left to end by itself. */
void runner__free(struct runner *r);

#endif /* DAEMON_RUNNER_H */
