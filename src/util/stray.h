/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Signals that we use ourselves (SIGIO for leases, SIGVTALRM and SIGSTKFLT for time limits) but
 * that another process sent. Their handlers note them here for the code that passes signals on. */
#ifndef UTIL_STRAY_H
#define UTIL_STRAY_H

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

/* Async-signal-safe; may be called by any thread. signo: below 32. sender: the process that sent
 * it. */
void stray_note(int signo, pid_t sender);
/* Returns whether the signal was noted since the last call. si: the last one, as kill(2) sends it.
 */
bool stray_take(int signo, siginfo_t *si);

#endif /* UTIL_STRAY_H */
