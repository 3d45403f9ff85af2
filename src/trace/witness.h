/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A process next to the tracer that receives signals sent to the whole process group, or to each
 * process of a service or of a Slurm step. The command has received those as well, so they are not
 * passed on. siginfo does not show this: a signal by kill(2) looks the same either way.
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

/* argv: the command, within our own arguments. NULL: the child that signals are passed on to is a
 * process like us, so the witness keeps our name and our line. Tracing works without a witness, so
 * errors are not reported. */
void witness__start(struct witness *w, char **argv, int argc, bool sandbox);
/* Returns whether the same process also sent the signal, which we have just received, to the
 * witness. Each signal counts once. Waits a few milliseconds. */
bool witness__saw(struct witness *w, const siginfo_t *si);
/* Passes a signal, which we have just received, on to our child, unless the child has received it,
 * too. is_leader: see relay_is_for_us(). */
void witness__relay(struct witness *w, const siginfo_t *si, pid_t child, bool is_leader);
void witness__end(struct witness *w);

#endif /* TRACE_WITNESS_H */
