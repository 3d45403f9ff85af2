/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The canonical form of a trace: one JSON object a line (docs/SCHEMA.md). Written by the hundred
 * thousand a second: the part that every event has is put together at a pointer, without asking for
 * room in between.
 */
#include "sink.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

#include "text/json.h"
#include "text/stack.h"

struct jsonl {
	struct sink s;
	struct json j;
	uint64_t base_ns;
};

/* Room that the closing line needs: every counter at its longest, and texts of ours; and a counted
 * function's part of it. */
#define END_ROOM   8192
#define COUNT_ROOM 512

static void line_end(struct jsonl *l)
{
	out_char(l->s.out, '\n');
	out__commit(l->s.out);
	l->j.comma = false;
}

static void put_wall_time(struct json *j, uint64_t wall_ns)
{
	time_t sec = wall_ns / 1000000000;
	char day[32], text[64];
	struct tm tm;

	if (!gmtime_r(&sec, &tm) || !strftime(day, sizeof(day), "%Y-%m-%dT%H:%M:%S", &tm)) {
		json_null(j, "wall_time");
		return;
	}
	snprintf(text, sizeof(text), "%s.%09uZ", day, (unsigned)(wall_ns % 1000000000));
	json_sym(j, "wall_time", text);
}

static void put_target(struct json *j, const struct trace_info *info)
{
	if (info->argv) {
		json_open_array(j, "command");
		for (unsigned i = 0; i < info->argc; i++)
			json_str(j, NULL, info->argv[i]);
		json_close_array(j);
	}
	if (info->pid_cnt) {
		json_open_array(j, "pids");
		for (unsigned i = 0; i < info->pid_cnt; i++)
			json_u64(j, NULL, info->pids[i]);
		json_close_array(j);
	}
}

static void put_machine(struct json *j, const struct trace_info *info)
{
	char text[32];

	json_str(j, "host", info->hostname);
	json_str(j, "kernel", info->kernel);
	json_str(j, "machine", info->machine);
	json_str(j, "driver_version",
		 info->driver_version && *info->driver_version ? info->driver_version : NULL);
	if (info->cuda_version > 0) {
		snprintf(text, sizeof(text), "%d.%d", info->cuda_version / 1000,
			 info->cuda_version % 1000 / 10);
		json_sym(j, "cuda_version", text);
	} else {
		json_null(j, "cuda_version");
	}
}

static void put_libs(struct json *j, const struct trace_info *info)
{
	json_open_array(j, "libraries");
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
	json_micro(j, "ts", 0);
	json_sym(j, "type", "header");
	json_sym(j, "name", "cudatrace");
	json_u64(j, "schema", TRACE_SCHEMA);
	json_str(j, "version", info->version);
	put_target(j, info);
	put_machine(j, info);
	put_libs(j, info);
	json_str(j, "traced", info->traced);
	json_str(j, "left_out", info->left_out);
	if (info->counted && *info->counted)
		json_str(j, "counted", info->counted);
	if (info->no_return && *info->no_return)
		json_str(j, "no_return", info->no_return);
	if (info->stacks && *info->stacks)
		json_str(j, "stacks", info->stacks);
	json_str(j, "mechanism", info->mechanism);
	if (info->kernel_probe)
		json_sym(j, "kernel_probe", info->kernel_probe);
	if (info->hidden)
		json_sym(j, "hidden", info->hidden);
	json_open_array(j, "degraded");
	for (unsigned i = 0; i < info->degraded_cnt; i++)
		json_str(j, NULL, info->degraded[i]);
	json_close_array(j);
	json_f64(j, "probe_cost_ns", info->probe_cost_ns);
	json_sym(j, "clock", "CLOCK_MONOTONIC");
	json_u64(j, "clock_base_ns", info->base_ns);
	put_wall_time(j, info->wall_ns);
	if (info->boot_id && *info->boot_id)
		json_str(j, "boot_id", info->boot_id);
	json_close(j);
	line_end(l);
	/* A follower sees it at once, and a file that cannot be written is known before the start.
	 */
	out__flush(s->out);
	return s->out->failed ? -s->out->error : 0;
}

/* Members at a pointer that has room for them. */
#define LIT(p, s) ((char *)memcpy(p, s, sizeof(s) - 1) + sizeof(s) - 1)

static inline char *put_name(char *p, const char *s)
{
	while (*s)
		*p++ = *s++;
	return p;
}

/* Everything of fixed length in the common part, generously. */
#define COMMON_ROOM 512

static size_t text_room(const char *s)
{
	return s ? FMT_JSON_STR_MAX(strlen(s)) : 4;
}

static inline char *put_text(char *p, const char *s)
{
	return s ? fmt_json_str(p, s, strlen(s)) : LIT(p, "null");
}

/* A call may have begun before the trace did. */
static inline char *put_ts(char *p, uint64_t ns, uint64_t base_ns)
{
	if (ns >= base_ns)
		return fmt_micro(p, ns - base_ns);
	*p++ = '-';
	return fmt_micro(p, base_ns - ns);
}

static inline char *put_head(char *p, const struct jsonl *l, const struct event *ev)
{
	p = LIT(p, "{\"ts\":");
	p = put_ts(p, ev->start_ns, l->base_ns);
	p = LIT(p, ",\"type\":\"");
	p = put_name(p, event_type_name(ev->type));
	p = LIT(p, "\",\"op\":\"");
	p = put_name(p, ev->op);
	return LIT(p, "\",\"name\":");
}

static inline char *put_task(char *p, const struct event *ev)
{
	p = LIT(p, ",\"pid\":");
	p = fmt_u64(p, ev->pid);
	p = LIT(p, ",\"tid\":");
	p = fmt_u64(p, ev->tid);
	p = LIT(p, ",\"comm\":");
	return put_text(p, ev->comm);
}

static char *put_error(char *p, const struct event *ev)
{
	const char *name = fn_result_name(ev->fn, ev->result);

	p = LIT(p, ",\"error\":\"");
	p = name ? put_name(p, name) : fmt_i64(p, ev->result);
	return LIT(p, "\"");
}

static inline char *put_outcome(char *p, const struct event *ev)
{
	if (ev->unfinished || ev->abandoned) {
		p = ev->unfinished ? LIT(p, ",\"unfinished\":true") : LIT(p, ",\"abandoned\":true");
		p = LIT(p, ",\"elapsed_us\":");
		return fmt_milli(p, event_duration_ns(ev));
	}
	if (ev->entry_only)
		return LIT(p, ",\"entry_only\":true");
	p = LIT(p, ",\"duration_us\":");
	p = fmt_milli(p, event_duration_ns(ev));
	if (ev->fn->no_result)
		return p;
	p = LIT(p, ",\"result\":");
	p = fmt_i64(p, ev->result);
	return ev->is_error ? put_error(p, ev) : p;
}

/* Names of functions that the table does not have come from the target's library: any bytes. */
static inline char *put_call_names(char *p, const struct event *ev)
{
	if (!ev->fn->known) {
		p = put_text(p, ev->name);
		p = LIT(p, ",\"symbol\":");
		return put_text(p, ev->fn->symbol);
	}
	p = LIT(p, "\"");
	p = put_name(p, ev->name);
	p = LIT(p, "\",\"symbol\":\"");
	p = put_name(p, ev->fn->symbol);
	return LIT(p, "\"");
}

static void put_call(struct jsonl *l, const struct event *ev)
{
	struct out *o = l->s.out;
	char *p = out_reserve(o, COMMON_ROOM + strlen(ev->op) + text_room(ev->comm) +
					 text_room(ev->name) + text_room(ev->fn->symbol));

	p = put_head(p, l, ev);
	p = put_call_names(p, ev);
	if (ev->fn->api != API_CUDA) {
		p = LIT(p, ",\"api\":\"");
		p = put_name(p, api_at(ev->fn->api)->name);
		p = LIT(p, "\"");
	}
	p = put_task(p, ev);
	p = LIT(p, ",\"id\":");
	p = fmt_u64(p, ev->id);
	if (ev->parent_id) {
		p = LIT(p, ",\"parent\":");
		p = fmt_u64(p, ev->parent_id);
	}
	if (ev->depth) {
		p = LIT(p, ",\"depth\":");
		p = fmt_u64(p, ev->depth);
	}
	if (ev->api_depth != ev->depth) {
		p = LIT(p, ",\"api_depth\":");
		p = fmt_u64(p, ev->api_depth);
	}
	if (ev->lib_id > 1) {
		p = LIT(p, ",\"lib\":");
		p = fmt_u64(p, ev->lib_id);
	}
	p = put_outcome(p, ev);
	if (ev->stack) {
		p = LIT(p, ",\"stack\":");
		p = fmt_u64(p, ev->stack->id);
	}
	o->len = p - o->buf;
	l->j.comma = true;
	event_visit_fields(ev, &l->j.v);
	json_open(&l->j, "args");
	event_visit_args(ev, &l->j.v);
	json_close(&l->j);
}

/* A process, a library, something of the driver. */
static void put_other(struct jsonl *l, const struct event *ev)
{
	struct out *o = l->s.out;
	struct json *j = &l->j;
	char *p = out_reserve(o, COMMON_ROOM + strlen(ev->op) + text_room(ev->comm) +
					 text_room(ev->name));

	p = put_head(p, l, ev);
	p = put_text(p, ev->name);
	p = put_task(p, ev);
	o->len = p - o->buf;
	j->comma = true;
	if (ev->kind == EVENT_LIBRARY) {
		if (ev->lib_id)
			json_u64(j, "lib", ev->lib_id);
		json_str(j, "path", ev->path);
		json_str(j, "build_id", ev->build_id);
		if (ev->note)
			json_str(j, "note", ev->note);
	} else if (ev->kind == EVENT_STACK) {
		json_stack(j, ev->stack);
	} else if (ev->kind != EVENT_PROCESS) {
		if (ev->kind == EVENT_DRIVER && ev->unfinished)
			json_bool(j, "unfinished", true);
		if (ev->kind == EVENT_DRIVER)
			json_milli(j, ev->unfinished ? "elapsed_us" : "duration_us",
				   event_duration_ns(ev));
		event_visit_fields(ev, &j->v);
	} else if (!strcmp(ev->op, "fork")) {
		json_u64(j, "parent_pid", ev->parent_pid);
	} else if (!strcmp(ev->op, "exit")) {
		if (WIFSIGNALED(ev->exit_code))
			json_u64(j, "signal", WTERMSIG(ev->exit_code));
		else
			json_u64(j, "exit_code", WEXITSTATUS(ev->exit_code));
	}
}

static void jsonl_event(struct sink *s, const struct event *ev)
{
	struct jsonl *l = (struct jsonl *)s;

	if (ev->kind == EVENT_CALL && ev->fn)
		put_call(l, ev);
	else
		put_other(l, ev);
	out_lit(s->out, "}\n");
	out__commit(s->out);
	l->j.comma = false;
}

static void put_counts(struct json *j, const struct trace_end *end)
{
	json_open(j, "events");
	for (unsigned i = 0; i < TYPE_CNT; i++)
		if (end->type_cnt[i])
			json_u64(j, event_type_name(i), end->type_cnt[i]);
	json_close(j);
	json_u64(j, "calls", end->call_cnt);
	json_u64(j, "entries", end->stats[CT_STAT_ENTRIES]);
	json_open(j, "drops");
	for (unsigned i = 0; i < CT_DROP_CNT; i++)
		json_u64(j, drop_name(i), end->drops[i]);
	json_close(j);
	json_u64(j, "unfinished", end->stats[CT_STAT_UNFINISHED]);
	json_u64(j, "abandoned", end->stats[CT_STAT_ABANDONED]);
	json_u64(j, "filtered", end->stats[CT_STAT_FILTERED]);
	json_u64(j, "orphans", end->stats[CT_STAT_ORPHANS]);
	json_u64(j, "duplicates", end->stats[CT_STAT_DUPLICATES]);
	json_u64(j, "bad_records", end->bad_record_cnt);
	if (end->has_objects) {
		json_u64(j, "objects_refused", end->object_refused_cnt);
		json_u64(j, "objects_unknown", end->object_unknown_cnt);
	}
}

static void put_full(struct json *j, const struct trace_end *end)
{
	bool any = false;

	for (unsigned i = 0; i < QUOTA_CNT; i++) {
		if (!end->full[i])
			continue;
		if (!any)
			json_open(j, "tables_full");
		any = true;
		json_u64(j, quota_name(i), end->full[i]);
	}
	if (any)
		json_close(j);
}

static void put_counted(struct json *j, const struct trace_end *end)
{
	if (!end->count_cnt)
		return;
	json_open(j, "counted");
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

static void jsonl_end(struct sink *s, const struct trace_end *end)
{
	struct jsonl *l = (struct jsonl *)s;
	struct json *j = &l->j;
	uint64_t wall_ns = end->end_ns > l->base_ns ? end->end_ns - l->base_ns : 0;

	out__rollback(s->out);
	out__flush(s->out);
	if (s->out->failed && out__make_room(s->out, END_ROOM + end->count_cnt * COUNT_ROOM) < 0)
		return;
	j->comma = false;
	json_open(j, NULL);
	json_micro(j, "ts", wall_ns);
	json_sym(j, "type", "end");
	json_sym(j, "name", "cudatrace");
	json_str(j, "reason", end->reason);
	put_counts(j, end);
	put_full(j, end);
	put_counted(j, end);
	json_micro(j, "wall_ms", wall_ns);
	json_f64(j, "probe_cost_ns", end->probe_cost_ns);
	if (end->count_cnt)
		json_f64(j, "count_cost_ns", end->count_cost_ns);
	json_micro(j, "cost_ms", end->cost_ns);
	json_f64(j, "cost_share", end->cost_share);
	json_str(j, "left_out", end->left_out);
	if (out__why(s->out)) {
		json_sym(j, "write_error", out__why(s->out));
		json_u64(j, "lines_lost", s->lost_cnt + s->out->lost);
	}
	json_close(j);
	line_end(l);
	out__flush(s->out);
}

static void jsonl_cloned(struct sink *s)
{
	json__init(&((struct jsonl *)s)->j, s->out);
}

const struct sink_ops jsonl_sink_ops = {
	.size = sizeof(struct jsonl),
	.open = jsonl_open,
	.event = jsonl_event,
	.cloned = jsonl_cloned,
	.end = jsonl_end,
};
