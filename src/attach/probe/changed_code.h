/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Finds functions whose first instructions a process has changed in its memory, as inline hooks do
 * (a jump to a function of its own). The kernel puts its breakpoint into such a page, too, and then
 * runs the instruction of the file and continues behind it, in the middle of the process's jump:
 * the process crashes, also if it is not traced. A process under valgrind or DynamoRIO reads the
 * breakpoint as code and ends by SIGTRAP: all functions count as changed.
 */
#ifndef ATTACH_PROBE_CHANGED_CODE_H
#define ATTACH_PROBE_CHANGED_CODE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Sets changed[i] for offsets in the file of fd with other code in a process; pid: only in this
 * one; 0: in any. Returns such a process; 0: there is none. Takes at most a second: processes that
 * were not examined in this time count as unchanged. Forks; what the process reads may block. */
pid_t changed_code__find(int fd, pid_t pid, const uint64_t *offs, unsigned cnt, bool *changed);

#endif /* ATTACH_PROBE_CHANGED_CODE_H */
