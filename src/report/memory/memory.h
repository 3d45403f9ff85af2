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
/* The context that a successful call ends. 0: none, or unknown. For analyses before this one. */
uint64_t memory_ended_context(const struct report *r, const struct trace_event *ev);

/* A block of memory with an address. */
struct memory_block {
	uint64_t ptr, size, id; /* id: of the call that made it */
	uint64_t start_ns;	/* of that call */
	const char *call;
	const struct stack *stack; /* NULL: none */
	int device;		   /* -1: unknown, or not on a GPU */
	bool on_gpu, size_known;
};
/* Calls fn for each live block or mapping of the process that has an address, in no order. */
void memory_each_block(const struct report *r, uint32_t pid,
		       void (*fn)(void *ctx, const struct memory_block *b), void *ctx);
/* Gets the live block or mapping that contains the address. Returns false if there is none. */
bool memory_block_around(const struct report *r, uint32_t pid, uint64_t addr,
			 struct memory_block *b);
/* Whether all memory of the process is in the trace. */
bool memory_is_whole(const struct report *r, uint32_t pid);
/* Gets the device on which a call that allocates does so; -1: unknown. */
int memory_device(const struct report *r, const struct trace_event *ev);

struct memory_result {
	uint64_t frees;	      /* frees of memory of the kinds that leak; all frees if none leaks */
	uint64_t device_peak; /* bytes */
	uint64_t leak_cnt, leak_bytes;
	uint64_t left_behind_cnt; /* leaks not caused by the process's exit */
};
/* Sets zeroes if the analysis did not run. */
void memory_result(const struct report *r, struct memory_result *res);
/* The process's peak on one device, in bytes. */
uint64_t memory_peak_of_process(const struct report *r, uint32_t pid);

#endif /* REPORT_MEMORY_MEMORY_H */
