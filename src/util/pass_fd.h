/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A descriptor, or -errno, from one process of ours to another. Who sends may be under the orders
 * of those whose files he opens: nothing but what was asked for is taken. */
#ifndef UTIL_PASS_FD_H
#define UTIL_PASS_FD_H

#include <stdbool.h>
#include <sys/types.h>

/* fd: below 0 an -errno. */
bool pass_fd__send(int sock, int fd);
/* An answer: a descriptor of a file of that type (S_IF...), or -errno, in *fd. false: there is
 * none, or it is not one that is given: whoever is at the other end is not to be asked again. */
bool pass_fd__take(int sock, mode_t type, int *fd);

#endif /* UTIL_PASS_FD_H */
