/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Memory; for other analyses. */
#ifndef REPORT_MEMORY_MEMORY_H
#define REPORT_MEMORY_MEMORY_H

#include "report/report.h"

/* Kind of memory at a host address. */
enum host_place {
	HOST_UNKNOWN,  /* the trace began after the process: any kind is possible */
	HOST_PAGEABLE, /* the program's own memory */
	HOST_PINNED,   /* of cuMemAllocHost, cuMemHostAlloc, cuMemHostRegister */
	HOST_MANAGED,
	HOST_PLACE_CNT
};
enum host_place memory_host_place(const struct report *r, uint32_t pid, uint64_t addr);

/* The context that a call waits for (cuCtxSynchronize) or submits to. 0: no context of the process
 * is in the trace. CONTEXT_UNKNOWN: it may be any of several. */
#define CONTEXT_UNKNOWN UINT64_MAX
struct trace_event;
uint64_t memory_context(const struct report *r, const struct trace_event *ev);

struct memory_result {
	uint64_t frees; /* of the kinds of memory that have leaks, and all if there are none */
	uint64_t device_peak; /* bytes */
	uint64_t leak_cnt, leak_bytes;
	uint64_t left_behind_cnt; /* leaks not caused by the process's exit */
};
/* Sets zeroes if the analysis did not run. */
void memory_result(const struct report *r, struct memory_result *res);
/* The process's peak on one device, in bytes. */
uint64_t memory_peak_of_process(const struct report *r, uint32_t pid);

#endif /* REPORT_MEMORY_MEMORY_H */
