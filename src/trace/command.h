/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The command that cudatrace starts: forked first, released when all probes are attached. */
#ifndef TRACE_COMMAND_H
#define TRACE_COMMAND_H

#include "source.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct command {
	pid_t pid;  /* 0: none */
	int go_fd;  /* written to release the command */
	int err_fd; /* carries the errno of a failed exec */
	int pidfd;
	bool exited;
	int wstatus;
};

/* The user of the command: --user, else the user of sudo, else ourselves. */
struct command_user {
	bool change;
	uid_t uid;
	gid_t gid;
	char *name, *home;
};

/* Reports its own errors: unknown user, no permission to change to it. */
int command_user__find(struct command_user *u, const char *name);
/* From now on files are written with the rights of the user who called sudo, and belong to that
 * user. 0, or -errno after reporting. */
int command_user__owns_files(void);
void command_user__free(struct command_user *u);

/* Reports an error in the command before anything is set up for it. */
int command__check(char **argv);
/* Forks; the child waits, prepared so that the sources can see it. nvtx: the library that it loads
 * when it uses NVTX; NULL: none. Reports its own errors. */
int command__fork(struct command *c, char **argv, const struct command_user *u,
		  const struct sources *ss, const char *nvtx);
/* Lets the child exec. to_stderr: its standard output goes to its standard error, or to /dev/null
 * when that is closed. Reports a failed exec; the child has ended then. */
int command__go(struct command *c, const char *name, bool to_stderr);
/* Returns whether it has ended. Collects its status. */
bool command__ended(struct command *c);
/* Ends a child that was never released. */
void command__cancel(struct command *c);
/* Exit status of the command, or 128 + signal. */
int command__status(const struct command *c);

#endif /* TRACE_COMMAND_H */
