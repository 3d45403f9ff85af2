/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "formatter.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sink/delivery/workers.h"
#include "sink/format/jsonl_priv.h"
#include "util/out.h"
#include "util/zframe.h"

/* Interval of waiting for threads under constant load; consumers of files flush less often. */
#define TICK_NS 100000000ull
/* Size of the lines in a frame. Smaller texts compress badly without the preceding ones; larger
 * ones are rare. */
#define TEXT_MIN   (64 << 10)
#define TEXT_MAX   (512 << 10)
#define FRAME_ROOM ZFRAME_ROOM(TEXT_MAX)
/* Enough for the smallest lines that fill a batch. */
#define PLACES_SZ (128 << 10)

struct place {
	struct line line; /* without its text */
	size_t at;	  /* position of the text in out */
};

/* Lines of a batch, or one line, and their frame. */
struct format_sink {
	struct jsonl l;
	const struct formatter *of;
	struct out *places;    /* one struct place per line */
	struct trace_end sums; /* sums of the lines in a frame */
	bool has_mark;
	bool done; /* finished: the next event belongs to another batch */
	char *frame;
	size_t frame_len; /* 0: none */
};

struct formatter {
	struct sink *formatter; /* used by the calling thread */
	struct sink *waited;	/* a copy, for lines that have waited */
	struct formatter_opts o;
	/* One per thread, so that it stays in its processor's cache. */
	struct zframe *zframes[WORKERS_CALLER + 1];
	struct workers *workers;       /* NULL: the caller formats all */
	struct pending_lines *pending; /* NULL: lines do not wait */
	uint64_t now_ns, ticked_ns;
	uint64_t late_cnt;
};

uint64_t formatter__max_bytes(unsigned threads)
{
	return threads ? workers__max_bytes(threads) +
				 workers__copies(threads) * (FRAME_ROOM + PLACES_SZ) +
				 (threads + 1) * ZFRAME_SZ
		       : 0;
}

static int format_open(struct sink *s, const struct trace_info *info)
{
	struct format_sink *w = (struct format_sink *)s;

	w->places = out__memory();
	if (!w->places)
		return -ENOMEM;
	w->done = true;
	return jsonl_sink_ops.open(s, info);
}

static void add(struct format_sink *w, const struct line *l, size_t at)
{
	const struct place p = {*l, at};

	if (w->done) {
		w->places->len = 0;
		w->frame_len = 0;
		w->done = w->has_mark = false;
	}
	out_bytes(w->places, (const char *)&p, sizeof(p));
	w->has_mark |= !l->len;
}

/* A packed text begins with its struct line. */
static void format_event(struct sink *s, const struct trace_event *ev)
{
	struct line l = line_of(ev);
	struct out *o = s->out;
	size_t at = o->len, head = s->packs ? sizeof(l) : 0;

	out_reserve(o, head);
	o->len += head;
	jsonl_sink_ops.event(s, ev);
	l.len = o->len - at - head;
	if (s->packs)
		memcpy(o->buf + at, &l, sizeof(l));
	else
		add((struct format_sink *)s, &l, at);
}

static void put_line(struct sink *s, const struct line *l, const char *text)
{
	size_t at = s->out->len;

	out_bytes(s->out, text, l->len);
	add((struct format_sink *)s, l, at);
}

static void format_put(struct sink *s, const char *text, size_t len)
{
	struct line l;

	memcpy(&l, text, sizeof(l));
	put_line(s, &l, text + sizeof(l));
}

static int format_cloned(struct sink *s)
{
	struct format_sink *w = (struct format_sink *)s;

	jsonl_sink_ops.cloned(s);
	w->places = out__memory();
	w->done = true;
	w->frame = malloc(FRAME_ROOM);
	return w->places && w->frame ? 0 : -ENOMEM;
}

static void format_uncloned(struct sink *s)
{
	struct format_sink *w = (struct format_sink *)s;

	out__close(w->places);
	free(w->frame);
}

static void add_up(struct format_sink *w)
{
	struct place p;

	memset(&w->sums, 0, sizeof(w->sums));
	for (size_t at = 0; at < w->places->len; at += sizeof(p)) {
		memcpy(&p, w->places->buf + at, sizeof(p));
		line__count(&p.line, &w->sums);
	}
}

static void format_formatted(struct sink *s, unsigned thread)
{
	struct format_sink *w = (struct format_sink *)s;
	struct zframe *z = w->of->zframes[thread];
	const struct out *o = s->out;

	w->done = true;
	/* A mark separates two files, so its batch is not a frame. */
	if (!w->of->o.frames || !z || !w->frame || w->has_mark || o->len < TEXT_MIN ||
	    o->len > TEXT_MAX)
		return;
	w->frame_len = zframe__make(z, o->buf, o->len, w->frame, FRAME_ROOM);
	add_up(w);
}

static void format_close(struct sink *s)
{
	out__close(((struct format_sink *)s)->places);
}

static const struct sink_ops format_ops = {
	.size = sizeof(struct format_sink),
	.open = format_open,
	.event = format_event,
	.cloned = format_cloned,
	.put = format_put,
	.formatted = format_formatted,
	.uncloned = format_uncloned,
	.close = format_close,
};

bool formatter_text__next(const struct formatter_text *t, size_t *at, struct line *l)
{
	const struct out *places = t->formatter->places;
	struct place p;

	if (*at == t->lines)
		return false;
	memcpy(&p, places->buf + (*at)++ * sizeof(p), sizeof(p));
	*l = p.line;
	l->text = t->formatter->l.s.out->buf + p.at;
	return true;
}

static struct formatter_text text_of(const struct sink *s, uint64_t now_ns)
{
	const struct format_sink *w = (const struct format_sink *)s;

	return (struct formatter_text){.formatter = w,
				       .now_ns = now_ns,
				       .frame = w->frame_len ? w->frame : NULL,
				       .frame_len = w->frame_len,
				       .len = s->out->len,
				       .lines = w->places->len / sizeof(struct place),
				       .sums = &w->sums};
}

static bool write_files(void *ctx, const struct workers_text *t, size_t *at, bool is_caller)
{
	const struct formatter_text text = text_of(t->formatter, t->now_ns);
	const struct formatter *l = ctx;

	return l->o.file(l->o.ctx, &text, at, is_caller);
}

static bool write_records(void *ctx, const struct workers_text *t, size_t *at, bool is_caller)
{
	const struct formatter_text text = text_of(t->formatter, t->now_ns);
	const struct formatter *l = ctx;

	l->o.record(l->o.ctx, &text);
	return true;
}

/* Drops the formatted text. */
static void clear(struct sink *formatter)
{
	((struct format_sink *)formatter)->done = true;
	formatter->out->len = formatter->out->mark = 0;
}

static void write_now(const struct formatter *l, struct sink *formatter)
{
	const struct formatter_text text = text_of(formatter, l->now_ns);
	size_t at = 0;

	l->o.file(l->o.ctx, &text, &at, true);
	l->o.record(l->o.ctx, &text);
	clear(formatter);
}

static void on_waited(void *ctx, const struct line *line)
{
	struct formatter *l = ctx;

	put_line(l->waited, line, line->text);
	write_now(l, l->waited);
}

struct formatter *formatter__new(const struct formatter_opts *o)
{
	struct formatter *l = calloc(1, sizeof(*l));
	const struct workers_writer writers[] = {{write_files, l}, {write_records, l}};

	if (!l)
		return NULL;
	l->o = *o;
	l->formatter = sink__memory_for(&format_ops, o->info);
	if (!l->formatter)
		goto out;
	((struct format_sink *)l->formatter)->of = l;
	clear(l->formatter);
	l->waited = sink__copy(l->formatter);
	if (!l->waited)
		goto out;
	for (unsigned i = 0; i < o->threads; i++)
		l->zframes[i] = zframe__new();
	if (o->threads)
		l->zframes[WORKERS_CALLER] = zframe__new();
	if (o->wait)
		l->pending = pending_lines__new(o->wait, o->info->base_ns, on_waited, l);
	else if (o->threads)
		l->workers = workers__new_for(l->formatter, o->threads, writers, 2);
	if ((l->pending || !o->wait) && (l->workers || o->wait || !o->threads))
		return l;
out:
	formatter__free(l);
	return NULL;
}

void formatter__free(struct formatter *l)
{
	if (!l)
		return;
	workers__free(l->workers);
	pending_lines__free(l->pending);
	for (unsigned i = 0; i <= WORKERS_CALLER; i++)
		zframe__free(l->zframes[i]);
	sink__free_copy(l->waited);
	sink__close(l->formatter, NULL);
	free(l);
}

static bool find_call(struct formatter *l, const struct trace_event *ev)
{
	return !l->pending || !ev->gpu.call_id || pending_lines__executed(l->pending, ev);
}

void formatter__event(struct formatter *l, const struct trace_event *ev, const char *more,
		      uint64_t now_ns)
{
	struct formatter_text text;
	struct line line;
	size_t at = 0;

	l->now_ns = now_ns;
	if (ev->kind == EVENT_GPU)
		l->late_cnt += !find_call(l, ev);
	if (l->workers) {
		workers__clock(l->workers, now_ns);
		workers__event(l->workers, ev, more);
		return;
	}
	l->formatter->more = more;
	sink__event(l->formatter, ev);
	text = text_of(l->formatter, now_ns);
	/* The GPU's times go to gpu_at. */
	if (l->pending && formatter_text__next(&text, &at, &line) &&
	    pending_lines__add(l->pending, &line, line_waits_for(ev), l->formatter->gpu_at, now_ns))
		clear(l->formatter);
	else
		write_now(l, l->formatter);
}

void formatter__executed(struct formatter *l, const struct trace_event *ev)
{
	find_call(l, ev);
}

void formatter__mark(struct formatter *l, uint64_t now_ns)
{
	const struct line none = {.text = ""};

	l->now_ns = now_ns;
	if (l->workers) {
		workers__clock(l->workers, now_ns);
		workers__put(l->workers, &none, sizeof(none));
	} else if (!l->pending || !pending_lines__add(l->pending, &none, 0, 0, now_ns)) {
		on_waited(l, &none);
	}
}

void formatter__tick(struct formatter *l, uint64_t now_ns)
{
	l->now_ns = now_ns;
	if (l->pending)
		pending_lines__tick(l->pending, now_ns);
	if (l->workers && now_ns - l->ticked_ns >= TICK_NS) {
		l->ticked_ns = now_ns;
		workers__wait(l->workers);
	}
}

void formatter__wait_idle(struct formatter *l)
{
	if (l->workers)
		workers__wait(l->workers);
}

void formatter__release(struct formatter *l)
{
	if (l->pending)
		pending_lines__release(l->pending);
	formatter__wait_idle(l);
}

void formatter__set_frames(struct formatter *l, bool frames)
{
	l->o.frames = frames;
}

uint64_t formatter__late(const struct formatter *l)
{
	return l->late_cnt;
}

/* Uses a separate sink, because a line in the caller's may still be unwritten. */
static void put(const struct formatter *l, const struct trace_end *end, struct out *o)
{
	struct sink *s = sink__memory(SINK_JSONL, l->o.info);

	if (!s)
		return;
	if (end) {
		s->out->len = s->out->mark = 0;
		s->waits = l->pending;
		s->late_cnt = end->gpu.late;
		s->ops->end(s, end);
	}
	out_bytes(o, s->out->buf, s->out->len);
	sink__close(s, NULL);
}

void formatter__line(const struct formatter *l, const struct trace_event *ev, const char *more,
		     struct trace_end *end, struct out *o)
{
	struct sink *s = sink__memory(SINK_JSONL, l->o.info);
	const struct line line = line_of(ev);

	if (!s)
		return;
	s->out->len = s->out->mark = 0;
	s->more = more;
	sink__event(s, ev);
	out_bytes(o, s->out->buf, s->out->len);
	line__count(&line, end);
	sink__close(s, NULL);
}

void formatter__header(const struct formatter *l, struct out *o)
{
	put(l, NULL, o);
}

void formatter__end(const struct formatter *l, const struct trace_end *end, struct out *o)
{
	put(l, end, o);
}
