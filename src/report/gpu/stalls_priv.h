/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Why kernels wait: the state of stalls*.c. */
#ifndef REPORT_GPU_STALLS_PRIV_H
#define REPORT_GPU_STALLS_PRIV_H

#include "ct_stall.h"

#include "decode/sass.h"
#include "report/collect.h"
#include "report/kernels/launched.h"
#include "report/report.h"

/* Fewer samples say nothing about a kernel. */
#define ENOUGH 300
/* Fewer samples that issued do not tell the length of a wait. */
#define ENOUGH_ISSUED 20

#define SIGNS_MAX     3
#define DIAGNOSES_MAX 4

struct stall_sign {
	const char *id;
	double value, bound;
	bool is_max;   /* the value is at most bound; otherwise at least */
	bool is_least; /* the value is a lower bound */
};

struct stall_diagnosis {
	const char *id, *title, *advice;
	bool is_limit;
	struct stall_sign signs[SIGNS_MAX];
	unsigned sign_cnt;
};

struct stall_kernel {
	const char *name;
	uint64_t function; /* one of them */
	uint64_t samples, not_issued, sm_ns, gpu_ns;
	uint64_t reasons[CT_STALL_CNT], classes[SASS_CLASS_CNT];
	/* By reason: samples with it at the instructions that wait most, and of these that issued.
	 */
	uint64_t waiting[CT_STALL_CNT], issued[CT_STALL_CNT];
	/* Of samples with decoded code only. */
	uint64_t decoded, guarded, diverged, issued_memory, issued_multiply, matrix;
	uint32_t pid, device, sm_cnt, arch, period;
	double gbps; /* peak rate of the device's memory; 0: not known */
	const char *code;
	unsigned place_at, place_cnt; /* in sorted_places */
	/* After the finish. */
	struct launched launch;
	struct stall_diagnosis diagnoses[DIAGNOSES_MAX];
	unsigned diagnosis_cnt;
};

/* --- values of a kernel --- */

/* The reason, of those that are waits, with most samples; CT_STALL_CNT: none. */
unsigned stalls_main(const uint64_t *of);
double stalls_issue_share(const struct stall_kernel *x);
/* Length of a wait for the main reason, in cycles. */
bool stalls_has_wait(const struct stall_kernel *x);
double stalls_wait_cycles(const struct stall_kernel *x);
/* Share of the multiprocessors while the kernel ran. */
bool stalls_has_busy(const struct stall_kernel *x);
double stalls_busy(const struct stall_kernel *x);

/* stalls_diagnosis.c: sets diagnoses. */
void stalls_diagnose(struct stall_kernel *x);
/* Formats the value with the words of its sign. */
const char *stalls_sign_words(const struct stall_sign *sign, char *buf, size_t size);
/* The most bytes that the device's memory can move per access of a warp to global memory. */
bool stalls_has_accesses(const struct stall_kernel *x);
double stalls_access_bytes(const struct stall_kernel *x);

#endif /* REPORT_GPU_STALLS_PRIV_H */
