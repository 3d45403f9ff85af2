/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Passes signals on to a child of ours: their senders may have only our process id. */
#ifndef UTIL_RELAY_H
#define UTIL_RELAY_H

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

/* Returns whether another process sent the signal to this process alone. false: a terminal sent it
 * to the whole process group, or this process caused it (SIGPIPE). is_leader: this process leads
 * its session; when the terminal closes, the kernel sends SIGHUP only to the leader. */
bool relay_is_for_us(const siginfo_t *si, bool is_leader);
/* Sends the signal to the child, which must not have been waited for. A sigqueue() value keeps its
 * sender; for other signals the child sees us as the sender, since the kernel allows no other. */
void relay_signal(pid_t child, const siginfo_t *si);
/* After SIGTSTP, which is blocked: stops like any program that the terminal stops with its group.
 */
void relay_stop_too(void);
/* Passes signals on until the child has ended, and reaps all other children meanwhile. All signals
 * must be blocked. Returns the status from waitpid(). */
int relay_until_end(pid_t child);
/* For process 1 of a container: continues the caller in a child. Process 1 passes signals on to it,
 * reaps orphans, and ends with its status. Does nothing in other processes. */
void relay_as_init(void);

#endif /* UTIL_RELAY_H */
