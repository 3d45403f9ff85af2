/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The collector of a preloaded library (--collect) inherits the system call filters of the program,
 * which may refuse any call, or return a result without making the call. It must end with the
 * program nevertheless.
 */
#ifndef TRACE_DEADMAN_H
#define TRACE_DEADMAN_H

#include <stdbool.h>

/* Checks that waiting, threads and signals work, and starts a timer that ends this process unless
 * deadman__beat() is called every few seconds. Returns NULL, or what does not work. */
const char *deadman__start(void);
void deadman__beat(void);

#endif /* TRACE_DEADMAN_H */
