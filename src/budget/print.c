/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Results of a budget in the formats of people and pipelines. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "perf_budget.h"
#include "text/json.h"
#include "text/numbers.h"
#include "util/out.h"
#include "util/plain.h"

#define TEXT_SZ	   512
#define NUMBER_MAX 9e18 /* a uint64_t can be converted */

static void number(char cell[CELL_SZ], enum budget_unit unit, double x)
{
	/* Of an untrusted trace. */
	if (!(x >= 0))
		x = 0;
	else if (x > NUMBER_MAX)
		x = NUMBER_MAX;
	switch (unit) {
	case BUDGET_COUNT:
		human_count(cell, x);
		break;
	case BUDGET_BYTES:
		human_bytes(cell, x);
		break;
	case BUDGET_TIME:
		human_time(cell, x);
		break;
	case BUDGET_SHARE:
		human_share(cell, x, 1);
		break;
	}
}

/* "launches of the median iteration", "time of range 'forward'" */
static void what(const struct budget_limit *l, char *text, size_t size)
{
	const struct budget_row *row = l->row;
	const char *scope = budget_scope_name(row->scope);

	if (row->scope == BUDGET_RUN)
		snprintf(text, size, "%s", row->name);
	else if (row->scope == BUDGET_ITERATION)
		snprintf(text, size, "%s per iteration (%s)", row->name, l->of);
	else if (row->scope == BUDGET_STEP)
		snprintf(text, size, "%s per step '%.200s' (%s)", row->name, l->name, l->of);
	else
		snprintf(text, size, "%s of %s '%.200s'", row->name, scope, l->name);
}

/* "420, 26 more than the old 394; the limit is 10 more" */
static void change(const struct budget_limit *l, char *text, size_t size)
{
	char value[CELL_SZ], old[CELL_SZ], more[CELL_SZ], max[CELL_SZ], noise[CELL_SZ];
	double was = l->runs[BUDGET_OLD].value, is = l->runs[BUDGET_NEW].value;
	enum budget_unit unit = l->row->unit;
	int len;

	number(value, unit, is);
	number(old, unit, was);
	number(more, unit, fabs(is - was));
	number(noise, unit, l->noise);
	number(max, l->is_share ? BUDGET_SHARE : unit, l->max);
	len = snprintf(text, size, "%s, %s %s than the old %s; the limit is %s more", value, more,
		       is < was ? "less" : "more", old, max);
	if (l->noise > 0 && len < (int)size)
		snprintf(text + len, size - len, "; noise explains %s%s", noise,
			 l->runs[BUDGET_NEW].cnt == 1 || l->runs[BUDGET_OLD].cnt == 1
				 ? " (10 %, of a single run)"
				 : "");
}

/* "446, 26 above the limit of 420"; the reason if there is no number to compare. */
static void verdict(const struct budget_limit *l, char *text, size_t size)
{
	char value[CELL_SZ] = "", max[CELL_SZ], over[CELL_SZ];
	double x = l->runs[BUDGET_NEW].value;

	if (l->state != BUDGET_UNMEASURED)
		number(value, l->row->unit, x);
	number(max, l->is_share ? BUDGET_SHARE : l->row->unit, l->max);
	number(over, l->row->unit, x - l->max);
	switch (l->state) {
	case BUDGET_HELD:
	case BUDGET_EXCEEDED:
		if (l->of_change)
			change(l, text, size);
		else if (l->state == BUDGET_HELD)
			snprintf(text, size, "%s, within %s", value, max);
		else
			snprintf(text, size, "%s, %s above the limit of %s", value, over, max);
		break;
	case BUDGET_UNMEASURED:
		snprintf(text, size, "not measured: %s no %s",
			 l->runs[BUDGET_NEW].cnt == 1 && !l->of_change ? "the trace has"
								       : "a trace has",
			 l->row->text);
		break;
	case BUDGET_LOSSY:
		snprintf(text, size,
			 "at least %s: %s is incomplete, so that the limit of %s%s may be exceeded",
			 value, l->of_change ? "a trace" : "the trace", l->of_change ? "+" : "",
			 max);
		break;
	case BUDGET_NOT_TRACED:
		snprintf(
			text, size,
			"at least %s: %s left out calls, so that the limit of %s%s may be exceeded",
			value, l->runs[BUDGET_NEW].not_traced ?: l->runs[BUDGET_OLD].not_traced,
			l->of_change ? "+" : "", max);
		break;
	}
}

static void summary(const struct perf_budget *b, char *text, size_t size)
{
	if (b->broken_cnt)
		snprintf(text, size, "%u of %u limit%s of %s %s broken", b->broken_cnt, b->cnt,
			 plural(b->cnt), b->path, noun(b->broken_cnt, "is", "are"));
	else
		snprintf(text, size, "%s: %u limit%s, none is broken", b->path, b->cnt,
			 plural(b->cnt));
}

/* Where the number is in the report's JSON: the path with its names. */
static void place(const struct budget_limit *l, char *text, size_t size)
{
	const char *path = l->row->path;
	size_t len = 0;

	*text = '\0';
	while (*path && len < size) {
		if (!strncmp(path, "$of", 3)) {
			len += snprintf(text + len, size - len, "%s", l->of);
			path += 3;
		} else if (*path == '$') {
			len += snprintf(text + len, size - len, "%.200s", l->name);
			path++;
		} else if (*path == '!' && !path[1]) {
			path++;
		} else {
			len += snprintf(text + len, size - len, "%c", *path++);
		}
	}
}

void budget_text(const struct perf_budget *b, struct out *o)
{
	char name[TEXT_SZ], why[TEXT_SZ], where[TEXT_SZ], line[4 * TEXT_SZ];

	for (unsigned i = 0; i < b->cnt; i++) {
		const struct budget_limit *l = &b->limits[i];

		if (l->state == BUDGET_HELD)
			continue;
		what(l, name, sizeof(name));
		verdict(l, why, sizeof(why));
		place(l, where, sizeof(where));
		snprintf(line, sizeof(line), "%s: %s (%s:%u; %s)", name, why, b->path, l->line,
			 where);
		plain_put(o, line);
		out_char(o, '\n');
	}
	summary(b, line, sizeof(line));
	plain_put(o, line);
	out_char(o, '\n');
}

static const char *state_name(enum budget_state state)
{
	static const char *const names[] = {"held", "exceeded", "not measured", "incomplete trace",
					    "not traced"};

	return names[state];
}

static void json_number(struct json *j, const char *name, enum budget_unit unit, double x)
{
	if (unit == BUDGET_SHARE || !(x >= 0 && x < NUMBER_MAX))
		json_f64(j, name, x);
	else
		json_u64(j, name, x);
}

void budget_json(const struct perf_budget *b, struct out *o)
{
	char where[TEXT_SZ];
	struct json j;

	json__init(&j, o);
	json_open(&j, NULL);
	json_str(&j, "budget", b->path);
	json_u64(&j, "broken", b->broken_cnt);
	json_u64(&j, "runs", b->run_cnt[BUDGET_NEW]);
	json_open_array(&j, "limits");
	for (unsigned i = 0; i < b->cnt; i++) {
		const struct budget_limit *l = &b->limits[i];

		json_open(&j, NULL);
		json_str(&j, "limit", l->row->name);
		json_str(&j, "per", budget_scope_name(l->row->scope));
		if (l->name)
			json_str(&j, "name", l->name);
		if (l->of)
			json_str(&j, "of", l->of);
		json_u64(&j, "line", l->line);
		json_number(&j, "max", l->is_share ? BUDGET_SHARE : l->row->unit, l->max);
		if (l->of_change)
			json_str(&j, "max_of", l->is_share ? "share" : "change");
		if (l->state != BUDGET_UNMEASURED)
			json_number(&j, "value", l->row->unit, l->runs[BUDGET_NEW].value);
		if (l->of_change && l->state != BUDGET_UNMEASURED) {
			json_number(&j, "old", l->row->unit, l->runs[BUDGET_OLD].value);
			json_number(&j, "noise", l->row->unit, l->noise);
		}
		json_str(&j, "state", state_name(l->state));
		place(l, where, sizeof(where));
		json_str(&j, "path", where);
		json_close(&j);
	}
	json_close_array(&j);
	json_close(&j);
	out_char(o, '\n');
}

/* In a cell of a table: no line ends, no bar. */
static void put_markdown(struct out *o, const char *text)
{
	for (; *text; text++) {
		if (strchr("|\\`*_<[", *text))
			out_char(o, '\\');
		out_char(o, (unsigned char)*text < ' ' ? ' ' : *text);
	}
}

void budget_markdown(const struct perf_budget *b, struct out *o)
{
	char text[TEXT_SZ];

	out_lit(o, "**cudatrace: ");
	summary(b, text, sizeof(text));
	put_markdown(o, text);
	out_lit(o, "**\n");
	if (!b->broken_cnt)
		return;
	out_lit(o, "\n| limit | result | line |\n|---|---|---:|\n");
	for (unsigned i = 0; i < b->cnt; i++) {
		const struct budget_limit *l = &b->limits[i];

		if (l->state == BUDGET_HELD)
			continue;
		out_lit(o, "| ");
		what(l, text, sizeof(text));
		put_markdown(o, text);
		out_lit(o, " | ");
		verdict(l, text, sizeof(text));
		put_markdown(o, text);
		out_lit(o, " | ");
		out_u64(o, l->line);
		out_lit(o, " |\n");
	}
}

/* Text in XML; control characters cannot be represented. */
static void put_xml(struct out *o, const char *text)
{
	for (; *text; text++) {
		if (*text == '<')
			out_lit(o, "&lt;");
		else if (*text == '&')
			out_lit(o, "&amp;");
		else if (*text == '"')
			out_lit(o, "&quot;");
		else
			out_char(o, (unsigned char)*text < ' ' ? ' ' : *text);
	}
}

void budget_junit(const struct perf_budget *b, struct out *o)
{
	char text[TEXT_SZ];

	out_lit(o,
		"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n<testsuite name=\"cudatrace\" tests=\"");
	out_u64(o, b->cnt);
	out_lit(o, "\" failures=\"");
	out_u64(o, b->broken_cnt);
	out_lit(o, "\">\n");
	for (unsigned i = 0; i < b->cnt; i++) {
		const struct budget_limit *l = &b->limits[i];

		out_lit(o, "<testcase classname=\"cudatrace.budget\" name=\"");
		what(l, text, sizeof(text));
		put_xml(o, text);
		out_lit(o, "\" file=\"");
		put_xml(o, b->path);
		out_lit(o, "\" line=\"");
		out_u64(o, l->line);
		if (l->state == BUDGET_HELD) {
			out_lit(o, "\"/>\n");
			continue;
		}
		out_lit(o, "\"><failure message=\"");
		verdict(l, text, sizeof(text));
		put_xml(o, text);
		out_lit(o, "\"/></testcase>\n");
	}
	out_lit(o, "</testsuite>\n</testsuites>\n");
}

/* A workflow command ends with its line; in properties, : and , end them. */
static void put_github(struct out *o, const char *text, bool is_property)
{
	char code[4];

	for (; *text; text++) {
		if (*text != '%' && (unsigned char)*text >= ' ' &&
		    !(is_property && strchr(":,", *text))) {
			out_char(o, *text);
			continue;
		}
		snprintf(code, sizeof(code), "%%%02X", (unsigned char)*text);
		out_str(o, code);
	}
}

void budget_github(const struct perf_budget *b, struct out *o)
{
	char text[TEXT_SZ];

	for (unsigned i = 0; i < b->cnt; i++) {
		const struct budget_limit *l = &b->limits[i];

		if (l->state == BUDGET_HELD)
			continue;
		out_lit(o, "::error title=cudatrace budget,file=");
		put_github(o, b->path, true);
		out_lit(o, ",line=");
		out_u64(o, l->line);
		out_lit(o, "::");
		what(l, text, sizeof(text));
		put_github(o, text, false);
		out_lit(o, ": ");
		verdict(l, text, sizeof(text));
		put_github(o, text, false);
		out_char(o, '\n');
	}
}

void budget_gitlab(const struct perf_budget *b, struct out *o)
{
	char name[TEXT_SZ], why[TEXT_SZ], text[2 * TEXT_SZ + 4];
	struct json j;

	json__init(&j, o);
	json_open_array(&j, NULL);
	for (unsigned i = 0; i < b->cnt; i++) {
		const struct budget_limit *l = &b->limits[i];

		if (l->state == BUDGET_HELD)
			continue;
		what(l, name, sizeof(name));
		verdict(l, why, sizeof(why));
		snprintf(text, sizeof(text), "%s: %s", name, why);
		json_open(&j, NULL);
		json_str(&j, "description", text);
		json_str(&j, "check_name", "cudatrace-budget");
		/* The same limit has the same one in the next run. */
		json_str(&j, "fingerprint", name);
		json_str(&j, "severity", "major");
		json_open(&j, "location");
		json_str(&j, "path", b->path);
		json_open(&j, "lines");
		json_u64(&j, "begin", l->line);
		json_close(&j);
		json_close(&j);
		json_close(&j);
	}
	json_close_array(&j);
	out_char(o, '\n');
}
