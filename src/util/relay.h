/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Passing on signals to a child of ours, for which whoever sent them may not know its number. */
#ifndef UTIL_RELAY_H
#define UTIL_RELAY_H

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

/* Was it sent to this process alone, by another? false: a terminal sent it to the whole process
 * group, or this process has caused it (SIGPIPE). is_leader: this process leads its session; the
 * kernel sends SIGHUP to it alone when the terminal is gone. */
bool relay_is_for_us(const siginfo_t *si, bool is_leader);
/* Sends it on. The child must not have been waited for. A value of sigqueue() is kept, and with it
 * the sender; of others the child sees us as the sender: the kernel lets nobody pretend that. */
void relay_signal(pid_t child, const siginfo_t *si);
/* Passes on signals until the child has ended, and waits for every other child meanwhile. All
 * signals must be blocked. Returns its status, as of waitpid(). */
int relay_until_end(pid_t child);
/* As process 1 of a container: the caller goes on in a child. Process 1 passes on signals to it,
 * reaps orphans, and ends with its status. Elsewhere: nothing. */
void relay_as_init(void);

#endif /* UTIL_RELAY_H */
