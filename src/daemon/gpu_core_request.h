/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Requests a GPU core dump from a process that was started with the driver's
 * CUDA_ENABLE_USER_TRIGGERED_COREDUMP=1. The program's GPU work fails afterwards, also with
 * skip_abort (driver 580). Writes to the pipe on which the driver waits, and finds the file. The
 * names are templates in the process's environment: %h (host name), %p (process id), %t (time).
 */
#ifndef DAEMON_GPU_CORE_REQUEST_H
#define DAEMON_GPU_CORE_REQUEST_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Runs in a process that ends afterwards: it becomes the user of the process, with that user's
 * rights in that process's file system. uid: that user when the dossier was begun; a process that
 * has other ids by now is refused. Returns a descriptor of a complete file that is not older
 * than since_s (seconds since the epoch), which is made on request within wait_ms if may_request;
 * -1: there is none, and *why has the reason, or NULL if nothing was enabled. path: the file's
 * name. */
int gpu_core_request(pid_t pid, uid_t uid, bool may_request, int64_t since_s, unsigned wait_ms,
		     char *path, size_t size, const char **why);

#endif /* DAEMON_GPU_CORE_REQUEST_H */
