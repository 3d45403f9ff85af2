/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Estimates the offset of one clock against another from limits on it. The offset is a line (offset
 * and rate) within a piece; where no line keeps all limits, the clock was set, and another piece
 * begins. All lines that keep the limits of a piece form a convex polygon, so its error bound is
 * exact.
 */
#ifndef SAVED_CLOCK_FIT_H
#define SAVED_CLOCK_FIT_H

#include <stdbool.h>
#include <stdint.h>

/* At time t_ns of the clock, its offset is at most ns (is_upper), or at least. */
struct clock_limit {
	int64_t t_ns;
	double ns;
	bool is_upper;
};

/* An estimate of the offset at a time, that may be off by any amount. */
struct clock_hint {
	int64_t t_ns;
	double ns;
};

/* Clocks of two machines differ in rate by less: Linux corrects its clock by at most 500 ppm. */
#define CLOCK_RATE_MAX 1e-3
/* A piece whose error is larger is not used. */
#define CLOCK_ERROR_MAX_NS 1e9
#define CLOCK_PIECES_MAX   64

struct clock_piece {
	int64_t from_ns, to_ns;
	double from_offset_ns, to_offset_ns;
	double error_ns; /* between from_ns and to_ns, the offset is off by at most this */
};

struct clock_fit {
	struct clock_piece pieces[CLOCK_PIECES_MAX];
	unsigned piece_cnt;
};

/* limits and hints are in order of time. The line is as far as possible from all
 * limits; if they are far apart, hints choose among the lines that keep them. Returns 0, or
 * -ENODATA if they leave the offset open, or if the clock was set too often. */
int clock_fit__make(struct clock_fit *f, const struct clock_limit *limits, unsigned cnt,
		    const struct clock_hint *hints, unsigned hint_cnt);
/* Returns the offset at time t_ns of the clock. *error_ns: it is off by at most this. */
double clock_fit__offset(const struct clock_fit *f, int64_t t_ns, double *error_ns);
/* The largest error within a piece. */
double clock_fit__error(const struct clock_fit *f);
/* The rate of the longest piece. */
double clock_fit__rate(const struct clock_fit *f);

#endif /* SAVED_CLOCK_FIT_H */
