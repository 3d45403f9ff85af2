/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef TESTS_FAKE_LIBCUDA_TIDS_H
#define TESTS_FAKE_LIBCUDA_TIDS_H

#include <stdbool.h>
#include <stdint.h>

/* A thread's calls. Written by it alone. */
struct tid_count {
	uint32_t pid, tid;
	uint64_t entered, returned;
};

void tids_open(void);
bool tids_wanted(void);
void tids_after_fork(void);
/* NULL: nobody wants to know. */
struct tid_count *tids_mine(void);

#endif /* TESTS_FAKE_LIBCUDA_TIDS_H */
