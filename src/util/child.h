/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A process forked to do one task for the tracer, connected to it by a socket. */
#ifndef UTIL_CHILD_H
#define UTIL_CHILD_H

#define CHILD_SOCK 3

/* To be called in the child: closes all of the tracer's descriptors but the socket, which becomes
 * CHILD_SOCK. Standard files go to /dev/null, so that a reader of the tracer's pipe does not wait
 * for the child. Sets the process name (at most 15 bytes) and leaves the terminal. Ends the process
 * on failure. */
void child_begin(int sock, const char *name);
/* Also keeps these descriptors, if their numbers are above CHILD_SOCK. */
void child_begin_with(int sock, const char *name, const int keep[2]);

#endif /* UTIL_CHILD_H */
