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

/* What the rows are, but for the functions. */
#define ENUM_BEGIN(e)
#define VALUE(n, v)
#define ENUM_END(e)
#define STRUCT_BEGIN(s, size)
#define FIELD(off, type, n)
#define STRUCT_END(s)
#define TYPE(t, c, size, kind)
#define TYPE_ENUM(t, c, kind, e)
#define TYPE_STRUCT(t, c, s)
#define FN_NO_RESULT FN

enum {
#define FN(sym, cls, op, since, args) N_##sym,
#include "decode/api/nccl.def"
#undef FN
	FN_CNT
};

extern uint64_t fake_nccl_counts[FN_CNT];

#define COUNT(sym) __atomic_add_fetch(&fake_nccl_counts[N_##sym], 1, __ATOMIC_RELAXED)

#endif /* FAKE_LIBNCCL_H */
