/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The command that cudatrace starts: made at once, let go when everything is attached. */
#ifndef TRACE_COMMAND_H
#define TRACE_COMMAND_H

#include "source.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct command {
	pid_t pid;  /* 0: none */
	int go_fd;  /* closing it lets the command run */
	int err_fd; /* errno of a failed exec comes from here */
	int pidfd;
	bool exited;
	int wstatus;
};

/* Who the command runs as: --user, else who called sudo, else ourselves. */
struct command_user {
	bool change;
	uid_t uid;
	gid_t gid;
	char *name, *home;
};

/* Reports its own errors: unknown user, no right to become it. */
int command_user__find(struct command_user *u, const char *name);
/* Files are written with the rights of who called sudo from now on, and belong to him. 0, or -errno
 * after reporting. */
int command_user__owns_files(void);
void command_user__free(struct command_user *u);

/* Says what is wrong with a command before anything is set up for it. */
int command__check(char **argv);
/* Forks; the child waits, and is prepared to be seen by the sources. nvtx: what it is to load when
 * it uses NVTX; NULL: nothing. Reports its own errors. */
int command__fork(struct command *c, char **argv, const struct command_user *u,
		  const struct sources *ss, const char *nvtx);
/* Lets it exec. to_stderr: its standard output goes to its standard error, to nowhere when that is
 * closed. Reports a failed exec; the child is gone then. */
int command__go(struct command *c, const char *name, bool to_stderr);
/* Has it ended? Collects its status. */
bool command__ended(struct command *c);
/* Waits for its end. */
void command__wait(struct command *c);
/* Ends a child that was never let go. */
void command__cancel(struct command *c);
/* Exit status to pass on: its own, or 128 + signal. */
int command__status(const struct command *c);

#endif /* TRACE_COMMAND_H */
