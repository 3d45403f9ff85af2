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
} parts[PART_CNT] = {
	{PART_OUTSIDE, "outside CUDA calls", "map"},	 {PART_LAUNCH, "in launches", "kernels"},
	{PART_TRANSFER, "in copies", "transfers"},	 {PART_SYNC, "in waits", "waits"},
	{PART_MEMORY, "in memory calls", "memory"},	 {PART_MODULE, "loading code", "overview"},
	{PART_OTHER, "in other CUDA calls", "overview"},
};

const char *speed_verdict_name(enum speed_verdict verdict)
{
	static const char *const names[] = {"unknown", "same", "faster", "slower"};

	return names[verdict];
}

static double moved(const struct speed_place *place)
{
	return fabs(place->ns[1] - place->ns[0]);
}

/* Largest change first. */
static void sort_places(struct speed *s)
{
	for (unsigned i = 1; i < PART_CNT; i++) {
		struct speed_place place = s->places[i];
		unsigned at = i;

		for (; at && moved(&s->places[at - 1]) < moved(&place); at--)
			s->places[at] = s->places[at - 1];
		s->places[at] = place;
	}
	while (s->place_cnt < PLACES_MAX &&
	       moved(&s->places[s->place_cnt]) > PLACE_SHARE * fmax(s->ns[0], s->ns[1]))
		s->place_cnt++;
}

void diff_speed(struct report *const r[2], double noise, struct speed *s)
{
	struct stage_result stages[2];
	struct iter_result it[2];
	bool iterates = true, runs = true, whole = true;

	*s = (struct speed){.of = "the traces"};
	for (int i = 0; i < 2; i++) {
		iter_result(r[i], &it[i]);
		stage_result(r[i], &stages[i]);
		/* Without all calls, iterations and stages are found differently. */
		whole &= !r[i]->lost.chosen[CHOSEN_COUNTED] && !r[i]->info->min_duration_ns;
		iterates &= it[i].count - it[i].warmup >= ITERATIONS_MIN;
		runs &= stages[i].phase_ns[PHASE_RUN] != 0;
	}
	iterates &= whole;
	runs &= whole;
	for (int i = 0; i < 2; i++) {
		const struct stage_parts *times = runs ? &stages[i].steady : &stages[i].all;
		double cnt = iterates ? it[i].count - it[i].warmup : 1;

		s->ns[i] = iterates ? it[i].dist[ITS_TIME].median
			   : runs   ? stages[i].phase_ns[PHASE_RUN]
				    : report_wall_ns(r[i]);
		for (unsigned n = 0; n < PART_CNT; n++)
			s->places[n].ns[i] = times->ns[parts[n].part] / cnt;
	}
	for (unsigned n = 0; n < PART_CNT; n++) {
		s->places[n].what = parts[n].what;
		s->places[n].section = parts[n].section;
	}
	s->of = iterates ? "an iteration (median)" : runs ? "the time after start-up" : s->of;
	if (!s->ns[0] || !s->ns[1])
		return;
	s->verdict = SPEED_SAME;
	if (s->ns[1] > s->ns[0] * (1 + noise))
		s->verdict = SPEED_SLOWER;
	else if (s->ns[1] * (1 + noise) < s->ns[0])
		s->verdict = SPEED_FASTER;
	/* Parts need the times of all calls. */
	if (s->verdict != SPEED_SAME && !report_lacks(r[0], AN_IDLE) &&
	    !report_lacks(r[1], AN_IDLE))
		sort_places(s);
}

void diff_verdict_print(const struct speed *s, const struct term *term, const char *mark)
{
	char text[512];
	size_t n = 0;

	if (s->verdict == SPEED_UNKNOWN) {
		term_section(term, "Verdict", "not known: there is no time to compare%s", mark);
		return;
	}
	*text = '\0';
	for (unsigned i = 0; i < s->place_cnt && n < sizeof(text); i++) {
		const struct speed_place *place = &s->places[i];

		n += snprintf(text + n, sizeof(text) - n, "%s %s %s %s (--section=%s)",
			      i ? "," : ":", HUMAN_TIME(moved(place)),
			      place->ns[1] < place->ns[0] ? "less" : "more", place->what,
			      place->section);
	}
	term_section(term, "Verdict", "%s%s, %s took %s, now %s%s%s",
		     speed_verdict_name(s->verdict),
		     s->verdict == SPEED_SAME ? " within noise" : "", s->of, HUMAN_TIME(s->ns[0]),
		     HUMAN_TIME(s->ns[1]), text, mark);
}
