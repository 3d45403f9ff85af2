/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Closes descriptors whose last close may wait, in a thread:
 *
 * - A memory file: freeing gigabytes takes a second.
 * - A socket that others can send to: unread messages may hold descriptors (SCM_RIGHTS). If one is
 *   a TCP socket with SO_LINGER and unsent data, its last close waits for the time that the sender
 *   chose (inet_release(), Linux 6.18). Receiving such a message without space for descriptors
 *   closes them, too: safe_recv() does not receive it.
 */
#ifndef UTIL_SAFE_CLOSE_H
#define UTIL_SAFE_CLOSE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Starts the thread, if it does not run. To be called before the sandbox is entered, because the
 * thread drops all privileges. false: it cannot be started. */
bool safe_close__start(void);
/* Ends the thread, if it runs, when it has closed all descriptors. */
void safe_close__stop(void);
/* Closes fd, if it is not negative; its peer sees the end at once. Without the thread a close(). If
 * thousands of descriptors wait, the caller waits a few milliseconds; if none is closed meanwhile,
 * fd stays open. */
void safe_close(int fd);
/* Many descriptors wait: accept no connections. */
bool safe_close__is_busy(void);

/* Makes messages with descriptors fail for the senders to a listening socket and to its
 * connections (SO_PASSRIGHTS, Linux 6.16). Before, safe_recv() refuses them. */
void safe_recv__refuse_fds(int listen_fd);
/* Like recv() with MSG_DONTWAIT, for a socket that only the caller reads. Returns -1 with EPERM if
 * the next message, or of a stream the one after it, has descriptors; the connection must be closed
 * by safe_close(). A stream with out-of-band data needs SO_OOBINLINE. */
ssize_t safe_recv(int fd, void *buf, size_t size);

#endif /* UTIL_SAFE_CLOSE_H */
