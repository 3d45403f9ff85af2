/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What we were started with and change for ourselves: limits, ignored and blocked signals. */
#ifndef UTIL_INHERITED_H
#define UTIL_INHERITED_H

#include <stdbool.h>

/* In a child that becomes another program: that one gets all of it as we did. */
void inherited_restore(void);
/* Our parent ignored this signal: nohup does so with SIGHUP, a shell without job control with
 * SIGINT and SIGQUIT of what it starts in the background. */
bool inherited_ignores(int signo);

#endif /* UTIL_INHERITED_H */
