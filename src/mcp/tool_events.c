/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The tool events: a pass over the files, which keeps the events of one page, or sums by group. */
#include "mcp_priv.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/event_table.h"
#include "sink/sink.h"
#include "util/hash_table.h"
#include "util/order.h"

/* Groups of an answer; events of others are counted together. */
#define GROUPS_MAX 65536

static const char *const default_columns[] = {
	"ts",	       "type",	     "op",	  "name",      "pid",	    "tid",
	"duration_us", "elapsed_us", "kernel",	  "size",      "direction", "stream",
	"device",      "gpu_stream", "gpu_start", "gpu_us",    "operator",  "range",
	"text",	       "bytes",	     "error",	  "capturing",
};
#define DEFAULT_CNT (sizeof(default_columns) / sizeof(default_columns[0]))

/* The values of the argument `group`: events with the same value are added up. */
enum group_by {
	BY_TYPE,
	BY_OP,
	BY_LAYER,
	BY_FUNCTION,
	BY_KERNEL,
	BY_OPERATOR,
	BY_RANGE,
	BY_PID,
	BY_TID,
	BY_CNT,
};
static const char *const group_words[BY_CNT] = {
	[BY_TYPE] = "type",	    [BY_OP] = "op",	    [BY_LAYER] = "layer",
	[BY_FUNCTION] = "function", [BY_KERNEL] = "kernel", [BY_OPERATOR] = "operator",
	[BY_RANGE] = "range",	    [BY_PID] = "pid",	    [BY_TID] = "tid",
};

/* Events with one value; text NULL: a number, or none. */
struct group {
	struct hash_link link;
	const void *key; /* the text with its NUL, or the number */
	const char *text;
	uint64_t number, cnt, ns, bytes;
};
HASH_TABLE_TYPE(group);
HASH_TABLE_BYTES(group, key);

struct query {
	struct mcp *m;
	const struct args *args;
	enum group_by by; /* BY_CNT: no groups */
	struct group_table groups;
	struct group other;
	struct sink *line; /* writes an event as a line of a trace */
	struct out *row;
	const struct trace_info *info; /* of the first trace */
	unsigned trace_cnt, end_cnt;
	struct losses lost;
	struct reader *reader;
};

/* --- conditions --- */

static const char *kernel_of(const struct trace_event *ev)
{
	if (ev->kind == EVENT_GPU)
		return ev->gpu.kernel;
	return ev->has & (HAS_LAUNCH | HAS_KERNEL) ? ev->launch.kernel : NULL;
}

static const char *operator_of(const struct trace_event *ev)
{
	return ev->kind == EVENT_OPERATOR ? ev->name : ev->operator;
}

static const char *range_of(const struct trace_event *ev)
{
	return ev->kind == EVENT_RANGE ? ev->range.text : ev->range_text;
}

/* The function that was called, or that requested an execution. */
static const char *function_of(const struct trace_event *ev)
{
	if (ev->kind == EVENT_GPU)
		return ev->gpu.call;
	return ev->kind == EVENT_CALL || ev->kind == EVENT_DRIVER ? ev->name : NULL;
}

static const char *layer_of(const struct trace_event *ev)
{
	if (ev->kind == EVENT_CALL)
		return api_at(ev->fn->api)->name;
	return ev->kind == EVENT_DRIVER ? "driver" : event_type_name(ev->type);
}

static bool has_part(const struct query *q, enum arg_id id, const char *name)
{
	const char *part = arg_str(q->args, id);

	return !part || (name && strstr(name, part));
}

static bool is_word(const struct query *q, enum arg_id id, const char *name)
{
	const char *word = arg_str(q->args, id);

	return !word || !strcmp(name, word);
}

static bool is_number(const struct query *q, enum arg_id id, uint64_t x)
{
	const struct arg_val *v = &q->args->v[id];

	return !v->is_set || x == (uint64_t)v->num;
}

static bool is_in_time(const struct query *q, const struct trace_event *ev)
{
	const struct arg_val *from = &q->args->v[ARG_events_from_ms],
			     *to = &q->args->v[ARG_events_to_ms],
			     *min = &q->args->v[ARG_events_min_us];
	double ms = ((double)ev->start_ns - (double)q->info->base_ns) / 1e6;

	return (!from->is_set || ms >= from->num) && (!to->is_set || ms < to->num) &&
	       (!min->is_set || event_duration_ns(ev) >= min->num * 1e3);
}

static bool matches(const struct query *q, const struct trace_event *ev)
{
	return is_in_time(q, ev) && is_number(q, ARG_events_pid, ev->pid) &&
	       is_number(q, ARG_events_tid, ev->tid) &&
	       is_word(q, ARG_events_type, event_type_name(ev->type)) &&
	       is_word(q, ARG_events_op, ev->op) && is_word(q, ARG_events_layer, layer_of(ev)) &&
	       has_part(q, ARG_events_function, function_of(ev)) &&
	       has_part(q, ARG_events_kernel, kernel_of(ev)) &&
	       has_part(q, ARG_events_operator, operator_of(ev)) &&
	       has_part(q, ARG_events_range, range_of(ev));
}

/* --- groups --- */

static const char *text_of(const struct query *q, const struct trace_event *ev)
{
	switch (q->by) {
	case BY_TYPE:
		return event_type_name(ev->type);
	case BY_OP:
		return ev->op;
	case BY_LAYER:
		return layer_of(ev);
	case BY_FUNCTION:
		return function_of(ev);
	case BY_KERNEL:
		return kernel_of(ev);
	case BY_OPERATOR:
		return operator_of(ev);
	case BY_RANGE:
		return range_of(ev);
	default:
		return NULL;
	}
}

static struct group *group_new(struct query *q, const struct group *like, size_t len)
{
	struct group *g = hash_cnt(&q->groups) < GROUPS_MAX ? malloc(sizeof(*g)) : NULL;

	if (!g)
		return NULL;
	*g = *like;
	g->key = g->text ?: (const void *)&g->number;
	if (!group_table__add(&q->groups, g, len))
		return g;
	free(g);
	return NULL;
}

/* The function of a call and of its execution are equal texts at two addresses. */
static struct group *group_of(struct query *q, const struct trace_event *ev)
{
	struct group like = {.text = text_of(q, ev)};
	size_t len = like.text ? strlen(like.text) + 1 : sizeof(like.number);
	const void *key = like.text ?: (const void *)&like.number;

	like.number = q->by == BY_PID ? ev->pid : q->by == BY_TID ? ev->tid : 0;
	return group_table__find(&q->groups, key, len) ?: group_new(q, &like, len) ?: &q->other;
}

static void add_to_group(struct query *q, const struct trace_event *ev)
{
	struct group *g = group_of(q, ev);

	g->cnt++;
	g->ns += event_duration_ns(ev);
	g->bytes += ev->has & HAS_SIZE ? ev->size : 0;
}

/* Text is last, so that the order does not depend on addresses. */
static int by_time(const void *x, const void *y)
{
	const struct group *a = *(struct group *const *)x, *b = *(struct group *const *)y;

	return DESCENDING(a->ns, b->ns) ?: DESCENDING(a->cnt, b->cnt)
		?: ASCENDING(a->number, b->number)
		?: strcmp(a->text ?: "", b->text ?: "");
}

static void put_group(struct query *q, const struct group *g)
{
	struct answer *a = q->m->answer;
	struct json j;

	q->row->len = 0;
	json__init(&j, q->row);
	json_open(&j, NULL);
	if (q->by >= BY_PID)
		json_u64(&j, group_words[q->by], g->number);
	else
		json_str(&j, group_words[q->by], g->text);
	json_u64(&j, "count", g->cnt);
	json_milli(&j, "total_us", g->ns);
	if (g->bytes)
		json_u64(&j, "bytes", g->bytes);
	json_close(&j);
	answer__add(a, q->row->buf, q->row->len);
}

static int put_groups(struct query *q)
{
	struct group **all = calloc(hash_cnt(&q->groups) + 1, sizeof(*all));
	unsigned n = 0;

	if (!all)
		return -ENOMEM;
	hash_each (g, &q->groups)
		all[n++] = g;
	qsort(all, n, sizeof(*all), by_time);
	for (unsigned i = 0; i < n; i++)
		put_group(q, all[i]);
	free(all);
	if (q->other.cnt)
		json_u64(&q->m->answer->j, "events_of_other_groups", q->other.cnt);
	return 0;
}

/* --- reading --- */

static int on_begin(void *ctx, const char *path, const struct trace_info *info)
{
	struct query *q = ctx;

	q->trace_cnt++;
	if (q->line)
		return 0;
	q->info = info;
	q->line = sink__memory(SINK_JSONL, info);
	return q->line ? 0 : -ENOMEM;
}

static void put_event(struct query *q, const struct trace_event *ev)
{
	struct out *out = q->line->out;

	if (!answer__takes(q->m->answer))
		return;
	out->len = out->mark = 0;
	sink__event(q->line, ev);
	if (out->len)
		answer__row(q->m->answer, out->buf, out->len - 1);
	out->len = out->mark = 0;
}

static void on_event(void *ctx, const struct trace_event *ev)
{
	struct query *q = ctx;

	losses__event(&q->lost, ev);
	traces__tick(&q->m->traces);
	if (!matches(q, ev))
		return;
	if (q->by < BY_CNT)
		add_to_group(q, ev);
	else
		put_event(q, ev);
}

static void on_end(void *ctx, const struct trace_info *info, const struct trace_end *end)
{
	struct query *q = ctx;

	q->end_cnt++;
	losses__end(&q->lost, end);
}

static const struct event_field *field_of(const char *name, size_t len, bool only_text)
{
	for (unsigned i = 0; i < EVENT_FIELD_CNT; i++) {
		const struct event_field *f = &event_fields[i];
		bool is_text = f->form == FORM_text || f->form == FORM_text_null;

		if ((is_text || !only_text) && strlen(f->name) == len &&
		    !memcmp(f->name, name, len))
			return f;
	}
	return NULL;
}

/* Returns whether some kind of event has text of programs in that member. */
static bool is_program_text(void *ctx, const char *column, size_t len)
{
	static const char *const also[] = {"name", "function", "comm", "args"};

	for (unsigned i = 0; i < sizeof(also) / sizeof(also[0]); i++)
		if (strlen(also[i]) == len && !memcmp(also[i], column, len))
			return true;
	return field_of(column, len, true);
}

static bool has_column(const struct query *q, const char *name)
{
	if (q->by == BY_CNT)
		return field_of(name, strlen(name), false);
	return !strcmp(name, group_words[q->by]) || !strcmp(name, "count") ||
	       !strcmp(name, "total_us") || !strcmp(name, "bytes");
}

/* Returns 0, or -EINVAL after answer__fail(). */
static int check_columns(const struct query *q)
{
	struct answer *a = q->m->answer;

	for (unsigned i = 0; a->columns && i < a->columns->cnt; i++) {
		const char *name = a->columns->v[i];

		if (has_column(q, name))
			continue;
		if (q->by == BY_CNT)
			answer__fail(a, "events have no member '%s'; docs/FIELDS.md lists them",
				     name);
		else
			answer__fail(a,
				     "groups have no column '%s'; they have %s, count, total_us "
				     "and bytes",
				     name, group_words[q->by]);
		return -EINVAL;
	}
	return 0;
}

static int read_group(struct query *q)
{
	const char *word = arg_str(q->args, ARG_events_group);

	q->by = word ? 0 : BY_CNT;
	while (word && q->by < BY_CNT && strcmp(word, group_words[q->by]))
		q->by++;
	if (!word || q->by < BY_CNT)
		return 0;
	answer__fail(q->m->answer,
		     "group '%s': give type, op, layer, function, kernel, operator, range, pid or "
		     "tid",
		     word);
	return -EINVAL;
}

static int read_files(struct query *q, int file)
{
	static const struct reader_ops ops = {.begin = on_begin, .event = on_event, .end = on_end};
	struct mcp *m = q->m;
	unsigned cnt = file < 0 ? m->o->file_cnt : 1;
	struct saved_file *files = calloc(cnt, sizeof(*files));
	int ret = -ENOMEM;

	traces__make_room(&m->traces);
	if (files && q->row)
		ret = traces__read(&m->traces, file, &ops, q, &q->reader, files, m->answer);
	for (unsigned i = 0; !ret && i < cnt; i++)
		losses__add(&q->lost, &files[i].lost);
	free(files);
	return ret;
}

static void clear(struct query *q)
{
	group_table__free(&q->groups);
	if (q->line)
		sink__close(q->line, NULL);
	out__close(q->row);
	reader__free(q->reader);
	traces__settle(&q->m->traces);
}

int tool_events(struct mcp *m, const struct args *args)
{
	struct query q = {.m = m, .args = args, .row = out__memory()};
	struct answer *a = m->answer;
	struct arg_list columns = {.cnt = DEFAULT_CNT};
	int file, ret = traces__find(&m->traces, arg_str(args, ARG_events_file), &file, a);

	ret = ret ?: read_group(&q);
	for (unsigned i = 0; i < DEFAULT_CNT; i++)
		columns.v[i] = (char *)default_columns[i];
	if (!ret && !args__page(args, ARG_events_columns, a))
		ret = -EINVAL;
	ret = ret ?: check_columns(&q);
	ret = ret ?: read_files(&q, file);
	if (!ret && q.by < BY_CNT)
		ret = put_groups(&q);
	else if (!ret && !a->columns)
		a->columns = &columns;
	if (!ret) {
		json_bool(&a->j, "complete", !losses__any(&q.lost) && q.end_cnt == q.trace_cnt);
		answer__table(a, is_program_text, NULL);
	}
	clear(&q);
	return ret;
}
