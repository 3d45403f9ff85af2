/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The verdict compares the median iteration if both traces have enough iterations; else the time
 * after start-up; else the whole traces. The host activity that changed most shows where.
 */
#include "diff_verdict.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "collect.h"
#include "report/iter/iter.h"
#include "report/time/stage.h"

/* Fewer iterations give no useful median. */
#define ITERATIONS_MIN 5
#define PLACES_MAX     3
/* Share of the old time; smaller changes are not shown. */
#define PLACE_SHARE 0.02

static const struct {
	enum stage_part part;
	const char *what, *section; /* section of a report with details */
} places[PART_CNT] = {
	{PART_OUTSIDE, "outside CUDA calls", "map"}, {PART_LAUNCH, "in launches", "kernels"},
	{PART_TRANSFER, "in copies", "transfers"},   {PART_SYNC, "in waits", "waits"},
	{PART_MEMORY, "in memory calls", "memory"},  {PART_MODULE, "loading code", "overview"},
	{PART_OTHER, "in other calls", "overview"},
};

enum speed_verdict { SPEED_UNKNOWN, SPEED_SAME, SPEED_FASTER, SPEED_SLOWER };
static const char *const verdicts[] = {"unknown", "same", "faster", "slower"};

struct speed {
	enum speed_verdict verdict;
	const char *of;
	double ns[2];
	double place_ns[PART_CNT][2];
	unsigned order[PART_CNT]; /* indexes of places, largest change first */
	unsigned place_cnt;	  /* places that are shown */
};

static double moved(const struct speed *s, unsigned place)
{
	return fabs(s->place_ns[place][1] - s->place_ns[place][0]);
}

static void sort_places(struct speed *s)
{
	for (unsigned i = 0; i < PART_CNT; i++) {
		unsigned at = i;

		for (; at && moved(s, s->order[at - 1]) < moved(s, i); at--)
			s->order[at] = s->order[at - 1];
		s->order[at] = i;
	}
	while (s->place_cnt < PLACES_MAX &&
	       moved(s, s->order[s->place_cnt]) > PLACE_SHARE * fmax(s->ns[0], s->ns[1]))
		s->place_cnt++;
}

static void compare(struct report *const r[2], double noise, struct speed *s)
{
	struct stage_result stages[2];
	struct iter_result it[2];
	bool iterates = true, runs = true;

	*s = (struct speed){.of = "the traces"};
	for (int i = 0; i < 2; i++) {
		iter_result(r[i], &it[i]);
		stage_result(r[i], &stages[i]);
		iterates &= it[i].count - it[i].warmup >= ITERATIONS_MIN;
		runs &= stages[i].phase_ns[PHASE_RUN] != 0;
	}
	for (int i = 0; i < 2; i++) {
		const struct stage_parts *parts = runs ? &stages[i].steady : &stages[i].all;
		double cnt = iterates ? it[i].count - it[i].warmup : 1;

		s->ns[i] = iterates ? it[i].dist[ITS_TIME].median
			   : runs   ? stages[i].phase_ns[PHASE_RUN]
				    : report_wall_ns(r[i]);
		for (unsigned n = 0; n < PART_CNT; n++)
			s->place_ns[n][i] = parts->ns[places[n].part] / cnt;
	}
	s->of = iterates ? "an iteration (median)" : runs ? "the time after start-up" : s->of;
	if (!s->ns[0] || !s->ns[1])
		return;
	s->verdict = SPEED_SAME;
	if (s->ns[1] > s->ns[0] * (1 + noise))
		s->verdict = SPEED_SLOWER;
	else if (s->ns[1] * (1 + noise) < s->ns[0])
		s->verdict = SPEED_FASTER;
	if (s->verdict != SPEED_SAME)
		sort_places(s);
}

void diff_verdict_print(struct report *const r[2], const struct term *term, double noise,
			const char *mark)
{
	char before[CELL_SZ], after[CELL_SZ], cell[CELL_SZ], text[512];
	struct speed s;
	size_t n = 0;

	compare(r, noise, &s);
	human_time(before, s.ns[0]);
	human_time(after, s.ns[1]);
	if (s.verdict == SPEED_UNKNOWN) {
		term_section(term, "Verdict", "not known: there is no time to compare%s", mark);
		return;
	}
	*text = '\0';
	for (unsigned i = 0; i < s.place_cnt && n < sizeof(text); i++) {
		unsigned p = s.order[i];

		human_time(cell, moved(&s, p));
		n += snprintf(text + n, sizeof(text) - n, "%s %s %s %s (--section=%s)",
			      i ? "," : ":", cell,
			      s.place_ns[p][1] < s.place_ns[p][0] ? "less" : "more", places[p].what,
			      places[p].section);
	}
	term_section(term, "Verdict", "%s%s, %s took %s, now %s%s%s", verdicts[s.verdict],
		     s.verdict == SPEED_SAME ? " within noise" : "", s.of, before, after, text,
		     mark);
}

void diff_verdict_json(struct report *const r[2], struct json *j, double noise)
{
	struct speed s;

	compare(r, noise, &s);
	json_open(j, "speed");
	json_sym(j, "verdict", verdicts[s.verdict]);
	json_sym(j, "of", s.of);
	json_u64(j, "before_ns", s.ns[0]);
	json_u64(j, "after_ns", s.ns[1]);
	json_open_array(j, "sections");
	for (unsigned i = 0; i < s.place_cnt; i++) {
		unsigned p = s.order[i];

		json_open(j, NULL);
		json_sym(j, "section", places[p].section);
		json_sym(j, "what", places[p].what);
		json_u64(j, "before_ns", s.place_ns[p][0]);
		json_u64(j, "after_ns", s.place_ns[p][1]);
		json_close(j);
	}
	json_close_array(j);
	json_close(j);
}
