/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Writes a budget that a report, or those of several runs, do not exceed. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "perf_budget.h"
#include "util/order.h"
#include "util/out.h"
#include "value.h"

/* Bytes may grow by this before the limit is broken: caches and alignment move them. */
#define BYTES_SLACK 1.1
/* Times are comments, with this much more: each machine has its own noise. */
#define TIME_SLACK 1.25
/* Above the longest of several runs. */
#define RUNS_SLACK 1.1
#define NAMES_MAX  32
#define NAME_SZ	   128

struct names {
	char of[NAMES_MAX][NAME_SZ];
	unsigned cnt;
};

/* YAML has no control characters, no byte order mark, and no U+FFFE and U+FFFF, in UTF-8. */
static bool is_printable(const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if ((unsigned char)text[i] < ' ' || text[i] == 0x7f)
			return false;
	return !memmem(text, len, "\xef\xbb\xbf", 3) && !memmem(text, len, "\xef\xbf\xbe", 3) &&
	       !memmem(text, len, "\xef\xbf\xbf", 3);
}

static void add_name(void *ctx, const char *text, size_t len)
{
	struct names *n = ctx;

	if (!is_printable(text, len))
		return;
	if (!len || len >= NAME_SZ || n->cnt == NAMES_MAX)
		return;
	memcpy(n->of[n->cnt], text, len);
	n->of[n->cnt++][len] = '\0';
}

/* The reports of all runs. */
struct made {
	struct values **v;
	double *x; /* of one value, by run */
	unsigned cnt;
};

static int by_value(const void *a, const void *b)
{
	return ASCENDING(*(const double *)a, *(const double *)b);
}

/* The value in all runs, in order; false if one does not have it. */
static bool get(struct made *m, const struct budget_row *row, const char *name)
{
	const char *of = row->unit == BUDGET_TIME ? "median" : "max";

	for (unsigned i = 0; i < m->cnt; i++)
		if (!values__get(m->v[i], row->path, name, of, &m->x[i]))
			return false;
	qsort(m->x, m->cnt, sizeof(*m->x), by_value);
	return true;
}

/* Writes the limit of a time: with several runs, 10 % above the longest. */
static void put_time(const struct made *m, char *line, size_t size, const char *name)
{
	double most = m->x[m->cnt - 1];

	if (m->cnt == 1)
		snprintf(line, size, "    # %s: %.0fus  # %.0fus and 25 %%\n", name,
			 ceil(most * TIME_SLACK / 1e3), most / 1e3);
	else
		snprintf(line, size, "    %s: %.0fus  # %.0fus to %.0fus in %u runs, and 10 %%\n",
			 name, ceil(most * RUNS_SLACK / 1e3), m->x[0] / 1e3, most / 1e3, m->cnt);
}

static void put_limit(const struct made *m, struct out *o, const struct budget_row *row)
{
	double most = m->x[m->cnt - 1];
	char line[256];

	switch (row->unit) {
	case BUDGET_COUNT:
		snprintf(line, sizeof(line), "    %s: %.0f\n", row->name, most);
		break;
	case BUDGET_BYTES:
		snprintf(line, sizeof(line), "    %s: %.0f  # %.0f and 10 %%\n", row->name,
			 ceil(most * BYTES_SLACK), most);
		break;
	case BUDGET_TIME:
		put_time(m, line, sizeof(line), row->name);
		break;
	case BUDGET_SHARE:
		return;
	}
	out_str(o, line);
}

/* An entry; without limits that the trace has, none. YAML reads a name in JSON's form. */
static void put_entry(struct out *o, struct made *m, enum budget_scope scope, const char *name)
{
	const struct budget_row *rows;
	bool begun = false;
	unsigned cnt;

	rows = budget_rows(&cnt);
	/* An entry with comments only would be none. */
	for (int pass = 0; pass < 2; pass++) {
		for (unsigned i = 0; i < cnt; i++) {
			if (rows[i].scope != scope || (rows[i].unit == BUDGET_TIME) != pass ||
			    (pass && !begun) || !get(m, &rows[i], name))
				continue;
			if (!begun) {
				out_lit(o, "  - per: ");
				out_str(o, budget_scope_name(scope));
				if (name) {
					out_lit(o, "\n    name: ");
					out_json_str(o, name, strlen(name));
				}
				out_char(o, '\n');
			}
			begun = true;
			put_limit(m, o, &rows[i]);
		}
	}
}

/* Whether a run is incomplete: less was counted then than the program did. */
static bool is_lossy(const struct made *m)
{
	for (unsigned i = 0; i < m->cnt; i++) {
		double complete = 0;

		values__get(m->v[i], "complete", NULL, NULL, &complete);
		if (!complete)
			return true;
	}
	return false;
}

static void put_all(struct made *m, const char *trace, struct out *o)
{
	static const struct {
		enum budget_scope scope;
		const char *list, *member;
	} named[] = {
		{BUDGET_STAGE, "stages.list", "stage"},
		{BUDGET_RANGE, "ranges.list", "text"},
	};

	if (is_lossy(m))
		out_lit(o, "# INCOMPLETE: the limits are too low, because something is missing in "
			   "the trace. Trace again.\n");
	out_lit(o, "# A budget: docs/BUDGETS.md. From the trace ");
	out_json_str(o, trace, strlen(trace));
	if (m->cnt == 1)
		out_lit(o,
			".\n# Times are comments: --runs makes limits of them, from several runs on the "
			"machine of the pipeline");
	out_lit(o, ".\nlimits:\n");
	put_entry(o, m, BUDGET_RUN, NULL);
	put_entry(o, m, BUDGET_ITERATION, NULL);
	put_entry(o, m, BUDGET_STEP, "prefill");
	put_entry(o, m, BUDGET_STEP, "decode");
	for (unsigned i = 0; i < sizeof(named) / sizeof(named[0]); i++) {
		struct names names = {0};

		values__names(m->v[0], named[i].list, named[i].member, add_name, &names);
		for (unsigned n = 0; n < names.cnt; n++)
			put_entry(o, m, named[i].scope, names.of[n]);
	}
}

int budget_make(const struct budget_report *runs, unsigned cnt, const char *trace, struct out *o)
{
	struct made m = {.v = calloc(cnt, sizeof(*m.v)), .x = calloc(cnt, sizeof(*m.x))};
	int ret = m.v && m.x ? 0 : -ENOMEM;

	for (; !ret && m.cnt < cnt; m.cnt++) {
		m.v[m.cnt] = values__new(runs[m.cnt].json, runs[m.cnt].len, &ret);
		if (ret)
			break;
	}
	if (!ret)
		put_all(&m, trace, o);
	while (m.cnt)
		values__free(m.v[--m.cnt]);
	free(m.v);
	free(m.x);
	return ret;
}
