/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A process beside the tracer that receives what is sent to the whole process group, or to each
 * process of a service or of a Slurm step. The command has received that as well, so it is not
 * passed on. No siginfo tells this: a signal by kill(2) looks the same either way.
 */
#ifndef TRACE_WITNESS_H
#define TRACE_WITNESS_H

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

struct witness {
	pid_t pid; /* 0: none, nothing was seen */
	int sock;
};

/* argv: of the command, as it stands in our own arguments. Tracing works without a witness, so this
 * reports nothing. */
void witness__start(struct witness *w, char **argv, int argc, bool sandbox);
/* Was the signal, which we have just received, sent to the witness by the same process, too? Each
 * counts once. Waits for milliseconds. */
bool witness__saw(struct witness *w, const siginfo_t *si);
void witness__end(struct witness *w);

#endif /* TRACE_WITNESS_H */
