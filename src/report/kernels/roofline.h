/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Rooflines: what executions would take at least, by their bytes, their operations and the peaks of
 * the device. For the map.
 */
#ifndef REPORT_KERNELS_ROOFLINE_H
#define REPORT_KERNELS_ROOFLINE_H

#include "report/report.h"

#define ROOF_NONE UINT32_MAX

/* Time in picoseconds, because a small kernel has few nanoseconds of it. */
struct roof_time {
	uint64_t known_ns; /* GPU time of executions whose work is known */
	uint64_t roof_ps;  /* the least time that this work takes; at most known_ns */
	uint64_t peak_ps;  /* the time of its operations at the data sheet's peak */
};

/* An execution, after the calls that enclose its launch have returned. */
struct roof_execution {
	uint64_t key;	    /* of the launch: pair_key(id, pid) */
	const char *kernel; /* NULL: not known */
	uint64_t ns, bytes; /* bytes: of a copy or memset */
	uint32_t device;    /* roofline_device() */
	char what;	    /* first letter of its op */
	bool is_local;	    /* a copy in the device's memory */
};

/* Number of the device of the current event, an execution; ROOF_NONE: not known. */
uint32_t roofline_device(const struct report *r, const struct trace_event *ev);
/* Adds the time of an execution; the map's executions come here once, in any order. */
void roofline_add(const struct report *r, const struct roof_execution *x, struct roof_time *to);
/* The same for cnt executions of a replayed node (graphs_executed_row()), after the finish. */
void roofline_add_replayed(const struct report *r, uint32_t row, uint64_t cnt, uint64_t ns,
			   struct roof_time *to);

#endif /* REPORT_KERNELS_ROOFLINE_H */
