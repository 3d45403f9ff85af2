/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A separate process that starts the command of files.on_rotate, because the daemon itself may
 * start no process (util/sandbox.h). It reads the configuration itself and receives only a file's
 * name. So an attacker who controls the daemon cannot make it run anything else.
 */
#ifndef DAEMON_RUNNER_H
#define DAEMON_RUNNER_H

#include <stdbool.h>

struct runner;

struct runner_what {
	char *command; /* for the shell, "$1" is the file; "" or NULL: none */
	char *folder;  /* directory of the file */
};

/* Runs in that process, at the start and after each reload. It frees the old values, and keeps them
 * when the configuration cannot be read. */
typedef void (*runner_read_fn)(void *ctx, struct runner_what *what);

/* Call this before the daemon opens anything. NULL after reporting. */
struct runner *runner__new(runner_read_fn fn, void *ctx);
/* file: a name in the directory. One at a time. false: the process does not exist. */
bool runner__start(struct runner *r, const char *file);
/* Returns whether the command has ended. status: as of waitpid(). */
bool runner__ended(struct runner *r, int *status);
/* Makes the process read the configuration again. */
void runner__reload(struct runner *r);
/* A running command is left to end by itself. */
void runner__free(struct runner *r);

#endif /* DAEMON_RUNNER_H */
