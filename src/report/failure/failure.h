/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Explained failures, for the short report. */
#ifndef REPORT_FAILURE_FAILURE_H
#define REPORT_FAILURE_FAILURE_H

#include "report/report.h"

/* Returns whether a context is unusable after this result of fn. */
bool failure_is_sticky(const struct api_fn *fn, int32_t result);
/* Returns the process that a message of the driver names; 0: none. */
uint32_t xid_pid(const char *message);

/* A fault that broke a context. */
struct failure_fault {
	const struct api_fn *fn; /* function that reported it first */
	int32_t result;
	uint64_t at_ns, call_cnt; /* calls that failed for this reason */
	unsigned suspect_cnt;
	bool certain;
};
/* Gets the first fault. Returns false if there is none. Valid after the finish. */
bool failure_first_fault(const struct report *r, struct failure_fault *res);
/* The first allocation that failed because a GPU's memory was full. */
struct failure_oom {
	const struct api_fn *fn;
	uint64_t at_ns, cnt;	       /* cnt: how often it happened */
	uint64_t requested;	       /* bytes; 0: unknown */
	uint64_t held_bytes, held_cnt; /* blocks of the process */
};
/* Returns false if there is none, or if the process got such a block later, or
 * its thread launched kernels without it. Valid after the
 * finish. */
bool failure_first_oom(const struct report *r, struct failure_oom *res);
/* A wait that has not returned, and the work that it waits for. */
struct failure_wait {
	char verdict[1024], advice[256];
	char work[192];	  /* the first work that is not known to have completed; "": unknown */
	char place[256];  /* that submitted it; "": unknown */
	uint64_t work_id; /* of its call */
	uint64_t stream;  /* its stream */
	uint64_t behind;  /* later works that are not known to have completed */
	uint64_t host_fn; /* address of the host function that it is; 0: it is none */
	uint64_t unrecorded_event; /* it waits for this event, whose record is unknown; 0: none */
	bool certain;
};
/* Explains a call in flight from the events so far. Its end_ns is now. */
void failure_wait(struct report *r, const struct trace_event *ev, struct failure_wait *res);
/* Prints the verdicts of at most max failures; nothing if nothing failed. Valid after the
 * finish. */
void failure_print_verdicts(const struct report *r, const struct term *term, unsigned max);

#endif /* REPORT_FAILURE_FAILURE_H */
