/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Signals that we use ourselves (SIGIO for leases, SIGVTALRM and SIGSTKFLT for time limits) but that another
 * process sent. Their handlers note them here for the code that passes signals on. */
#ifndef UTIL_STRAY_H
#define UTIL_STRAY_H

#include <stdbool.h>

/* Async-signal-safe; may be called by any thread. */
void stray_note(int signo);
/* Whether the signal was noted since the last call. */
bool stray_take(int signo);

#endif /* UTIL_STRAY_H */
