/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* --gpu-ctxsw: how long each process had a GPU, summed from the slices; for summary and report. */
#ifndef REPORT_GPU_RESIDENCY_H
#define REPORT_GPU_RESIDENCY_H

#include "model/event.h"
#include "model/trace.h"

struct json;
struct term;

#define RESIDENCY_GPUS	16
#define RESIDENCY_PROCS 64

struct resident {
	uint32_t pid;
	const char *owner; /* a constant; NULL: pid and comm identify it */
	char comm[32];
	uint64_t ns, cnt, max_ns;
};

struct resident_gpu {
	uint32_t minor, trace;
	char gpu[32];
	uint64_t first_ns, last_ns; /* start of the first slice, end of the last */
	uint64_t switch_cnt;
	uint64_t between_ns; /* from the end of one context to the start of the next */
	uint64_t empty_ns;   /* gaps too long for a switch: no context was resident */
	uint64_t lost_before;
	unsigned proc_cnt;
	struct resident procs[RESIDENCY_PROCS + 1]; /* the last: processes beyond the limit */
};

struct residency {
	const struct trace_info *info;
	struct resident_gpu *gpus[RESIDENCY_GPUS]; /* in order of appearance */
	unsigned cnt;
};

void residency__event(struct residency *r, const struct trace_event *ev);
/* Longest time first. */
void residency__sort(struct residency *r);
void residency__free(struct residency *r);
/* r must be sorted, and info must be set. */
extern const struct section_table residency_table;
void residency__json(const struct residency *r, struct json *j);
/* Prints nothing if the log was not requested. */
void residency__print(const struct residency *r, const struct term *term);

static inline uint64_t resident_span_ns(const struct resident_gpu *g)
{
	return g->last_ns - g->first_ns;
}
/* Formats "python3 (4711)" or "(other user)". */
void resident_name(const struct resident *p, char *buf, size_t size);

#endif /* REPORT_GPU_RESIDENCY_H */
