/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Shared by driver_calls.c (counts) and driver_print.c. */
#ifndef REPORT_LAYERS_DRIVER_PRIV_H
#define REPORT_LAYERS_DRIVER_PRIV_H

#include "report/collect.h"
#include "decode/nv/nv_decode.h"
#include "driver_calls.h"

#define DR_SECONDS   4096
#define DR_CALLS_MAX (1 << 20) /* CUDA calls that made ioctls */

struct dr_row {
	const char *name;
	const char *other; /* commands: device; pairs: call; sched: control; xids: the number */
	const char *text;
	uint64_t cnt, total_ns, max_ns, error_cnt, first_ns, call_cnt;
};

struct dr_rows {
	struct keys keys;
	struct dr_row *rows;
	unsigned cap;
};

struct driver_calls {
	struct report *r;
	bool is_seen;
	uint64_t ioctl_cnt, total_ns, error_cnt, outside_cnt;
	uint64_t sched_cnt, sched_last_ns, xid_cnt;
	uint64_t fault_cnt, migration_cnt, eviction_cnt, uvm_bytes;
	struct dr_rows commands, calls, pairs, sched, xids;
	struct keys call_ids;
	uint32_t seconds[DR_SECONDS];
	unsigned second_cnt;
	uint64_t step_ns;
};

extern const struct section_table driver_table;
void driver_print(const void *a, const struct term *term);

#endif /* REPORT_LAYERS_DRIVER_PRIV_H */
