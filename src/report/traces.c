/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Several traces in one report: start and end of each. */
#include "collect.h"
#include "report.h"
#include "saved/reader.h"
#include "section.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static struct report_trace *trace_of(const struct report *r, unsigned number)
{
	unsigned i = number - r->info->number;

	return i < r->trace_cnt ? &r->traces[i] : NULL;
}

void report__also(struct report *r, const char *path, const struct trace_info *info)
{
	struct report_trace *t = trace_of(r, info->number), *grown = NULL;

	r->args_redacted |= info->redacted && !strcmp(info->redacted, "arguments");
	if (!t) {
		if (info->number != r->info->number + r->trace_cnt ||
		    r->trace_cnt == REPORT_TRACES_MAX)
			memlimit_reject(MEMLIMIT_TRACES);
		else
			grown = grow(r->traces, &r->trace_cap, r->trace_cnt + 1, sizeof(*grown),
				     MEMLIMIT_TRACES);
		if (!grown)
			return;
		r->traces = grown;
		t = &grown[r->trace_cnt++];
		t->info = info;
		t->last_ns = info->base_ns;
	}
	if (info->base_ns + info->begin_ns < r->begin_ns)
		r->begin_ns = info->base_ns + info->begin_ns;
	t->path = t->path ?: path;
	t->has_ended = false;
}

void report__ended(struct report *r, const struct trace_info *info, const struct trace_end *end)
{
	struct report_trace *t = trace_of(r, info->number);

	r->ended_cnt++;
	losses__end(&r->lost, end);
	if (!t)
		return;
	t->has_ended = true;
	if (end->end_ns > t->last_ns)
		t->last_ns = end->end_ns;
}

void report_traces_event(struct report *r, const struct trace_event *ev)
{
	struct report_trace *t = trace_of(r, ev->trace);

	if (t && ev->end_ns > t->last_ns)
		t->last_ns = ev->end_ns;
}

uint64_t report_until(const struct report *r, unsigned trace)
{
	const struct report_trace *t = trace_of(r, trace);

	if (t && r->trace_cnt > 1 && (t->has_ended || r->is_over))
		return t->last_ns;
	return r->is_over ? r->last_ns : UINT64_MAX;
}

static const char *place_name(enum trace_alignment place)
{
	static const char *const names[] = {
		[TRACE_FIRST] = "first",
		[TRACE_SAME_CLOCK] = "same",
		[TRACE_BY_COLLECTIVES] = "collectives",
		[TRACE_BY_WALL] = "wall",
		[TRACE_BEHIND] = "none",
	};

	return names[place];
}

/* The first trace with the same clock. */
static unsigned same_as(const struct report *r, const struct report_trace *t)
{
	unsigned i = 0;

	while (&r->traces[i] != t && r->traces[i].info->clock != t->info->clock)
		i++;
	return i;
}

static uint64_t since_base(const struct report *r, uint64_t ns)
{
	return ns > r->base_ns ? ns - r->base_ns : 0;
}

static const char *clock_text(char buf[SECTION_BUF], const struct report *r,
			      const struct report_trace *t)
{
	if (t->info->place == TRACE_BY_COLLECTIVES) {
		snprintf(buf, SECTION_BUF, "collectives, %s", HUMAN_TIME(t->info->clock_error_ns));
		return buf;
	}
	if (t->info->place != TRACE_SAME_CLOCK)
		return place_name(t->info->place);
	snprintf(buf, SECTION_BUF, "same as %u", same_as(r, t));
	return buf;
}

static const char *offset_text(char buf[SECTION_BUF], const struct report_trace *t)
{
	snprintf(buf, SECTION_BUF, "+%" PRIu32, t->info->pid_add);
	return buf;
}

#define SECTION_STATE struct report
#define SECTION_ROWS  "report/traces.section"
#include "report/section_rows.h"

void report_traces_print(const struct report *r, const struct term *term)
{
	unsigned placed[TRACE_ALIGN_CNT] = {0};

	if (r->trace_cnt < 2)
		return;
	term_section(term, "Traces", "%u, in one report", r->trace_cnt);
	for (unsigned i = 0; i < r->trace_cnt; i++)
		placed[r->traces[i].info->place]++;
	section_print(r, &report_files_table, r, r, "traces", TABLE_ROWS, term);
	if (r->trace_cnt > TABLE_ROWS)
		term_para(term, "There are more; the JSON form has %u.", r->trace_cnt);
	if (placed[TRACE_SAME_CLOCK])
		term_para(
			term,
			"Clock same: the same boot as that trace; times of both are comparable to the nanosecond.");
	if (placed[TRACE_BY_COLLECTIVES])
		term_para(
			term,
			"Clock collectives: another machine. No rank leaves a collective before the last has entered it, "
			"which limits how far the clocks differ: while collectives run, times are comparable to within the time shown.");
	if (placed[TRACE_BY_WALL])
		term_para(
			term,
			"Clock wall: another machine or boot. Its times are as accurate as the wall clocks, which cannot be "
			"checked here (with NTP: milliseconds), because too few collectives of its ranks are in the traces; so its ranks are not compared with others.");
	if (placed[TRACE_BEHIND])
		term_para(
			term,
			"Clock none: from another or an unknown time; placed right after the previous trace.");
}
