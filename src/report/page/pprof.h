/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Writes pprof profiles. */
#ifndef REPORT_PAGE_PPROF_H
#define REPORT_PAGE_PPROF_H

#include "profile.h"

/* Longer names of frames are cut. */
#define PROFILE_FRAME_SZ 1024
/* The frame of what limits rejected. */
#define PROFILE_LIMITED "[not kept: a limit was reached]"

struct profile_type {
	const char *type, *unit;
};
extern const struct profile_type profile_types[PROFILE_VALUE_CNT];

/* The name of a frame in a profile; in buf or in the frame. */
const char *profile_frame_name(const struct stack_frame *f, char *buf, size_t size);

struct profile_span {
	uint64_t wall_ns, duration_ns; /* begin since 1970; 0: unknown */
	bool has_gpu;		       /* readers show GPU time first */
	bool no_times;		       /* readers show the number of calls first */
};

struct pprof;
/* The profile is written to o, compressed. NULL: out of memory. */
struct pprof *pprof__new(struct out *o);
/* A sample: begin, its frames (the innermost first), values, labels, end. */
void pprof__begin(struct pprof *p);
void pprof__frame(struct pprof *p, const char *name, const char *file, uint32_t line);
void pprof__values(struct pprof *p, const uint64_t v[PROFILE_VALUE_CNT]);
/* text NULL: a number */
void pprof__label(struct pprof *p, const char *key, const char *text, uint64_t number);
void pprof__end(struct pprof *p);
void pprof__comment(struct pprof *p, const char *before, const char *text);
/* 0 or -errno so far. */
int pprof__error(const struct pprof *p);
/* Writes what follows the samples. 0 or -errno; errors of the output stay in it. */
int pprof__finish(struct pprof *p, const struct profile_span *s);
void pprof__free(struct pprof *p);

#endif /* REPORT_PAGE_PPROF_H */
