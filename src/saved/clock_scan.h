/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Collects when each rank entered and left collectives that no rank leaves before all have entered
 * them. With GPU times these are start and end of the kernel; without, the start of the call, and
 * the end of a synchronization that waited for it.
 */
#ifndef SAVED_CLOCK_SCAN_H
#define SAVED_CLOCK_SCAN_H

#include "model/event.h"

#define CLOCK_NEVER INT64_MAX

struct clock_seen {
	uint64_t comm, seq;
	int64_t enter_ns, leave_ns; /* leave CLOCK_NEVER: unknown */
	uint64_t bytes;
	uint32_t unit; /* of files whose times share a clock */
	uint8_t op;
	bool by_gpu;
};

/* Of more collectives, the same part of each rank's is kept. */
#define CLOCK_SEEN_MAX (1u << 20)

struct clock_scan {
	struct clock_seen *seen;
	unsigned cnt, cap;
	unsigned skipped; /* a collective is kept if so many bits of a hash of it are 0 */
	struct scan_file *file;
};

void clock_scan__begin(struct clock_scan *s, uint32_t unit, bool gpu_time);
void clock_scan__event(struct clock_scan *s, const struct trace_event *ev);
/* Ends a file. gpu_error_ns: accuracy of its GPU times; UINT64_MAX: they cannot be used. */
void clock_scan__end(struct clock_scan *s, uint64_t gpu_error_ns);
void clock_scan__free(struct clock_scan *s);

#endif /* SAVED_CLOCK_SCAN_H */
