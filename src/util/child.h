/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A process forked to do one thing for the tracer, with which it shares a socket. */
#ifndef UTIL_CHILD_H
#define UTIL_CHILD_H

#define CHILD_SOCK 3

/* In the child: only the socket of the tracer's descriptors is left, as CHILD_SOCK. Standard files
 * lead nowhere: whoever reads the tracer's pipe waits for its last writer. It is called name (15
 * bytes at most) and has no terminal. Ends the process where that fails. */
void child_begin(int sock, const char *name);

#endif /* UTIL_CHILD_H */
