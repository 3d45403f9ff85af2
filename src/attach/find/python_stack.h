/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Frames of Python code of a thread that waits, as bpf/python.bpf.h reads them of one that calls.
 */
#ifndef ATTACH_FIND_PYTHON_STACK_H
#define ATTACH_FIND_PYTHON_STACK_H

#include "ct_bpf.h"
#include "ct_record.h"

#include <stdint.h>
#include <sys/types.h>

/* self: its pthread_self(). Up to CT_PYTHON_MAX frames, innermost first; how many: 0 where it runs
 * no Python, or one of them cannot be read. */
unsigned python_stack__read(pid_t pid, const struct ct_python *p, uint64_t self,
			    struct ct_python_frame frames[CT_PYTHON_MAX]);

#endif /* ATTACH_FIND_PYTHON_STACK_H */
