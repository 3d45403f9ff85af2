/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Passes a descriptor, or -errno, between processes of ours. The sender may be controlled by users
 * whose files it opens: the receiver accepts only what it requested. */
#ifndef UTIL_PASS_FD_H
#define UTIL_PASS_FD_H

#include <stdbool.h>
#include <sys/types.h>

/* fd below 0 is an -errno. */
bool pass_fd__send(int sock, int fd);
/* Receives a descriptor of a file of that type (S_IF...), or -errno, in *fd. false: there was no
 * valid answer, and the sender must not be used again. */
bool pass_fd__take(int sock, mode_t type, int *fd);

#endif /* UTIL_PASS_FD_H */
