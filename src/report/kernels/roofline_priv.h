/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The state of roofline.c and roofline_print.c. */
#ifndef REPORT_KERNELS_ROOFLINE_PRIV_H
#define REPORT_KERNELS_ROOFLINE_PRIV_H

#include "kernel_work.h"
#include "report/collect.h"
#include "roofline.h"

#define ROOF_ROWS    (1u << 14)
#define ROOF_DEVICES 64
/* Executions that arrived before their launch's enclosing call returned. */
#define ROOF_EARLY  512
#define ROOF_HASHES 4096
/* Captured launches whose enclosing call has not returned. */
#define ROOF_OPEN 64

/* What a call computes. */
struct roof_work {
	const char *name, *op; /* function, or kernel */
	struct gemm_info g;    /* is_product */
	struct kernel_work w;
	bool is_product;
};

/* Sums of executions. */
struct roof_sums {
	uint64_t works;	       /* calls with a known work that was executed */
	uint64_t cnt, ns;      /* executions */
	struct roof_time time; /* of those with known work */
	double bytes, ops;     /* of them */
	double mem_ns, ops_ns; /* least times for the bytes, and for the operations */
	double whole_ns;       /* sum of the longer of the two, even if they took less */
};

struct roof_row {
	const struct roof_work *work; /* after the finish; NULL: a kernel, copy, graph */
	const char *name;	      /* of the kernel */
	uint32_t work_row, device;
	char what;	 /* 'p': product; else first letter of the executions' op */
	const char *dir; /* of a copy */
	enum peak_type type;
	struct roof_sums sums;
};

struct roof_operator {
	const char *name;
	struct roof_sums sums;
};

/* One for the section, one for the map: both count each execution. */
enum roof_user { ROOF_SECTION, ROOF_MAP, ROOF_USERS };

struct roof_call {
	uint64_t key, parent;
	const char *operator;
	uint32_t work; /* ROOF_NONE: none */
	/* What the executions of a product leave for the next one. */
	struct {
		float left_ps;
		uint8_t type;
		bool is_begun;
	} of[ROOF_USERS];
};

struct roof_captured {
	uint32_t work;
	uint32_t first; /* the launch of the same call that has the work: itself, or an earlier one
			 */
};

struct roof_device {
	struct device d;
	double gbps;
	bool is_listed; /* the memory's rate is the data sheet's */
	/* Clock of --gpu-stats while the GPU was busy. */
	uint64_t clock_cnt;
	double clock_sum; /* MHz */
	uint64_t used;	  /* executions */
};

struct roof_early {
	struct roof_execution x;
	uint64_t wait; /* for this call; 0: free */
};

struct roofline {
	struct report *r;
	struct keys work_keys, row_keys, operator_keys;
	struct roof_work *works;
	struct roof_row *rows;
	struct roof_operator *operators;
	unsigned work_cap, row_cap, operator_cap;
	struct roof_call *calls;
	struct roof_early *early;
	unsigned early_cnt, early_next;
	uint16_t early_of[ROOF_HASHES]; /* their number, by hash of the awaited call */
	struct roof_captured *captured; /* by row of graphs_captured() */
	uint32_t *executed;		/* device + 1, by row of graphs_executed() */
	unsigned captured_cap, executed_cap;
	struct {
		uint64_t key;
		uint32_t row;
	} open[ROOF_OPEN];
	unsigned open_cnt;
	struct roof_device devices[ROOF_DEVICES];
	unsigned device_cnt, last_device;
	struct roof_sums sums;
	struct roof_row **sorted; /* after the finish: most GPU time first */
	struct roof_operator **sorted_operators;
};

extern const struct section_table roofline_table;
void roofline_print(const void *a, const struct term *term);

#endif /* REPORT_KERNELS_ROOFLINE_PRIV_H */
