/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Shared by jsonl.c and jsonl_call.c: the members before the body, written through a pointer. */
#ifndef SINK_FORMAT_JSONL_PRIV_H
#define SINK_FORMAT_JSONL_PRIV_H

#include "sink/sink.h"

#include "model/call_rows.h"
#include "text/json.h"

struct jsonl {
	struct sink s;
	struct json j;
	uint64_t base_ns;
};

extern const struct sink_ops jsonl_sink_ops;

/* Times of a call whose line waited. p has that space. */
#define GPU_TIMES_ROOM 256
char *jsonl_gpu_times(char *p, uint64_t base_ns, const struct gpu_times *t);
/* Formats a call's line except for its end. */
void jsonl_call(struct jsonl *l, const struct trace_event *ev);
/* Formats the members that rows of events.def put before the body, for any event. */
char *jsonl_heads(char *p, const struct trace_event *ev);

/* Write members through a pointer that has space for them. */
#define LIT(p, s) ((char *)memcpy(p, s, sizeof(s) - 1) + sizeof(s) - 1)

static inline char *put_name(char *p, const char *s)
{
	while (*s)
		*p++ = *s++;
	return p;
}

/* Generous space for the fixed-length members of the common part. */
#define COMMON_ROOM 512

static inline size_t text_room(const char *s)
{
	return s ? FMT_JSON_STR_MAX(strlen(s)) : 4;
}

static inline char *put_text(char *p, const char *s)
{
	return s ? fmt_json_str(p, s, strlen(s)) : LIT(p, "null");
}

/* A call may have begun before the trace. */
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

/* Code for the rows of events.def before the body: one macro for each form. */

#define head_u32       fmt_u64
#define head_u64       fmt_u64
#define head_i32       fmt_i64
#define head_yes(p, x) LIT(p, "true")

static inline char *head_stack(char *p, const struct stack *s)
{
	return fmt_u64(p, s->id);
}

static inline char *put_error(char *p, const struct trace_event *ev)
{
	const char *name = fn_result_name(ev->fn, ev->result);

	p = LIT(p, "\"");
	p = name ? put_name(p, name) : fmt_i64(p, ev->result);
	return LIT(p, "\"");
}
#define head_error(p, x)    put_error(p, ev)
#define head_duration(p, x) fmt_milli(p, event_duration_ns(ev))

#define PUT_COMMON(form, name, value, when)                                                        \
	if (WHEN_##when) {                                                                         \
		p = LIT(p, ",\"" #name "\":");                                                     \
		p = head_##form(p, value);                                                         \
	}

#endif /* SINK_FORMAT_JSONL_PRIV_H */
