/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Requests to the kernel driver, for other analyses. */
#ifndef REPORT_LAYERS_DRIVER_CALLS_H
#define REPORT_LAYERS_DRIVER_CALLS_H

#include "report/report.h"

struct driver_pair {
	const char *name; /* name of a command, a call or an op */
	uint64_t cnt, total_ns;
};
struct driver_result {
	bool traced;
	uint64_t ioctl_cnt, total_ns, error_cnt, outside_cnt;
	unsigned command_cnt;				    /* number of kinds */
	struct driver_pair calls[4], commands[4], sched[8]; /* most frequent first */
	unsigned call_cnt, top_cnt, sched_cnt;
	uint64_t sched_total, sched_last_ns; /* the latest scheduler event */
	uint64_t xid_cnt;
};
/* All zero if the analysis did not run. */
void driver_result(const struct report *r, struct driver_result *res);

/* Kind i of the driver's errors, from 0 on. Returns false past the last one. */
struct driver_xid {
	unsigned number;
	const char *gpu;     /* NULL: not known */
	const char *meaning; /* NULL: not known */
	uint64_t cnt, first_ns;
};
bool driver_xid(const struct report *r, unsigned i, struct driver_xid *res);

#endif /* REPORT_LAYERS_DRIVER_CALLS_H */
