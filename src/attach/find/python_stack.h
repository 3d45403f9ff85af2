/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Reads Python frames of a waiting thread; bpf/python.bpf.h reads those of a calling thread. */
#ifndef ATTACH_FIND_PYTHON_STACK_H
#define ATTACH_FIND_PYTHON_STACK_H

#include "ct_bpf.h"
#include "ct_record.h"

#include <stdint.h>
#include <sys/types.h>

/* self: its pthread_self(). Reads up to CT_PYTHON_MAX frames, innermost first. Returns the number:
 * 0 if it runs no Python, or a frame cannot be read. */
unsigned python_stack__read(pid_t pid, const struct ct_python *p, uint64_t self,
			    struct ct_python_frame frames[CT_PYTHON_MAX]);

#endif /* ATTACH_FIND_PYTHON_STACK_H */
