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

/* What the rows of trace.def say, as code: one for each form. */

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

/* Those that have code of their own: of the header. */

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

#define WHEN_ALWAYS	   true
#define WHEN_IF(condition) (condition)

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

static inline char *put_what(char *p, const struct trace_event *ev)
{
	p = LIT(p, ",\"type\":\"");
	p = put_name(p, event_type_name(ev->type));
	p = LIT(p, "\",\"op\":\"");
	p = put_name(p, ev->op);
	return LIT(p, "\",\"name\":");
}

static inline char *put_head(char *p, const struct jsonl *l, const struct trace_event *ev)
{
	p = LIT(p, "{\"ts\":");
	return put_ts(p, ev->start_ns, l->base_ns);
}

static inline char *put_task(char *p, const struct trace_event *ev)
{
	p = LIT(p, ",\"pid\":");
	p = fmt_u64(p, ev->pid);
	p = LIT(p, ",\"tid\":");
	p = fmt_u64(p, ev->tid);
	p = LIT(p, ",\"comm\":");
	return put_text(p, ev->comm);
}

/* What the rows of events.def say of the members before the body, as code: one for each form. */

#define head_u32 fmt_u64
#define head_u64 fmt_u64
#define head_i32 fmt_i64

static inline char *head_yes(char *p, bool x)
{
	return LIT(p, "true");
}

static inline char *head_stack(char *p, const struct stack *s)
{
	return fmt_u64(p, s->id);
}

static char *put_error(char *p, const struct trace_event *ev)
{
	const char *name = fn_result_name(ev->fn, ev->result);

	p = LIT(p, "\"");
	p = name ? put_name(p, name) : fmt_i64(p, ev->result);
	return LIT(p, "\"");
}
#define head_error(p, x)    put_error(p, ev)
#define head_duration(p, x) fmt_milli(p, event_duration_ns(ev))

#define PUT_IN_HEAD(form, name, value, when)                                                       \
	if (WHEN_##when) {                                                                         \
		p = LIT(p, ",\"" #name "\":");                                                     \
		p = head_##form(p, value);                                                         \
	}
#define PUT_IN_BODY(form, name, value, when)
#define PUT_BY_HAND(form, name, value, when)

static inline char *put_heads(char *p, const struct trace_event *ev)
{
	switch (ev->kind) {
	case EVENT_KIND_CNT:
#define SWITCH_ROW(where, form, name, value, when) PUT_##where(form, name, value, when)
#include "model/events.def"
		break;
	}
	return p;
}

/* Names of functions that the table does not have come from the target's library: any bytes. */
static inline char *put_call_names(char *p, const struct trace_event *ev)
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

static char *put_fn(char *p, const struct trace_event *ev)
{
	p = put_what(p, ev);
	p = put_call_names(p, ev);
	if (ev->fn->api == API_CUDA)
		return p;
	p = LIT(p, ",\"api\":\"");
	p = put_name(p, api_at(ev->fn->api)->name);
	return LIT(p, "\"");
}

/* What calls of a function have in common, and those of a thread, is put together once. */
#define SAID_CNT 64
/* Literals, type and family of a function. */
#define FN_ROOM	 128
#define COMM_MAX 16

struct said_fn {
	const struct api_fn *fn;
	enum event_type type;
	unsigned len;
	char text[256];
};

struct said_task {
	uint32_t pid, tid;
	unsigned len;
	char comm[COMM_MAX + 1];
	char text[64 + FMT_JSON_STR_MAX(COMM_MAX)];
};

static _Thread_local struct said_fn said_fns[SAID_CNT];
static _Thread_local struct said_task said_tasks[SAID_CNT];

/* NULL: it is to be put together each time. Rows of the table stay what they are; other functions,
 * and names that were read from a file, do not. */
static const struct said_fn *said_of_fn(const struct trace_event *ev)
{
	const struct api_fn *fn = ev->fn;
	struct said_fn *s = &said_fns[(uintptr_t)fn / sizeof(*fn) % SAID_CNT];

	if (!fn->known || ev->name != fn->name || ev->op != api_op_name(fn->op))
		return NULL;
	if (s->fn == fn && s->type == ev->type)
		return s;
	if (FN_ROOM + strlen(ev->op) + strlen(ev->name) + strlen(fn->symbol) > sizeof(s->text))
		return NULL;
	s->fn = fn;
	s->type = ev->type;
	s->len = put_fn(s->text, ev) - s->text;
	return s;
}

static const struct said_task *said_of_task(const struct trace_event *ev)
{
	struct said_task *s = &said_tasks[ev->tid % SAID_CNT];

	if (!ev->comm)
		return NULL;
	if (s->len && s->tid == ev->tid && s->pid == ev->pid && !strcmp(s->comm, ev->comm))
		return s;
	if (strlen(ev->comm) > COMM_MAX)
		return NULL;
	s->pid = ev->pid;
	s->tid = ev->tid;
	strcpy(s->comm, ev->comm);
	s->len = put_task(s->text, ev) - s->text;
	return s;
}

static void put_gpu_times(struct jsonl *l, const struct gpu_times *t)
{
	char *p = out_reserve(l->s.out, COMMON_ROOM);

	p = LIT(p, ",\"gpu_start\":");
	p = put_ts(p, t->start_ns, l->base_ns);
	p = LIT(p, ",\"gpu_us\":");
	p = fmt_milli(p, t->ns);
	l->s.out->len = p - l->s.out->buf;
	json_f64(&l->j, "gpu_queue_us", t->queue_ns / 1e3);
}

static void put_call(struct jsonl *l, const struct trace_event *ev)
{
	const struct said_fn *fn = said_of_fn(ev);
	const struct said_task *task = said_of_task(ev);
	size_t room = COMMON_ROOM +
		      (fn ? sizeof(fn->text)
			  : strlen(ev->op) + text_room(ev->name) + text_room(ev->fn->symbol)) +
		      (task ? sizeof(task->text) : text_room(ev->comm));
	char *p = out_reserve(l->s.out, room);

	p = put_head(p, l, ev);
	p = fn ? (char *)memcpy(p, fn->text, fn->len) + fn->len : put_fn(p, ev);
	p = task ? (char *)memcpy(p, task->text, task->len) + task->len : put_task(p, ev);
	p = put_heads(p, ev);
	l->s.out->len = p - l->s.out->buf;
	l->j.comma = l->j.fixed_names = true;
	event_visit_fields(ev, &l->j.v);
	if (ev->gpu_times && ev->gpu_times->cnt)
		put_gpu_times(l, ev->gpu_times);
	json_open(&l->j, "args");
	event_visit_args(ev, &l->j.v);
	json_close(&l->j);
	l->j.fixed_names = false;
}

/* A process, a library, something of the driver. */
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
	p = put_heads(p, ev);
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
		put_call(l, ev);
	else
		put_other(l, ev);
	out_lit(s->out, "}\n");
	out__commit(s->out);
	l->j.comma = false;
}

/* Members of the end that have code of their own. */

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

static void end_tables_full(struct jsonl *l, const char *name, const struct trace_end *end)
{
	json_open(&l->j, name);
	for (unsigned i = 0; i < QUOTA_CNT; i++)
		if (end->full[i])
			json_u64(&l->j, quota_name(i), end->full[i]);
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

static void end_write_error(struct jsonl *l, const char *name, const struct trace_end *end)
{
	json_sym(&l->j, name, out__why(l->s.out));
}

static void end_lines_lost(struct jsonl *l, const char *name, const struct trace_end *end)
{
	json_u64(&l->j, name, l->s.lost_cnt + l->s.out->lost);
}

static void end_gpu_late(struct jsonl *l, const char *name, const struct trace_end *end)
{
	json_u64(&l->j, name, l->s.late_cnt);
}

static void end_costs(struct jsonl *l, const char *name, const struct trace_end *end)
{
	struct json *j = &l->j;

	json_open(j, name);
	for (unsigned i = 0; i < end->dear_cnt; i++)
		json_micro(j, end->dear[i].fn->symbol, end->dear[i].ns);
	json_close(j);
}

static void jsonl_end(struct sink *s, const struct trace_end *end)
{
	struct jsonl *l = (struct jsonl *)s;
	struct json *j = &l->j;
	struct out *o = s->out;

	out__rollback(s->out);
	out__flush(s->out);
	if (s->out->failed && out__make_room(s->out, END_ROOM + end->count_cnt * COUNT_ROOM) < 0)
		return;
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
	out__flush(s->out);
}

static void jsonl_cloned(struct sink *s)
{
	json__init(&((struct jsonl *)s)->j, s->out);
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
