/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* cudatrace without arguments: prints the usage, what this machine allows, and what to type
 * first. */
#ifndef CLI_QUICKSTART_H
#define CLI_QUICKSTART_H

/* Prints to stderr. Returns the exit status: 1, like strace and perf. */
int quickstart__print(void);

#endif /* CLI_QUICKSTART_H */
