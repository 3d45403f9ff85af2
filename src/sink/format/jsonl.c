/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The canonical form of a trace: one JSON object per line (docs/SCHEMA.md). Up to hundreds
 * of thousands of lines are written per second, so the common part of events is formatted through
 * a pointer, without checking for space in between.
 */
#include "jsonl_priv.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "text/stack.h"

/* Space for the closing line, with every counter at its longest and our texts; and for one counted
 * function in it. */
#define END_ROOM   8192
#define COUNT_ROOM 512

static void line_end(struct jsonl *l)
{
	out_char(l->s.out, '\n');
	out__commit(l->s.out);
	l->j.comma = false;
}

/* Code for the rows of trace.def: one macro for each form. */

#define line_u64  json_u64
#define line_f64  json_f64
#define line_sym  json_sym
#define line_text json_str
#define line_ms	  json_micro

static void line_text_or_null(struct json *j, const char *name, const char *s)
{
	json_str(j, name, s && *s ? s : NULL);
}

static void line_cuda_version(struct json *j, const char *name, int version)
{
	char text[32];

	if (version <= 0) {
		json_null(j, name);
		return;
	}
	snprintf(text, sizeof(text), "%d.%d", version / 1000, version % 1000 / 10);
	json_sym(j, name, text);
}

static void line_wall_time(struct json *j, const char *name, uint64_t wall_ns)
{
	time_t sec = wall_ns / 1000000000;
	char day[32], text[64];
	struct tm tm;

	if (!gmtime_r(&sec, &tm) || !strftime(day, sizeof(day), "%Y-%m-%dT%H:%M:%S", &tm)) {
		json_null(j, name);
		return;
	}
	snprintf(text, sizeof(text), "%s.%09uZ", day, (unsigned)(wall_ns % 1000000000));
	json_sym(j, name, text);
}

/* Members of the header with their own code. */

static void header_zero(struct json *j, const char *name, const struct trace_info *info)
{
	json_micro(j, name, 0);
}

static void header_type(struct json *j, const char *name, const struct trace_info *info)
{
	json_sym(j, name, "header");
}

static void header_cudatrace(struct json *j, const char *name, const struct trace_info *info)
{
	json_sym(j, name, "cudatrace");
}

static void header_schema(struct json *j, const char *name, const struct trace_info *info)
{
	json_u64(j, name, TRACE_SCHEMA);
}

static void header_clock(struct json *j, const char *name, const struct trace_info *info)
{
	json_sym(j, name, "CLOCK_MONOTONIC");
}

static void put_texts(struct json *j, const char *name, const char *const *texts, unsigned cnt)
{
	json_open_array(j, name);
	for (unsigned i = 0; i < cnt; i++)
		json_str(j, NULL, texts[i]);
	json_close_array(j);
}

static void header_command(struct json *j, const char *name, const struct trace_info *info)
{
	put_texts(j, name, info->argv, info->argc);
}

static void header_degraded(struct json *j, const char *name, const struct trace_info *info)
{
	put_texts(j, name, info->degraded, info->degraded_cnt);
}

static void header_pids(struct json *j, const char *name, const struct trace_info *info)
{
	json_open_array(j, name);
	for (unsigned i = 0; i < info->pid_cnt; i++)
		json_u64(j, NULL, info->pids[i]);
	json_close_array(j);
}

static void header_libraries(struct json *j, const char *name, const struct trace_info *info)
{
	json_open_array(j, name);
	for (unsigned i = 0; i < info->lib_cnt; i++) {
		const struct trace_lib *lib = &info->libs[i];

		json_open(j, NULL);
		json_str(j, "path", lib->path);
		json_str(j, "build_id", lib->build_id);
		json_u64(j, "id", lib->lib_id);
		json_u64(j, "functions", lib->attached_cnt);
		json_close(j);
	}
	json_close_array(j);
}

static int jsonl_open(struct sink *s, const struct trace_info *info)
{
	struct jsonl *l = (struct jsonl *)s;
	struct json *j = &l->j;

	json__init(j, s->out);
	l->base_ns = info->base_ns;
	json_open(j, NULL);
#define HEADER(form, name, place, when, unit, text)                                                \
	if (WHEN_##when)                                                                           \
		line_##form(j, #name, info->place);
#define HEADER_HAND(form, name, when, unit, text)                                                  \
	if (WHEN_##when)                                                                           \
		header_##form(j, #name, info);
#include "model/trace.def"
	json_close(j);
	line_end(l);
	/* Readers that follow the file see the header at once, and an output that cannot be written
	 * is detected before the start. */
	out__flush(s->out);
	return s->out->failed ? -s->out->error : 0;
}

#define PUT_IN_BODY(form, name, value, when)
#define PUT_CUSTOM(form, name, value, when)

char *jsonl_heads(char *p, const struct trace_event *ev)
{
	switch (ev->kind) {
	case EVENT_KIND_CNT:
#define SWITCH_ROW(where, form, name, value, when) PUT_##where(form, name, value, when)
#include "model/events.def"
		break;
	}
	return p;
}

/* Formats a process, a library, or a driver event. */
static void put_other(struct jsonl *l, const struct trace_event *ev)
{
	struct out *o = l->s.out;
	struct json *j = &l->j;
	char *p = out_reserve(o, COMMON_ROOM + strlen(ev->op) + text_room(ev->comm) +
					 text_room(ev->name));

	p = put_head(p, l, ev);
	p = put_what(p, ev);
	p = put_text(p, ev->name);
	p = put_task(p, ev);
	p = jsonl_heads(p, ev);
	o->len = p - o->buf;
	j->comma = true;
	event_visit_fields(ev, &j->v);
	if (ev->kind == EVENT_STACK)
		json_stack(j, ev->stack);
}

static void jsonl_event(struct sink *s, const struct trace_event *ev)
{
	struct jsonl *l = (struct jsonl *)s;

	if (ev->kind == EVENT_CALL && ev->fn)
		jsonl_call(l, ev);
	else
		put_other(l, ev);
	if (s->more)
		out_str(s->out, s->more);
	out_lit(s->out, "}\n");
	out__commit(s->out);
	l->j.comma = false;
}

/* Members of the end with their own code. */

static uint64_t length_ns(const struct jsonl *l, const struct trace_end *end)
{
	return end->end_ns > l->base_ns ? end->end_ns - l->base_ns : 0;
}

static void end_end_ms(struct jsonl *l, const char *name, const struct trace_end *end)
{
	json_micro(&l->j, name, length_ns(l, end));
}

static void end_type(struct jsonl *l, const char *name, const struct trace_end *end)
{
	json_sym(&l->j, name, "end");
}

static void end_cudatrace(struct jsonl *l, const char *name, const struct trace_end *end)
{
	json_sym(&l->j, name, "cudatrace");
}

static void end_events(struct jsonl *l, const char *name, const struct trace_end *end)
{
	json_open(&l->j, name);
	for (unsigned i = 0; i < TYPE_CNT; i++)
		if (end->type_cnt[i])
			json_u64(&l->j, event_type_name(i), end->type_cnt[i]);
	json_close(&l->j);
}

static void end_drops(struct jsonl *l, const char *name, const struct trace_end *end)
{
	json_open(&l->j, name);
	for (unsigned i = 0; i < CT_DROP_CNT; i++)
		json_u64(&l->j, drop_name(i), end->drops[i]);
	json_close(&l->j);
}

static bool any_full(const struct trace_end *end)
{
	for (unsigned i = 0; i < QUOTA_CNT; i++)
		if (end->full[i])
			return true;
	return false;
}

static void end_limits_hit(struct jsonl *l, const char *name, const struct trace_end *end)
{
	json_open(&l->j, name);
	for (unsigned i = 0; i < QUOTA_CNT; i++)
		if (end->full[i])
			json_u64(&l->j, limit_name(i), end->full[i]);
	json_close(&l->j);
}

static void end_counted(struct jsonl *l, const char *name, const struct trace_end *end)
{
	struct json *j = &l->j;

	json_open(j, name);
	for (unsigned i = 0; i < end->count_cnt; i++) {
		const struct trace_count *c = &end->counts[i];

		json_open(j, c->fn->symbol);
		json_u64(j, "calls", c->calls + c->entered);
		if (c->entered)
			json_u64(j, "entry_only", c->entered);
		if (c->calls) {
			json_u64(j, "errors", c->errors);
			json_milli(j, "total_us", c->total_ns);
			json_milli(j, "max_us", c->max_ns);
		}
		if (c->unfinished)
			json_u64(j, "unfinished", c->unfinished);
		if (c->abandoned)
			json_u64(j, "abandoned", c->abandoned);
		json_close(j);
	}
	json_close(j);
}

static void end_gpu_unmatched(struct jsonl *l, const char *name, const struct trace_end *end)
{
	json_u64(&l->j, name, l->s.late_cnt);
}

static void end_costs(struct jsonl *l, const char *name, const struct trace_end *end)
{
	struct json *j = &l->j;

	json_open(j, name);
	for (unsigned i = 0; i < end->costly_cnt; i++)
		json_micro(j, end->costly[i].fn->symbol, end->costly[i].ns);
	json_close(j);
}

static void put_end(struct jsonl *l, const struct trace_end *end)
{
	struct json *j = &l->j;

	j->comma = false;
	json_open(j, NULL);
#define END(form, name, place, when, unit, text)                                                   \
	if (WHEN_##when)                                                                           \
		line_##form(j, #name, end->place);
#define END_HAND(form, name, when, unit, text)                                                     \
	if (WHEN_##when)                                                                           \
		end_##form(l, #name, end);
#include "model/trace.def"
	json_close(j);
	line_end(l);
}

static void jsonl_end(struct sink *s, const struct trace_end *end)
{
	struct trace_end own = *end;
	struct out *o = s->out;

	out__rollback(o);
	out__flush(o);
	if (o->failed && out__make_room(o, END_ROOM + end->count_cnt * COUNT_ROOM) < 0)
		return;
	if (out__why(o)) {
		own.write_error = out__why(o);
		own.lines_lost += s->lost_cnt + o->lost;
	}
	put_end((struct jsonl *)s, &own);
	out__flush(o);
}

static int jsonl_cloned(struct sink *s)
{
	json__init(&((struct jsonl *)s)->j, s->out);
	return 0;
}

const struct sink_ops jsonl_sink_ops = {
	.size = sizeof(struct jsonl),
	.open = jsonl_open,
	.defines_stacks = true,
	.event = jsonl_event,
	.cloned = jsonl_cloned,
	.end = jsonl_end,
	.next_file = jsonl_open,
	.again = jsonl_event,
};
