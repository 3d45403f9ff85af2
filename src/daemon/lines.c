/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "lines.h"

#include <stdlib.h>

#include "sink/sink.h"
#include "util/out.h"

struct lines {
	struct sink *sink;
	const struct trace_info *info;
	struct held_lines *held; /* NULL: none waits */
	held_lines_fn fn;
	void *ctx;
	uint64_t late_cnt;
};

struct lines *lines__new(const struct trace_info *info, size_t wait, held_lines_fn fn, void *ctx)
{
	struct lines *l = calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	*l = (struct lines){.info = info, .fn = fn, .ctx = ctx};
	l->sink = sink__memory(SINK_JSONL, info);
	l->held = wait ? held_lines__new(wait, info->base_ns, fn, ctx) : NULL;
	if (l->sink && (l->held || !wait))
		return l;
	lines__free(l);
	return NULL;
}

void lines__free(struct lines *l)
{
	if (!l)
		return;
	held_lines__free(l->held);
	sink__close(l->sink, NULL);
	free(l);
}

/* Its times belong at gpu_at. */
static void give(struct lines *l, const struct line *line, uint64_t call_id, size_t gpu_at,
		 uint64_t now_ns)
{
	if (!l->held || !held_lines__add(l->held, line, call_id, gpu_at, now_ns))
		l->fn(l->ctx, line);
}

static bool find_call(struct lines *l, const struct trace_event *ev)
{
	return !l->held || !ev->gpu.call_id || held_lines__executed(l->held, ev);
}

void lines__event(struct lines *l, const struct trace_event *ev, const char *suffix,
		  size_t suffix_len, uint64_t now_ns)
{
	struct line line = line_of(ev);
	struct out *o = l->sink->out;

	if (ev->kind == EVENT_GPU)
		l->late_cnt += !find_call(l, ev);
	o->len = o->mark = 0;
	sink__event(l->sink, ev);
	/* Before the closing "}\n". */
	if (suffix_len && o->len > 2) {
		o->len -= 2;
		out_bytes(o, suffix, suffix_len);
		out_lit(o, "}\n");
	}
	line.text = o->buf;
	line.len = o->len;
	give(l, &line, line_waits_for(ev), l->sink->gpu_at, now_ns);
}

void lines__executed(struct lines *l, const struct trace_event *ev)
{
	find_call(l, ev);
}

void lines__mark(struct lines *l, uint64_t now_ns)
{
	const struct line none = {.text = ""};

	give(l, &none, 0, 0, now_ns);
}

void lines__tick(struct lines *l, uint64_t now_ns)
{
	if (l->held)
		held_lines__tick(l->held, now_ns);
}

void lines__let_go(struct lines *l)
{
	if (l->held)
		held_lines__let_go(l->held);
}

uint64_t lines__late(const struct lines *l)
{
	return l->late_cnt;
}

/* In a sink of its own: a line that was just made is still to be written. */
static void put(const struct lines *l, const struct trace_end *end, struct out *o)
{
	struct sink *s = sink__memory(SINK_JSONL, l->info);

	if (!s)
		return;
	if (end) {
		s->out->len = s->out->mark = 0;
		s->waits = l->held;
		s->late_cnt = end->gpu.late;
		s->ops->end(s, end);
	}
	out_bytes(o, s->out->buf, s->out->len);
	sink__close(s, NULL);
}

void lines__header(const struct lines *l, struct out *o)
{
	put(l, NULL, o);
}

void lines__end(const struct lines *l, const struct trace_end *end, struct out *o)
{
	put(l, end, o);
}
