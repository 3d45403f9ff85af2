/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Waits for the answer of a helper process. On a busy machine, such a process may wait for a
 * processor longer than a file may take to answer, so that time does not count.
 */
#ifndef UTIL_AWAIT_H
#define UTIL_AWAIT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Maximum total time. */
#define AWAIT_MAX_MS 3000

/*
 * Returns whether fd became readable before the process had used ms milliseconds: time in which it
 * ran, or waited for something other than a processor. pid 0: unknown, all time counts.
 * *starved_ns: the time that did not count.
 */
bool await_answer(int fd, pid_t pid, unsigned ms, uint64_t *starved_ns);

#endif /* UTIL_AWAIT_H */
