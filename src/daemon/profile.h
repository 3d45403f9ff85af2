/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The daemon's continuous profile of one interval. Calls, times and bytes of each process and
 * function are exact: from counts and events. They are spread over the stacks of sampled calls in
 * proportion to these. What has no sample has the function alone.
 */
#ifndef DAEMON_PROFILE_H
#define DAEMON_PROFILE_H

#include "ct_count.h"
#include "procs.h"
#include "report/page/profile.h"

#define DPROFILE_SZ	(8u << 20) /* limit of rows and texts */
#define DPROFILE_LABELS 12

struct dprofile_frame {
	const char *name, *file; /* NULL: none */
	uint64_t line;
};

struct dprofile_label {
	const char *key, *text; /* text NULL: a number */
	uint64_t number;
};

struct dprofile_sample {
	const struct dprofile_frame *frames; /* innermost first; at least one */
	unsigned frame_cnt, label_cnt;
	struct dprofile_label labels[DPROFILE_LABELS];
	uint64_t v[PROFILE_VALUE_CNT];
};

struct dprofile_sums {
	uint64_t calls, sampled; /* sampled: with a stack */
	uint64_t full;		 /* samples and calls without a row, for lack of space */
	uint64_t gpu_ns;
};

struct dprofile;
/* NULL: out of memory. */
struct dprofile *dprofile__new(void);
void dprofile__free(struct dprofile *d);
/* Adds a call, which is a sample or not, or an execution. */
void dprofile__event(struct dprofile *d, const struct dproc *p, const struct trace_event *ev,
		     bool is_sample);
/* Adds calls that were counted. */
void dprofile__counted(struct dprofile *d, const struct dproc *p, const struct api_fn *fn,
		       const struct ct_count *delta);
/* Calls fn for each sample, once, when nothing more is added. */
void dprofile__each(struct dprofile *d, void (*fn)(void *ctx, const struct dprofile_sample *s),
		    void *ctx);
const struct dprofile_sums *dprofile__sums(const struct dprofile *d);
/* Write the profile to o: as an OTLP request, and in pprof's format. 0 or -errno. */
struct profile_span;
int dprofile__write_otlp(struct dprofile *d, const struct profile_span *s, struct out *o);
int dprofile__write(struct dprofile *d, const struct profile_span *s, const char *redacted,
		    struct out *o);

#endif /* DAEMON_PROFILE_H */
