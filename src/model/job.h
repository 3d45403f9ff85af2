/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The place of a process in a job of several processes, from its environment. */
#ifndef MODEL_JOB_H
#define MODEL_JOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Finds the global rank in an environment of len bytes: variables that end with a NUL. env[len] is
 * a NUL too. Returns false if it has none. */
bool job_rank_in(const char *env, size_t len, uint32_t *rank);
/* The same, for the environment that a running process was started with. Returns false if it cannot
 * be read. */
bool job_rank_of(pid_t pid, uint32_t *rank);

#endif /* MODEL_JOB_H */
