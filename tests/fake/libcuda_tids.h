/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef TESTS_FAKE_LIBCUDA_TIDS_H
#define TESTS_FAKE_LIBCUDA_TIDS_H

#include <stdbool.h>
#include <stdint.h>

/* The calls of a thread, which alone writes them. */
struct tid_count {
	uint32_t pid, tid;
	uint64_t entered, returned;
};

void tids_open(void);
bool tids_wanted(void);
void tids_after_fork(void);
/* NULL: counting is off. */
struct tid_count *tids_mine(void);

#endif /* TESTS_FAKE_LIBCUDA_TIDS_H */
