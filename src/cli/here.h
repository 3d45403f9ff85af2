/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* cudatrace without any argument, on a terminal, where there is nothing that it could trace: what
 * can be done here, and what to type first. */
#ifndef CLI_HERE_H
#define CLI_HERE_H

#include <stdbool.h>

/* The rights are there, and a GPU. */
bool here__can_trace(void);
/* Five lines to stdout. Returns the exit status. */
int here__print(void);

#endif /* CLI_HERE_H */
