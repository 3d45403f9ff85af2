/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The stand-in libnccl.so.2: every function of the table. Those of libnccl.c do something; the
 * others count their calls and return 0. Each is exported as pnccl*, too, at the same address.
 *
 *   FAKE_CUDA_COUNTS=FILE  at exit, append "SYMBOL COUNT" lines, as the stand-in libcuda does
 */
#ifndef FAKE_LIBNCCL_H
#define FAKE_LIBNCCL_H

#include <stdint.h>

enum {
#define FN(sym, cls, op, since, args) N_##sym,
#include "nccl_functions.def"
	FN_CNT
};

extern uint64_t fake_nccl_counts[FN_CNT];

#define COUNT(sym) __atomic_add_fetch(&fake_nccl_counts[N_##sym], 1, __ATOMIC_RELAXED)

#endif /* FAKE_LIBNCCL_H */
