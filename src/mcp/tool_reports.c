/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Tools that page a JSON document of another verb: diff, budget, check. */
#include "mcp_priv.h"

#include <errno.h>
#include <string.h>

#include "budget/perf_budget.h"
#include "report/diff.h"

static bool is_diff_text(void *ctx, const char *column, size_t len)
{
	return len == 4 && !memcmp(column, "name", 4);
}

/* --- diff --- */

struct diff_read {
	struct mcp *m;
	struct diff *diff;
	struct reader *readers[2]; /* the strings of the first must outlive the second */
	int side;
	bool has_begun;
};

static int on_begin(void *ctx, const char *path, const struct trace_info *info)
{
	struct diff_read *d = ctx;

	d->has_begun = true;
	return diff__begin(d->diff, d->side, info) ? -ENOMEM : 0;
}

static void on_event(void *ctx, const struct trace_event *ev)
{
	struct diff_read *d = ctx;

	diff__event(d->diff, d->side, ev);
	traces__tick(&d->m->traces);
}

static void on_end(void *ctx, const struct trace_info *info, const struct trace_end *end)
{
	struct diff_read *d = ctx;

	if (d->has_begun)
		diff__end(d->diff, d->side, info, end);
}

static int read_sides(struct diff_read *d, const int sides[2])
{
	static const struct reader_ops ops = {.begin = on_begin, .event = on_event, .end = on_end};
	struct mcp *m = d->m;
	struct saved_file file;
	int ret = 0;

	for (; d->side < 2 && !ret; d->side++) {
		d->has_begun = false;
		ret = traces__read(&m->traces, sides[d->side], &ops, d, &d->readers[d->side], &file,
				   m->answer);
		if (!ret && !d->has_begun) {
			answer__fail(m->answer, "%s has no header that can be read: trace again",
				     m->o->files[sides[d->side]]);
			ret = -EINVAL;
		}
		if (!ret)
			diff__file(d->diff, d->side, &file);
	}
	return ret;
}

/* Writes a list of the document as the table. */
static int put_document(struct answer *a, struct out *json, const char *list,
			answer_is_text is_text)
{
	if (!answer__document(a, json, list)) {
		answer__fail(a, "internal error: the result is not JSON");
		return -EINVAL;
	}
	answer__table(a, is_text, NULL);
	return 0;
}

static int find_sides(struct mcp *m, const struct args *args, int sides[2])
{
	int ret = traces__find(&m->traces, arg_str(args, ARG_diff_old), &sides[0], m->answer);

	ret = ret ?: traces__find(&m->traces, arg_str(args, ARG_diff_new), &sides[1], m->answer);
	if (!ret && sides[0] == sides[1]) {
		answer__fail(m->answer, "old and new are one file; give two");
		ret = -EINVAL;
	}
	return ret;
}

/* Checks that it is one of the words. */
static int check_table(struct answer *a, const char *table, const char *words)
{
	const char *at = strstr(words, table);
	size_t len = strlen(table);

	if (at && (at == words || at[-1] == ' ') && (!at[len] || at[len] == ' '))
		return 0;
	answer__fail(a, "table '%s': give one of: %s", table, words);
	return -EINVAL;
}

int tool_diff(struct mcp *m, const struct args *args)
{
	const char *list = arg_str(args, ARG_diff_table) ?: "all";
	struct diff_read d = {.m = m};
	struct out *json = out__memory();
	int sides[2], ret = json ? find_sides(m, args, sides) : -ENOMEM;
	struct json j;

	ret = ret ?: check_table(m->answer, list, "all functions kernels gpu");
	if (!ret && !args__page(args, ARG_diff_columns, m->answer))
		ret = -EINVAL;
	if (!ret) {
		traces__drop(&m->traces);
		d.diff = diff__new(&m->o->report);
		ret = d.diff ? read_sides(&d, sides) : -ENOMEM;
	}
	if (!ret) {
		diff__finish(d.diff);
		json__init(&j, json);
		diff__json(d.diff, &j);
		ret = put_document(m->answer, json, list, is_diff_text);
	}
	diff__free(d.diff);
	reader__free(d.readers[0]);
	reader__free(d.readers[1]);
	out__close(json);
	return ret;
}

/* --- budget --- */

/* Names are those of the budget. */
static bool is_budget_text(void *ctx, const char *column, size_t len)
{
	return false;
}

static int compare(struct mcp *m, struct perf_budget *b, struct out *json, struct out *result)
{
	struct json j;
	size_t len;
	int ret;

	if (b->change_line) {
		answer__fail(
			m->answer,
			"%s limits changes (line %u), which need an older trace: run cudatrace "
			"diff --budget",
			b->path, b->change_line);
		return -EINVAL;
	}
	json__init(&j, json);
	report__json(m->traces.report, &j);
	len = json->len;
	memset(out_reserve(json, PARSE_SLACK + 1), 0, PARSE_SLACK + 1);
	ret = perf_budget__measure(b, BUDGET_NEW, json->buf, len);
	if (ret)
		return ret;
	perf_budget__judge(b);
	budget_json(b, result);
	return 0;
}

int tool_budget(struct mcp *m, const struct args *args)
{
	int file, ret = traces__find(&m->traces, arg_str(args, ARG_budget_file), &file, m->answer);
	struct out *json = out__memory(), *result = out__memory();
	struct perf_budget *b = NULL;

	if (!ret && !m->o->budget) {
		answer__fail(m->answer, "this server has no budget: start cudatrace mcp with "
					"--budget FILE (docs/BUDGETS.md)");
		ret = -EINVAL;
	}
	if (!ret && !args__page(args, ARG_budget_columns, m->answer))
		ret = -EINVAL;
	ret = ret ?: traces__report(&m->traces, file, NULL, 0, m->answer);
	if (!ret) {
		b = perf_budget__read(m->o->budget);
		if (!b)
			answer__fail(m->answer,
				     "%s cannot be read: stderr of the server has the "
				     "reason",
				     m->o->budget);
		ret = !b ? -EINVAL : json && result ? compare(m, b, json, result) : -ENOMEM;
	}
	if (!ret)
		ret = put_document(m->answer, result, "limits", is_budget_text);
	perf_budget__free(b);
	out__close(json);
	out__close(result);
	return ret;
}

/* --- check --- */

/* Running programs chose where their libraries are. */
static bool is_check_text(void *ctx, const char *column, size_t len)
{
	return len == 4 && !memcmp(column, "path", 4);
}

int tool_check(struct mcp *m, const struct args *args)
{
	const char *list = arg_str(args, ARG_check_table) ?: "capabilities";
	struct out *json = out__memory();
	int ret = json ? check_table(m->answer, list, "capabilities libcuda") : -ENOMEM;

	m->answer->max = ANSWER_ROWS_MAX;
	if (!ret && !args__page(args, ARG_check_columns, m->answer))
		ret = -EINVAL;
	if (!ret && !m->o->check(json)) {
		answer__fail(m->answer, "cudatrace check failed: stderr of the server has the "
					"reason");
		ret = -EINVAL;
	}
	ret = ret ?: put_document(m->answer, json, list, is_check_text);
	out__close(json);
	return ret;
}
