/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The line of a call. Nearly all lines are calls, up to millions a second. So members of limited
 * size are formatted through a pointer with space for all; the others reserve their own.
 */
#include "jsonl_priv.h"

#include "decode/value.h"

/* Names of functions missing in the table come from the target's library, and may contain any
 * bytes. */
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

/* Caches of the text that calls of a function, or of a thread, have in common. */
#define CACHE_CNT 64
/* Literals, type and family of a function. */
#define FN_ROOM	 128
#define COMM_MAX 16

struct fn_text {
	const struct api_fn *fn;
	enum event_type type;
	unsigned len;
	char text[256];
};

struct task_text {
	uint32_t pid, tid;
	unsigned len;
	char comm[COMM_MAX + 1];
	char text[64 + FMT_JSON_STR_MAX(COMM_MAX)];
};

static _Thread_local struct fn_text fn_texts[CACHE_CNT];
static _Thread_local struct task_text task_texts[CACHE_CNT];

/* NULL: not cacheable. Rows of the table are constant; other functions, and names read from a file,
 * are not. */
static const struct fn_text *text_of_fn(const struct trace_event *ev)
{
	const struct api_fn *fn = ev->fn;
	struct fn_text *s = &fn_texts[(uintptr_t)fn / sizeof(*fn) % CACHE_CNT];

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

static const struct task_text *text_of_task(const struct trace_event *ev)
{
	struct task_text *s = &task_texts[ev->tid % CACHE_CNT];

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

/* Code for the body's rows of events.def: one macro for each form that calls have. */

#define body_u32       fmt_u64
#define body_u64       fmt_u64
#define body_i32       fmt_i64
#define body_f64       fmt_f64
#define body_us(p, ns) fmt_f64(p, (ns) / 1e3)
#define body_yes       head_yes

static inline char *body_hex(char *p, uint64_t x)
{
	*p = '"';
	p = fmt_hex(p + 1, x);
	*p = '"';
	return p + 1;
}

static inline char *body_dim(char *p, const uint32_t dim[3])
{
	*p = '[';
	p = fmt_u64(p + 1, dim[0]);
	*p = ',';
	p = fmt_u64(p + 1, dim[1]);
	*p = ',';
	p = fmt_u64(p + 1, dim[2]);
	*p = ']';
	return p + 1;
}

static inline char *body_by_handle(char *p, bool x)
{
	return LIT(p, "\"handle\"");
}

static inline char *body_direction(char *p, enum copy_dir dir)
{
	p = LIT(p, "\"");
	p = put_name(p, copy_dir_name(dir));
	return LIT(p, "\"");
}

/* Space for each member except names, texts and parameters, which reserve their own. */
#define VALUE_ROOM 96
enum {
	ROWS_ROOM = 0
#define ONLY_CALLS
#define ROW(id, where, form, name, place, value, when, unit, text)                                 \
	+sizeof(",\"\":" #name) + VALUE_ROOM
#include "model/events.def"
};

static char *more_room(struct jsonl *l, char *p, size_t n)
{
	l->s.out->len = p - l->s.out->buf;
	return out_reserve(l->s.out, ROWS_ROOM + n);
}

static char *text_with_room(struct jsonl *l, char *p, const char *s)
{
	size_t n = strlen(s);

	return fmt_json_str(more_room(l, p, FMT_JSON_STR_MAX(n)), s, n);
}
#define body_text(p, s) text_with_room(l, p, s)
/* These come from our tables. */
#define body_sym body_text

static char *params_with_room(struct jsonl *l, char *p, const struct launch_params *params)
{
	struct out *o = l->s.out;

	o->len = p - o->buf;
	l->j.comma = false;
	event_visit_params(&l->j.v, NULL, params);
	return more_room(l, o->buf + o->len, 0);
}
#define body_params(p, x) params_with_room(l, p, x)

#define PUT_IN_BODY(form, name, value, when)                                                       \
	if (WHEN_##when) {                                                                         \
		p = LIT(p, ",\"" #name "\":");                                                     \
		p = body_##form(p, value);                                                         \
	}
#define PUT_CUSTOM(form, name, value, when)

static inline char *put_rows(struct jsonl *l, char *p, const struct trace_event *ev)
{
#define ONLY_CALLS
#define ROW(id, where, form, name, place, value, when, unit, text)                                 \
	PUT_##where(form, name, value, when)
#include "model/events.def"
	return p;
}

/* Written by hand, because gpu_start has the form of ts, which no other output has. */
char *jsonl_gpu_times(char *p, uint64_t base_ns, const struct gpu_times *t)
{
	p = LIT(p, ",\"gpu_start\":");
	p = put_ts(p, t->start_ns, base_ns);
	p = LIT(p, ",\"gpu_us\":");
	p = fmt_milli(p, t->ns);
	p = LIT(p, ",\"gpu_queue_us\":");
	return body_us(p, t->queue_ns);
}

void jsonl_call(struct jsonl *l, const struct trace_event *ev)
{
	const struct fn_text *fn = text_of_fn(ev);
	const struct task_text *task = text_of_task(ev);
	struct out *o = l->s.out;
	size_t room = COMMON_ROOM + ROWS_ROOM +
		      (fn ? sizeof(fn->text)
			  : strlen(ev->op) + text_room(ev->name) + text_room(ev->fn->symbol)) +
		      (task ? sizeof(task->text) : text_room(ev->comm));
	char *p = out_reserve(o, room);

	p = put_head(p, l, ev);
	p = fn ? (char *)memcpy(p, fn->text, fn->len) + fn->len : put_fn(p, ev);
	p = task ? (char *)memcpy(p, task->text, task->len) + task->len : put_task(p, ev);
	if (ev->text) {
		o->len = jsonl_heads(p, ev) - o->buf;
		l->j.comma = true;
		event_visit_fields(ev, &l->j.v);
		p = more_room(l, o->buf + o->len, 0);
	} else {
		p = put_rows(l, p, ev);
		l->s.gpu_at = p - o->buf;
		if (ev->gpu_times && ev->gpu_times->cnt)
			p = jsonl_gpu_times(p, l->base_ns, ev->gpu_times);
	}
	p = LIT(p, ",\"args\":{");
	o->len = p - o->buf;
	l->j.comma = false;
	l->j.fixed_names = true;
	event_visit_args(ev, &l->j.v);
	l->j.fixed_names = false;
	out_char(o, '}');
}
