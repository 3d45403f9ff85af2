/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Functions of the mock libnccl.so.2 that do nothing, weak: libnccl.c overrides some. */
#include "libnccl.h"

uint64_t fake_nccl_counts[FN_CNT];

#define FN(sym, cls, op, since, args)                                                              \
	__attribute__((weak)) int sym(void);                                                       \
	__attribute__((weak)) int sym(void)                                                        \
	{                                                                                          \
		COUNT(sym);                                                                        \
		return 0;                                                                          \
	}                                                                                          \
	extern __typeof__(sym) p##sym __attribute__((weak, alias(#sym)));
#include "nccl_functions.def"
