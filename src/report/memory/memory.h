/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What other analyses ask the one of memory. */
#ifndef REPORT_MEMORY_MEMORY_H
#define REPORT_MEMORY_MEMORY_H

#include "report/report.h"

/* What an address of the host's is. */
enum host_place {
	HOST_UNKNOWN,  /* the trace began after the process: it may be anything */
	HOST_PAGEABLE, /* memory of the program's own */
	HOST_PINNED,   /* of cuMemAllocHost, cuMemHostAlloc, cuMemHostRegister */
	HOST_MANAGED,
	HOST_PLACE_CNT
};
enum host_place memory_host_place(const struct report *r, uint32_t pid, uint64_t addr);

/* The context that a call waits for (cuCtxSynchronize), or submits to. 0: the process has none that
 * the trace has seen. CONTEXT_UNKNOWN: it may be any of several. */
#define CONTEXT_UNKNOWN UINT64_MAX
struct trace_event;
uint64_t memory_context(const struct report *r, const struct trace_event *ev);

struct memory_result {
	uint64_t frees;
	uint64_t device_peak; /* bytes */
	uint64_t leak_cnt, leak_bytes;
	uint64_t left_behind_cnt; /* of the leaks: by something else than the process's exit */
};
/* Zeroes when the analysis did not run. */
void memory_result(const struct report *r, struct memory_result *res);
/* The most that the process had of one device, in bytes. */
uint64_t memory_peak_of_process(const struct report *r, uint32_t pid);

#endif /* REPORT_MEMORY_MEMORY_H */
