/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "clock_fit.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "util/order.h"

/* Polygons of many limits have few corners. A limit that would add one too many is not used: the
 * error bound is then larger than necessary. */
#define CORNERS_MAX 128
#define FAR_NS	    1e13
/* Times are whole nanoseconds, and computed in doubles. */
#define ROUNDING_NS 2.0
/* The margin is found to a millionth of the range. */
#define MARGIN_TRIES 20
/* With a smaller margin, each clock was the last by so little that the middle is exact. With a
 * larger one, one of them may always be late: hints are better. */
#define CLOSE_NS 100000
/* Fewer are by chance. */
#define HINTS_MIN 16

/* A line: its offset at the origin of the piece, and its rate in ns per second, so that both
 * coordinates have a similar size. */
struct corner {
	double offset, rate;
};

struct polygon {
	int64_t origin_ns;
	double base_ns;	  /* offsets are relative to it: the first limit, which some line keeps */
	double margin_ns; /* that lines must keep from limits */
	struct corner corners[CORNERS_MAX];
	unsigned cnt;
};

static double at(const struct polygon *p, const struct corner *c, int64_t t_ns)
{
	return p->base_ns + c->offset + c->rate * ((double)(t_ns - p->origin_ns) / 1e9);
}

static void begin(struct polygon *p, const struct clock_limit *first, double margin_ns)
{
	const double rate = CLOCK_RATE_MAX * 1e9;

	*p = (struct polygon){
		.origin_ns = first->t_ns, .base_ns = first->ns, .margin_ns = margin_ns, .cnt = 4};
	p->corners[0] = (struct corner){-FAR_NS, -rate};
	p->corners[1] = (struct corner){FAR_NS, -rate};
	p->corners[2] = (struct corner){FAR_NS, rate};
	p->corners[3] = (struct corner){-FAR_NS, rate};
}

/* How far the line is beyond the limit, less a margin. */
static double beyond(const struct polygon *p, const struct corner *c, const struct clock_limit *l)
{
	double diff = at(p, c, l->t_ns) - l->ns;

	return (l->is_upper ? diff : -diff) + p->margin_ns - ROUNDING_NS;
}

/* Removes the lines beyond the limit. Returns false, and keeps p, if none would be left. */
static bool cut(struct polygon *p, const struct clock_limit *l)
{
	struct polygon rest = {
		.origin_ns = p->origin_ns, .base_ns = p->base_ns, .margin_ns = p->margin_ns};

	for (unsigned i = 0; i < p->cnt; i++) {
		const struct corner *a = &p->corners[i], *b = &p->corners[(i + 1) % p->cnt];
		double x = beyond(p, a, l), y = beyond(p, b, l);

		if (rest.cnt + 2 > CORNERS_MAX)
			return true;
		if (x <= 0)
			rest.corners[rest.cnt++] = *a;
		if ((x < 0 && y > 0) || (x > 0 && y < 0)) {
			double part = x / (x - y);

			rest.corners[rest.cnt++] =
				(struct corner){a->offset + part * (b->offset - a->offset),
						a->rate + part * (b->rate - a->rate)};
		}
	}
	if (!rest.cnt)
		return false;
	memcpy(p, &rest, sizeof(rest));
	return true;
}

/* Cuts by limits first to cnt - 1. Returns the first that no line keeps, or cnt. */
static unsigned cut_all(struct polygon *p, const struct clock_limit *l, unsigned first,
			unsigned cnt, double margin_ns)
{
	begin(p, &l[first], margin_ns);
	while (first < cnt && cut(p, &l[first]))
		first++;
	return first;
}

/* The range of all lines at a time. Returns its middle. */
static double middle(const struct polygon *p, int64_t t_ns, double *low, double *high)
{
	*low = INFINITY;
	*high = -INFINITY;
	for (unsigned i = 0; i < p->cnt; i++) {
		double ns = at(p, &p->corners[i], t_ns);

		*low = fmin(*low, ns);
		*high = fmax(*high, ns);
	}
	return (*high + *low) / 2;
}

/* Collectives take some time in both directions, so the true line keeps away from all limits: finds
 * the lines with the largest margin, and returns it. p: all lines. */
static double find_central(struct polygon *best, const struct polygon *p,
			   const struct clock_limit *l, unsigned first, unsigned end)
{
	double low, high, most, least = 0;
	struct polygon tried;

	middle(p, l[first].t_ns, &low, &high);
	most = high - low;
	*best = *p;
	for (unsigned i = 0; i < MARGIN_TRIES; i++) {
		double margin = (least + most) / 2;

		if (cut_all(&tried, l, first, end, margin) < end) {
			most = margin;
		} else {
			least = margin;
			*best = tried;
		}
	}
	return least;
}

struct line {
	double from, to; /* offsets at the ends of a piece */
};

struct hints {
	const struct clock_hint *all;
	unsigned cnt;
};

static int by_offset(const void *x, const void *y)
{
	const struct clock_hint *a = x, *b = y;

	return ASCENDING(a->ns, b->ns);
}

/* The median of their offsets. Sorts them. */
static double median(struct clock_hint *h, unsigned cnt)
{
	qsort(h, cnt, sizeof(*h), by_offset);
	return cnt % 2 ? h[cnt / 2].ns : (h[cnt / 2].ns + h[cnt / 2 - 1].ns) / 2;
}

/* Goes through the medians of both halves: single hints may be off by any amount. Returns false if
 * there are too few in the piece. */
static bool line_of_hints(const struct hints *hints, int64_t from_ns, int64_t to_ns,
			  struct line *line)
{
	unsigned first = 0, end = hints->cnt, half;
	double middle_ns[2] = {0}, at_ns[2], rate;
	struct clock_hint *h;

	while (first < end && hints->all[first].t_ns < from_ns)
		first++;
	while (end > first && hints->all[end - 1].t_ns > to_ns)
		end--;
	half = (end - first) / 2;
	h = half >= HINTS_MIN / 2 ? malloc(2ull * half * sizeof(*h)) : NULL;
	if (!h)
		return false;
	memcpy(h, hints->all + first, half * sizeof(*h));
	memcpy(h + half, hints->all + end - half, half * sizeof(*h));
	for (unsigned i = 0; i < 2 * half; i++)
		middle_ns[i / half] += (double)(h[i].t_ns - from_ns) / half;
	at_ns[0] = median(h, half);
	at_ns[1] = median(h + half, half);
	free(h);
	if (middle_ns[1] <= middle_ns[0])
		return false;
	rate = (at_ns[1] - at_ns[0]) / (middle_ns[1] - middle_ns[0]);
	line->from = at_ns[0] - rate * middle_ns[0];
	line->to = line->from + rate * (double)(to_ns - from_ns);
	return true;
}

/* The distance of a line from the farthest of all lines is convex over time: its maximum is at an
 * end of the piece. */
static void add_piece(struct clock_fit *f, const struct polygon *p, const struct clock_limit *l,
		      unsigned first, unsigned end, const struct hints *hints)
{
	struct clock_piece *piece = &f->pieces[f->piece_cnt];
	int64_t from_ns = l[first].t_ns, to_ns = l[end - 1].t_ns;
	double from[2], to[2], unused;
	struct polygon central;
	struct line line;

	middle(p, from_ns, &from[0], &from[1]);
	middle(p, to_ns, &to[0], &to[1]);
	if (fmax(from[1] - from[0], to[1] - to[0]) > 2 * CLOCK_ERROR_MAX_NS)
		return;
	if (find_central(&central, p, l, first, end) < CLOSE_NS ||
	    !line_of_hints(hints, from_ns, to_ns, &line)) {
		line.from = middle(&central, from_ns, &unused, &unused);
		line.to = middle(&central, to_ns, &unused, &unused);
	}
	piece->from_ns = from_ns;
	piece->to_ns = to_ns;
	piece->from_offset_ns = fmin(fmax(line.from, from[0]), from[1]);
	piece->to_offset_ns = fmin(fmax(line.to, to[0]), to[1]);
	piece->error_ns =
		fmax(fmax(from[1] - piece->from_offset_ns, piece->from_offset_ns - from[0]),
		     fmax(to[1] - piece->to_offset_ns, piece->to_offset_ns - to[0])) +
		1;
	f->piece_cnt++;
}

/* The limits before `end` that lines of the next piece keep, too, may be of either: they do not
 * count. Returns the end of those that are surely of the piece that begins at first. */
static unsigned sure_end(const struct polygon *next, const struct clock_limit *l, unsigned first,
			 unsigned end)
{
	struct polygon p = *next;

	while (end > first + 1 && cut(&p, &l[end - 1]))
		end--;
	return end;
}

int clock_fit__make(struct clock_fit *f, const struct clock_limit *l, unsigned cnt,
		    const struct clock_hint *hints, unsigned hint_cnt)
{
	const struct hints all = {hints, hint_cnt};
	struct polygon p, next;
	unsigned first = 0, end = 0;

	f->piece_cnt = 0;
	if (cnt)
		end = cut_all(&p, l, 0, cnt, 0);
	while (first < cnt) {
		unsigned next_end = cnt, sure = end;

		if (f->piece_cnt == CLOCK_PIECES_MAX)
			return -ENODATA;
		if (end < cnt) {
			next_end = cut_all(&next, l, end, cnt, 0);
			sure = sure_end(&next, l, first, end);
		}
		if (sure < end)
			cut_all(&p, l, first, sure, 0);
		add_piece(f, &p, l, first, sure, &all);
		if (end == cnt)
			break;
		p = next;
		first = end;
		end = next_end;
	}
	return f->piece_cnt ? 0 : -ENODATA;
}

static double rate_of(const struct clock_piece *p)
{
	double ns = (double)(p->to_ns - p->from_ns);

	return ns > 0 ? (p->to_offset_ns - p->from_offset_ns) / ns : 0;
}

/* Between two pieces, the clock was set at an unknown time: the error covers both. */
static double between(const struct clock_piece *a, const struct clock_piece *b, int64_t t_ns,
		      double *error_ns)
{
	double part = (double)(t_ns - a->to_ns) / (double)(b->from_ns - a->to_ns);
	double jump = b->from_offset_ns - a->to_offset_ns;

	*error_ns = fmax(a->error_ns, b->error_ns) + fabs(jump) +
		    CLOCK_RATE_MAX * (double)(b->from_ns - a->to_ns);
	return a->to_offset_ns + part * jump;
}

/* The rate of a short piece is not exact enough for times far away. */
static double outside(const struct clock_fit *f, const struct clock_piece *p, double offset_ns,
		      double away_ns, double *error_ns)
{
	*error_ns = p->error_ns + 2 * CLOCK_RATE_MAX * fabs(away_ns);
	return offset_ns + clock_fit__rate(f) * away_ns;
}

double clock_fit__offset(const struct clock_fit *f, int64_t t_ns, double *error_ns)
{
	const struct clock_piece *p = f->pieces, *last = p + f->piece_cnt - 1;
	while (p < last && t_ns >= p[1].from_ns)
		p++;
	if (p < last && t_ns > p->to_ns)
		return between(p, p + 1, t_ns, error_ns);
	if (t_ns < p->from_ns)
		return outside(f, p, p->from_offset_ns, (double)t_ns - (double)p->from_ns,
			       error_ns);
	if (t_ns > p->to_ns)
		return outside(f, p, p->to_offset_ns, (double)t_ns - (double)p->to_ns, error_ns);
	*error_ns = p->error_ns;
	return p->from_offset_ns + rate_of(p) * (double)(t_ns - p->from_ns);
}

double clock_fit__error(const struct clock_fit *f)
{
	double error_ns = 0;

	for (unsigned i = 0; i < f->piece_cnt; i++)
		error_ns = fmax(error_ns, f->pieces[i].error_ns);
	return error_ns;
}

double clock_fit__rate(const struct clock_fit *f)
{
	const struct clock_piece *longest = f->pieces;

	for (const struct clock_piece *p = f->pieces; p < f->pieces + f->piece_cnt; p++)
		if (p->to_ns - p->from_ns > longest->to_ns - longest->from_ns)
			longest = p;
	return fmax(-CLOCK_RATE_MAX, fmin(CLOCK_RATE_MAX, rate_of(longest)));
}
