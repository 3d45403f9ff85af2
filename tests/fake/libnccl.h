/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The mock libnccl.so.2: every function of the table. Those of libnccl.c and libnccl_calls.c
 * have behaviour; the others count their calls and return 0. Each is also exported as pnccl*, at
 * the same address.
 *
 *   FAKE_CUDA_COUNTS=FILE  at exit, append "SYMBOL COUNT" lines, as the mock libcuda does
 *   FAKE_NCCL_VERSION=N    result of ncclGetVersion; the version in its code stays 22809
 */
#ifndef FAKE_LIBNCCL_H
#define FAKE_LIBNCCL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
#define FN(sym, cls, op, since, args) N_##sym,
#include "nccl_functions.def"
	FN_CNT
};

extern uint64_t fake_nccl_counts[FN_CNT];

#define COUNT(sym) __atomic_add_fetch(&fake_nccl_counts[N_##sym], 1, __ATOMIC_RELAXED)
#define ALSO(sym)  extern __typeof__(sym) p##sym __attribute__((alias(#sym)))

/* ncclResult_t */
enum {
	SUCCESS = 0,
	CUDA_ERROR = 1,
	INVALID_ARGUMENT = 4,
	INVALID_USAGE = 5,
	IN_PROGRESS = 7,
};

/* Sends and receives are not counted. */
enum {
	COUNTED_BROADCAST,
	COUNTED_REDUCE,
	COUNTED_ALL_GATHER,
	COUNTED_REDUCE_SCATTER,
	COUNTED_ALL_REDUCE,
	COUNTED,
};

#define KERNEL "ncclDevKernel_AllReduce_Sum_f32_RING_LL"

/* Like NCCL's: a number first, and the rank far behind it (attach/find/comm_layout.h). */
struct comm {
	uint64_t magic;
	uint64_t buffer;
	void *module, *function;
	int blocking;
	char tables[0x3000];
	uint64_t hash;
	int rank, nranks, device, nvml_device;
	char more[0x200];
	/* Launched collectives, by function, as NCCL numbers them; and those requested in the open
	 * group. */
	uint64_t made[COUNTED], asked[COUNTED];
};

/* A driver function without prototype, looked up by name in the loaded libraries, like in NCCL. */
int (*fake_driver(const char *sym))();

/* libnccl_calls.c: communicators that are created at the end of the group. */
struct comm_job {
	struct comm **out;
	uint64_t hash;
	int rank, nranks, blocking;
};
int comm_make(const struct comm_job *job);
/* libnccl.c: false: it no longer exists. It is not destroyed before comm_done(). */
bool comm_use(const struct comm *comm);
void comm_done(void);
bool group_takes(const struct comm_job *job);

/* These begin by saving a register, like most of the real ones, and the others with endbr64:
 * inject/bypass.c. */
#ifdef __CET__
#define PUSHES __attribute__((nocf_check))
#else
#define PUSHES
#endif

#endif /* FAKE_LIBNCCL_H */
