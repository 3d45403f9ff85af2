/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* State that we inherited at the start and changed for ourselves: limits, ignored and blocked
 * signals. */
#ifndef UTIL_INHERITED_H
#define UTIL_INHERITED_H

#include <stdbool.h>

/* Raises the limit of the stack to 1 MiB. Returns false if less than 256 KiB are allowed. */
bool inherited_raise_stack(void);
/* To be called in a child before exec: the new program inherits what we inherited. */
void inherited_restore(void);
/* Returns whether our parent ignored this signal: nohup ignores SIGHUP; a shell without job control
 * ignores SIGINT and SIGQUIT for background processes. */
bool inherited_ignores(int signo);

#endif /* UTIL_INHERITED_H */
