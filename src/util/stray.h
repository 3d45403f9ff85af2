/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Signals that we use ourselves (SIGIO for leases, SIGVTALRM for a limit of time), and that another
 * process has sent: whoever takes them notes it here for the code that passes signals on. */
#ifndef UTIL_STRAY_H
#define UTIL_STRAY_H

#include <stdbool.h>

/* May be called in a signal handler and by any thread. */
void stray_note(int signo);
/* Was it noted since this was last asked? */
bool stray_take(int signo);

#endif /* UTIL_STRAY_H */
