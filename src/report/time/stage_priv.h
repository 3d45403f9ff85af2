/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* stage.c keeps the trace as cells and assigns them to stages; stage_print.c shows these. */
#ifndef REPORT_TIME_STAGE_PRIV_H
#define REPORT_TIME_STAGE_PRIV_H

#include "report/collect.h"
#include "stage.h"

#define STAGE_CELLS 1024

/* Calls of one function in a cell; copies by direction. */
struct stage_row {
	const struct api_fn *fn;
	enum copy_dir dir;
	uint64_t call_cnt, call_ns;
	uint64_t wall_ns; /* moments that belong to no other call */
	uint64_t launch_cnt, bytes, first_ns, last_ns;
};

#define STAGE_GAPS 16384

/* A piece of the trace without a stage boundary in it. */
struct stage_cell {
	uint64_t begin_ns, end_ns;
	uint64_t outside_ns; /* valid at the end: the rest of its gaps */
	struct stage_row *rows;
	unsigned cnt, cap;
	bool keep; /* it begins at a known boundary */
};

struct stage_fn {
	const char *name;
	uint64_t cnt, total_ns;
};

/* Stages of the whole trace, or of a process. */
struct stages {
	struct report *r;
	uint32_t pid;			      /* 0: the whole */
	struct stage_cell cells[STAGE_CELLS]; /* the last is open */
	unsigned cell_cnt;
	struct stage_cell tail; /* since the last work: cleanup if no more follows */
	struct stage_gap *gaps; /* in their order */
	unsigned gap_cnt, gap_cap;
	uint64_t cursor_ns;  /* moments before it belong to a call or a gap */
	uint64_t context_ns; /* the first context was made; 0: not seen */
	uint64_t launch_ns;  /* the first launch; the end if there is none */
	uint64_t loaded_ns;  /* the stage load ends */
	bool has_call, has_launch;
	struct stage_result res;
	struct stage_fn *load; /* functions of the stage load, most time first */
	unsigned load_cnt, load_cap;
};

struct iter_result;
/* s is all zero. */
void stages_begin(struct stages *s, struct report *r);
/* ev is a call. */
void stages_add(struct stages *s, const struct trace_event *ev);
/* Ends the last cell. */
void stages_close(struct stages *s);
void stages_end(struct stages *s, const struct iter_result *iter);
void stages_clear(struct stages *s);

extern const struct section_table stages_table;
void stages_print(const void *a, const struct term *term);

#endif /* REPORT_TIME_STAGE_PRIV_H */
