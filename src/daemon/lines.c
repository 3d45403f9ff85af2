/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "lines.h"

#include <stdlib.h>
#include <string.h>

#include "sink/crew.h"
#include "sink/jsonl_priv.h"
#include "util/out.h"

/* Threads are waited for so often while there is always more to do; what reads files flushes them
 * more seldom. */
#define TICK_NS 100000000ull

struct lines {
	struct sink *sink;
	struct lines_opts o;
	struct crew *crew;	 /* NULL: the caller does all */
	struct held_lines *held; /* NULL: none waits */
	uint64_t now_ns, ticked_ns;
	uint64_t late_cnt;
};

/* In a crew's text a struct line stands before each line. */
static void word(struct sink *s, const struct trace_event *ev)
{
	struct line l = line_of(ev);
	struct out *o = s->out;
	size_t at = o->len;

	out_reserve(o, sizeof(l));
	o->len += sizeof(l);
	jsonl_sink_ops.event(s, ev);
	l.len = o->len - at - sizeof(l);
	memcpy(o->buf + at, &l, sizeof(l));
}

static void cloned(struct sink *s)
{
	jsonl_sink_ops.cloned(s);
}

static const struct sink_ops crew_ops = {
	.size = sizeof(struct jsonl), .event = word, .cloned = cloned};

/* The next from *at on; false: there is none. */
static bool next_line(const struct out *o, size_t *at, struct line *l)
{
	if (*at == o->len)
		return false;
	memcpy(l, o->buf + *at, sizeof(*l));
	l->text = o->buf + *at + sizeof(*l);
	return true;
}

static void go_on(size_t *at, const struct line *l)
{
	*at += sizeof(*l) + l->len;
}

static bool write_files(void *ctx, const struct crew_text *t, size_t *at, bool is_caller)
{
	const struct lines *l = ctx;
	struct line line;

	for (; next_line(t->out, at, &line); go_on(at, &line))
		if (!l->o.file(l->o.ctx, &line, t->now_ns, is_caller))
			return false;
	return true;
}

static bool write_records(void *ctx, const struct crew_text *t, size_t *at, bool is_caller)
{
	const struct lines *l = ctx;
	struct line line;

	for (; next_line(t->out, at, &line); go_on(at, &line))
		if (line.len)
			l->o.record(l->o.ctx, &line, t->now_ns);
	return true;
}

/* What the caller has, or what has waited. */
static void write_line(void *ctx, const struct line *line)
{
	const struct lines *l = ctx;

	l->o.file(l->o.ctx, line, l->now_ns, true);
	if (line->len)
		l->o.record(l->o.ctx, line, l->now_ns);
}

struct lines *lines__new(const struct lines_opts *o)
{
	struct lines *l = calloc(1, sizeof(*l));
	const struct crew_writer writers[] = {{write_files, l}, {write_records, l}};

	if (!l)
		return NULL;
	l->o = *o;
	l->sink = sink__memory(SINK_JSONL, o->info);
	if (!l->sink)
		goto out;
	if (o->wait) {
		l->held = held_lines__new(o->wait, o->info->base_ns, write_line, l);
	} else if (o->threads) {
		l->sink->ops = &crew_ops;
		l->crew = crew__new_for(l->sink, o->threads, writers, 2);
	}
	if ((l->held || !o->wait) && (l->crew || o->wait || !o->threads))
		return l;
out:
	lines__free(l);
	return NULL;
}

void lines__free(struct lines *l)
{
	if (!l)
		return;
	crew__free(l->crew);
	held_lines__free(l->held);
	sink__close(l->sink, NULL);
	free(l);
}

/* Its times belong at gpu_at. */
static void give(struct lines *l, const struct line *line, uint64_t call_id, size_t gpu_at)
{
	if (!l->held || !held_lines__add(l->held, line, call_id, gpu_at, l->now_ns))
		write_line(l, line);
}

static bool find_call(struct lines *l, const struct trace_event *ev)
{
	return !l->held || !ev->gpu.call_id || held_lines__executed(l->held, ev);
}

void lines__event(struct lines *l, const struct trace_event *ev, const char *more, uint64_t now_ns)
{
	struct out *o = l->sink->out;
	struct line line;

	l->now_ns = now_ns;
	if (ev->kind == EVENT_GPU)
		l->late_cnt += !find_call(l, ev);
	if (l->crew) {
		crew__clock(l->crew, now_ns);
		crew__event(l->crew, ev, more);
		return;
	}
	line = line_of(ev);
	o->len = o->mark = 0;
	l->sink->more = more;
	sink__event(l->sink, ev);
	line.text = o->buf;
	line.len = o->len;
	give(l, &line, line_waits_for(ev), l->sink->gpu_at);
}

void lines__executed(struct lines *l, const struct trace_event *ev)
{
	find_call(l, ev);
}

void lines__mark(struct lines *l, uint64_t now_ns)
{
	const struct line none = {.text = ""};

	l->now_ns = now_ns;
	if (!l->crew) {
		give(l, &none, 0, 0);
		return;
	}
	crew__clock(l->crew, now_ns);
	crew__put(l->crew, &none, sizeof(none));
}

void lines__tick(struct lines *l, uint64_t now_ns)
{
	l->now_ns = now_ns;
	if (l->held)
		held_lines__tick(l->held, now_ns);
	if (l->crew && now_ns - l->ticked_ns >= TICK_NS) {
		l->ticked_ns = now_ns;
		crew__wait(l->crew);
	}
}

void lines__settle(struct lines *l)
{
	if (l->crew)
		crew__wait(l->crew);
}

void lines__let_go(struct lines *l)
{
	if (l->held)
		held_lines__let_go(l->held);
	lines__settle(l);
}

uint64_t lines__late(const struct lines *l)
{
	return l->late_cnt;
}

/* In a sink of its own: a line that was just made is still to be written. */
static void put(const struct lines *l, const struct trace_end *end, struct out *o)
{
	struct sink *s = sink__memory(SINK_JSONL, l->o.info);

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
