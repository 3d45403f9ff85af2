/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Shared by the files of --stalls: stalls.c samples, stall_sums.c adds up, stall_code.c sends
 * machine code and source lines. */
#ifndef INJECT_STALLS_PRIV_H
#define INJECT_STALLS_PRIV_H

#include "ct_stall.h"
#include "stalls.h"

#define STALL_REASONS_MAX 64 /* CUPTI's reasons: 40 in 13.0 */

/* A function with samples. */
struct stall_fn {
	const char *name; /* CUPTI's; NULL: the row is free */
	uint64_t id;
	uint32_t crc, index, device;
	bool code_is_sent, no_lines;
	uint64_t reasons[CT_STALL_CNT], not_issued;
};

/* What CUPTI's numbers of reasons stand for. */
struct stall_reasons {
	uint8_t reason[STALL_REASONS_MAX], is_not_issued[STALL_REASONS_MAX];
};

/* A device whose warps are sampled. */
struct stall_device {
	uint32_t sm_cnt, clock_khz, period;
};

static inline struct ct_shm_stalls *stalls_shm(void)
{
	return &inject_process->shm->stalls;
}

static inline uint64_t stalls_mix(uint64_t x)
{
	x ^= x >> 32;
	x *= 0xd6e8feb86659fd93ull;
	x ^= x >> 32;
	x *= 0xd6e8feb86659fd93ull;
	return x ^ x >> 32;
}

/* --- stalls.c --- */

const struct stall_device *stalls_device(uint32_t device);

/* --- stall_sums.c --- */

/* Maps memory. Returns false if there is none. */
bool stall_sums_init(void);
void stall_sums_add(const struct cupti_pc *p, uint32_t device, const struct stall_reasons *of);
/* Sends the sums since the last call, and begins new ones. */
void stall_sums_send(struct thread *t, uint64_t begin_ns, uint64_t now);

/* --- stall_code.c --- */

/* Maps memory. Returns false if there is none. */
bool stall_code_init(const struct cupti *c);
/* Callbacks of CUPTI, in the program's thread. */
void stall_code_loaded(const struct cupti_module *m);
void stall_code_unloaded(const struct cupti_module *m);
/* Sends the function's machine code, unless that was done. */
void stall_code_send(struct thread *t, struct stall_fn *f);
/* Sends the source line of an instruction, if it is known and new. */
void stall_code_send_line(struct thread *t, struct stall_fn *f, uint32_t pc);
/* Frees the copy's memory: no process keeps it between intervals. */
void stall_code_drop(void);

#endif /* INJECT_STALLS_PRIV_H */
