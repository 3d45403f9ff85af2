/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "report.h"

#include <stdlib.h>
#include <string.h>

#include "brief.h"
#include "collect.h"
#include "losses.h"
#include "report/page/html.h"
#include "report/page/profile.h"
#include "saved/reader.h"
#include "section.h"
#include "text/losses_text.h"
#include "text/not_recorded.h"

/* Version of the JSON form (docs/REPORT.md). */
#define REPORT_SCHEMA 1

static const struct analysis_ops *const analyses[AN_CNT] = {
#define AN(id, name, what) [AN_##id] = &name##_ops,
#include "analyses.def"
#undef AN
};

const char *report_left_out(const struct report *r, const char *classes, bool whole)
{
	double call_cnt = 0;
	struct not_recorded left;

	for (unsigned i = 0; i < CLASS_CNT; i++)
		call_cnt += r->class_cnt[i];
	left = (struct not_recorded){
		.traced = r->info->traced,
		.counted = r->info->counted,
		.entry_only = r->info->entry_only,
		.counted_cnt = r->lost.chosen[CHOSEN_COUNTED],
		.filtered_cnt = r->lost.chosen[CHOSEN_FILTERED],
		.call_cnt = call_cnt,
		.min_duration_ns = r->info->min_duration_ns,
	};
	return not_recorded_by(&left, classes, whole);
}

const char *report_not_recorded(const struct report *r, const char *classes)
{
	for (unsigned i = 0; i < CLASS_CNT; i++)
		if (r->class_cnt[i] && strstr(classes, api_class_name(i)))
			return NULL;
	return report_left_out(r, classes, true);
}

const char *report_lacks(const struct report *r, unsigned id)
{
	const struct analysis_ops *ops = analyses[id];

	if (r->args_redacted && ops->of_args)
		return "--no-args";
	if (ops->of_times)
		return report_left_out(r, HOST_CLASSES, false);
	return ops->needs ? report_not_recorded(r, ops->needs) : NULL;
}

static bool is_silent(const struct report *r, unsigned id)
{
	return r->args_redacted && analyses[id]->of_args;
}

static void *state_new(const struct analysis_ops *ops, struct report *r)
{
	struct report **state;

	if (ops->new)
		return ops->new (r);
	state = calloc(1, ops->size);
	if (state)
		*state = r;
	return state;
}

struct report *report__new(const struct report_opts *opts, const struct trace_info *info)
{
	struct report *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	r->opts = *opts;
	r->info = info;
	r->base_ns = r->last_ns = info->base_ns;
	r->begin_ns = UINT64_MAX;
	report__also(r, NULL, info);
	if (opts->html) {
		r->html = html_events__new(r->base_ns, HTML_EVENTS_MAX);
		if (!r->html) {
			report__free(r);
			return NULL;
		}
	}
	if (opts->pprof) {
		r->profile = profile__new();
		if (!r->profile) {
			report__free(r);
			return NULL;
		}
	}
	for (unsigned i = 0; i < AN_CNT; i++) {
		if (!analyses[i] || (opts->analyses && !(opts->analyses >> i & 1)))
			continue;
		r->an[i] = state_new(analyses[i], r);
		if (!r->an[i]) {
			report__free(r);
			return NULL;
		}
	}
	return r;
}

void report__event(struct report *r, const struct trace_event *ev)
{
	r->event_cnt++;
	if (r->event_cnt == 1 && ev->start_ns < r->begin_ns)
		r->begin_ns = ev->start_ns > r->base_ns ? ev->start_ns : r->base_ns;
	if (r->html && ev->kind != EVENT_GPU_STATS && ev->kind != EVENT_GPU_METRICS &&
	    ev->kind != EVENT_NETWORK && ev->kind != EVENT_GPU_DEVICE)
		html_events__event(r->html, ev);
	if (r->profile)
		profile__event(r->profile, r, ev);
	if (ev->end_ns > r->last_ns)
		r->last_ns = ev->end_ns;
	if (ev->kind == EVENT_CALL && ev->fn) {
		r->class_cnt[ev->fn->class]++;
		r->untimed_cnt += ev->entry_only && !ev->unfinished && !ev->abandoned;
	}
	losses__event(&r->lost, ev);
	report_traces_event(r, ev);
	for (unsigned i = 0; i < AN_CNT; i++) {
		if (r->an[i] && analyses[i]->event && !is_silent(r, i))
			analyses[i]->event(r->an[i], ev);
	}
}

void report__finish(struct report *r, const struct trace_end *end, const struct saved_file *files,
		    unsigned file_cnt)
{
	memlimit_no_owner();
	r->end = end;
	r->files = files;
	r->file_cnt = file_cnt;
	r->is_over = true;
	r->lost.of_report = true;
	/* A live trace has no file. */
	if (!r->ended_cnt && end)
		losses__end(&r->lost, end);
	else if (!r->ended_cnt && !file_cnt)
		r->lost.cnt[LOSS_NO_END]++;
	for (unsigned i = 0; i < file_cnt; i++)
		losses__add(&r->lost, &files[i].lost);
	if (end && end->end_ns > r->last_ns)
		r->last_ns = end->end_ns;
	for (unsigned i = 0; i < AN_CNT; i++) {
		if (analyses[i] && analyses[i]->finish)
			analyses[i]->finish(r->an[i]);
	}
}

bool report_is_incomplete(const struct report *r)
{
	return losses__any(&r->lost);
}

void report__json(const struct report *r, struct json *j)
{
	json_open(j, NULL);
	json_u64(j, "report", REPORT_SCHEMA);
	losses_json(&r->lost, j);
	section_members(r, &report_files_table, r, j);
	rejected_json(j);
	for (unsigned i = 0; i < AN_CNT; i++) {
		if (r->opts.sections && !(r->opts.sections >> i & 1))
			continue;
		if (analyses[i] && report_lacks(r, i))
			json_null(j, analyses[i]->name);
		else if (analyses[i] && analyses[i]->section && analyses[i]->is_list)
			section_list_json(r, analyses[i]->section, r->an[i], j);
		else if (analyses[i] && analyses[i]->section)
			section_json(r, analyses[i]->section, r->an[i], r->an[i], j,
				     analyses[i]->name);
		else if (analyses[i] && analyses[i]->json)
			analyses[i]->json(r->an[i], j);
	}
	json_close(j);
}

void report_print_redacted(const struct report *r, const struct term *term)
{
	const char *what = r->args_redacted ? "arguments" : r->info->redacted;

	if (!what)
		return;
	term_section(term, "Hidden", "%s", what);
	term_para(
		term, "%s",
		r->args_redacted
			? "Arguments were not read (--no-args): iterations, stages, idle times, kernels, graphs, streams, "
			  "memory, bytes and findings are missing."
			: "Strings were not read (--no-strings): kernels have no names, and stack frames have no files or "
			  "functions.");
}

/* Prints a section that --section names, or one line if it has no data. */
static void print_chosen(const struct report *r, const struct term *term, unsigned id)
{
	struct term mem = *term;
	const char *option = report_lacks(r, id);
	char *text = NULL;
	size_t len = 0;

	mem.f = open_memstream(&text, &len);
	if (!mem.f) {
		analyses[id]->print(r->an[id], term);
		return;
	}
	if (!is_silent(r, id))
		analyses[id]->print(r->an[id], &mem);
	fclose(mem.f);
	if (len)
		fwrite(text, 1, len, term->f);
	else if (option)
		term_section(term, analyses[id]->name, "not recorded (%s)", option);
	else
		term_section(term, analyses[id]->name, "nothing in this trace; it shows %s",
			     report_section_what(id));
	free(text);
}

/* Prints all sections: the most important first, the rest in the order of the table. The page has
 * the same order (app.js). */
static void print_sections(const struct report *r, const struct term *term, uint64_t chosen)
{
	static const enum analysis_id first[] = {AN_FAILURE,  AN_FAILURES, AN_VERDICT,
						 AN_FINDINGS, AN_ANSWERS,  AN_STEP,
						 AN_TIMELINE, AN_MAP,	   AN_SERVING};
	const unsigned first_cnt = sizeof(first) / sizeof(first[0]);
	uint64_t sections = chosen ? chosen : UINT64_MAX;

	for (unsigned i = 0; i < first_cnt + AN_CNT; i++) {
		unsigned id = i < first_cnt ? first[i] : i - first_cnt;

		if (!(sections >> id & 1))
			continue;
		sections &= ~(1ull << id);
		if (!analyses[id]->print)
			continue;
		if (chosen)
			print_chosen(r, term, id);
		else if (!is_silent(r, id))
			analyses[id]->print(r->an[id], term);
	}
}

void report__print(const struct report *r, const struct term *term)
{
	struct term body = *term;

	if (!r->opts.full && !r->opts.sections) {
		brief_print(r, term);
		return;
	}
	losses_print(&r->lost, term, "something is missing in this report; " LOSSES_STAR);
	if (!r->opts.sections)
		brief_print_extent(r, term);
	body.is_partial = report_is_incomplete(r);
	losses_print_chosen(&r->lost, term, NULL);
	report_print_redacted(r, term);
	if (!r->opts.sections)
		report_traces_print(r, &body);
	print_sections(r, &body, r->opts.sections);
}

void report__free(struct report *r)
{
	if (!r)
		return;
	for (unsigned i = 0; i < AN_CNT; i++) {
		if (analyses[i] && r->an[i])
			(analyses[i]->free ?: free)(r->an[i]);
	}
	html_events__free(r->html);
	profile__free(r->profile);
	memlimit_free(r->traces);
	free(r);
}
