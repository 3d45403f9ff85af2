/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "lines.h"

#include <stdlib.h>
#include <string.h>

#include "sink/crew.h"
#include "sink/jsonl_priv.h"
#include "util/out.h"
#include "util/zframe.h"

/* Threads are waited for so often while there is always more to do; what reads files flushes them
 * more seldom. */
#define TICK_NS 100000000ull
/* Of the lines in a frame. Less does not shrink by itself as it does with what was before it; more
 * is seldom. */
#define TEXT_MIN   (64 << 10)
#define TEXT_MAX   (512 << 10)
#define FRAME_ROOM ZFRAME_ROOM(TEXT_MAX)
/* Of the smallest lines that fill a batch. */
#define PLACES_SZ (128 << 10)

struct place {
	struct line line; /* without its text, which is */
	size_t at;	  /* there, in out */
};

/* Lines of a batch, or one, and their frame. */
struct words {
	struct jsonl l;
	const struct lines *of;
	struct out *places;    /* a struct place for each */
	struct trace_end sums; /* of those in a frame */
	bool has_mark;
	bool done; /* what comes is another's */
	char *frame;
	size_t frame_len; /* 0: none */
};

struct lines {
	struct sink *words;  /* the caller's */
	struct sink *waited; /* a copy: one that has */
	struct lines_opts o;
	/* Each thread has its own, which stays in its processor's cache. */
	struct zframe *zframes[CREW_CALLER + 1];
	struct crew *crew;	 /* NULL: the caller does all */
	struct held_lines *held; /* NULL: none waits */
	uint64_t now_ns, ticked_ns;
	uint64_t late_cnt;
};

uint64_t lines__most(unsigned threads)
{
	return threads ? crew__most(threads) + crew__copies(threads) * (FRAME_ROOM + PLACES_SZ) +
				 (threads + 1) * ZFRAME_SZ
		       : 0;
}

static int words_open(struct sink *s, const struct trace_info *info)
{
	struct words *w = (struct words *)s;

	w->places = out__memory();
	w->done = true;
	return jsonl_sink_ops.open(s, info);
}

static void add(struct words *w, const struct line *l, size_t at)
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

/* A text that is packed begins with its struct line. */
static void words_event(struct sink *s, const struct trace_event *ev)
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
		add((struct words *)s, &l, at);
}

static void put_line(struct sink *s, const struct line *l, const char *text)
{
	size_t at = s->out->len;

	out_bytes(s->out, text, l->len);
	add((struct words *)s, l, at);
}

static void words_put(struct sink *s, const char *text, size_t len)
{
	struct line l;

	memcpy(&l, text, sizeof(l));
	put_line(s, &l, text + sizeof(l));
}

static void words_cloned(struct sink *s)
{
	struct words *w = (struct words *)s;

	jsonl_sink_ops.cloned(s);
	w->places = out__memory();
	w->done = true;
	w->frame = malloc(FRAME_ROOM);
}

static void words_uncloned(struct sink *s)
{
	struct words *w = (struct words *)s;

	out__close(w->places);
	free(w->frame);
}

static void add_up(struct words *w)
{
	struct place p;

	memset(&w->sums, 0, sizeof(w->sums));
	for (size_t at = 0; at < w->places->len; at += sizeof(p)) {
		memcpy(&p, w->places->buf + at, sizeof(p));
		line__count(&p.line, &w->sums);
	}
}

static void words_worded(struct sink *s, unsigned thread)
{
	struct words *w = (struct words *)s;
	struct zframe *z = w->of->zframes[thread];
	const struct out *o = s->out;

	w->done = true;
	/* A mark stands between two files. */
	if (!w->of->o.frames || !z || !w->frame || w->has_mark || o->len < TEXT_MIN ||
	    o->len > TEXT_MAX)
		return;
	w->frame_len = zframe__make(z, o->buf, o->len, w->frame, FRAME_ROOM);
	add_up(w);
}

static void words_close(struct sink *s)
{
	out__close(((struct words *)s)->places);
}

static const struct sink_ops words_ops = {
	.size = sizeof(struct words),
	.open = words_open,
	.event = words_event,
	.cloned = words_cloned,
	.put = words_put,
	.worded = words_worded,
	.uncloned = words_uncloned,
	.close = words_close,
};

bool lines_text__next(const struct lines_text *t, size_t *at, struct line *l)
{
	const struct out *places = t->words->places;
	struct place p;

	if (*at == t->lines)
		return false;
	memcpy(&p, places->buf + (*at)++ * sizeof(p), sizeof(p));
	*l = p.line;
	l->text = t->words->l.s.out->buf + p.at;
	return true;
}

static struct lines_text text_of(const struct sink *s, uint64_t now_ns)
{
	const struct words *w = (const struct words *)s;

	return (struct lines_text){.words = w,
				   .now_ns = now_ns,
				   .frame = w->frame_len ? w->frame : NULL,
				   .frame_len = w->frame_len,
				   .len = s->out->len,
				   .lines = w->places->len / sizeof(struct place),
				   .sums = &w->sums};
}

static bool write_files(void *ctx, const struct crew_text *t, size_t *at, bool is_caller)
{
	const struct lines_text text = text_of(t->words, t->now_ns);
	const struct lines *l = ctx;

	return l->o.file(l->o.ctx, &text, at, is_caller);
}

static bool write_records(void *ctx, const struct crew_text *t, size_t *at, bool is_caller)
{
	const struct lines_text text = text_of(t->words, t->now_ns);
	const struct lines *l = ctx;

	l->o.record(l->o.ctx, &text);
	return true;
}

/* Its text is gone. */
static void clear(struct sink *words)
{
	((struct words *)words)->done = true;
	words->out->len = words->out->mark = 0;
}

static void write_now(const struct lines *l, struct sink *words)
{
	const struct lines_text text = text_of(words, l->now_ns);
	size_t at = 0;

	l->o.file(l->o.ctx, &text, &at, true);
	l->o.record(l->o.ctx, &text);
	clear(words);
}

static void on_waited(void *ctx, const struct line *line)
{
	struct lines *l = ctx;

	put_line(l->waited, line, line->text);
	write_now(l, l->waited);
}

struct lines *lines__new(const struct lines_opts *o)
{
	struct lines *l = calloc(1, sizeof(*l));
	const struct crew_writer writers[] = {{write_files, l}, {write_records, l}};

	if (!l)
		return NULL;
	l->o = *o;
	l->words = sink__memory_for(&words_ops, o->info);
	if (!l->words)
		goto out;
	((struct words *)l->words)->of = l;
	clear(l->words);
	l->waited = sink__copy(l->words);
	if (!l->waited)
		goto out;
	for (unsigned i = 0; i < o->threads; i++)
		l->zframes[i] = zframe__new();
	if (o->threads)
		l->zframes[CREW_CALLER] = zframe__new();
	if (o->wait)
		l->held = held_lines__new(o->wait, o->info->base_ns, on_waited, l);
	else if (o->threads)
		l->crew = crew__new_for(l->words, o->threads, writers, 2);
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
	for (unsigned i = 0; i <= CREW_CALLER; i++)
		zframe__free(l->zframes[i]);
	sink__free_copy(l->waited);
	sink__close(l->words, NULL);
	free(l);
}

static bool find_call(struct lines *l, const struct trace_event *ev)
{
	return !l->held || !ev->gpu.call_id || held_lines__executed(l->held, ev);
}

void lines__event(struct lines *l, const struct trace_event *ev, const char *more, uint64_t now_ns)
{
	struct lines_text text;
	struct line line;
	size_t at = 0;

	l->now_ns = now_ns;
	if (ev->kind == EVENT_GPU)
		l->late_cnt += !find_call(l, ev);
	if (l->crew) {
		crew__clock(l->crew, now_ns);
		crew__event(l->crew, ev, more);
		return;
	}
	l->words->more = more;
	sink__event(l->words, ev);
	text = text_of(l->words, now_ns);
	/* Its times belong at gpu_at. */
	if (l->held && lines_text__next(&text, &at, &line) &&
	    held_lines__add(l->held, &line, line_waits_for(ev), l->words->gpu_at, now_ns))
		clear(l->words);
	else
		write_now(l, l->words);
}

void lines__executed(struct lines *l, const struct trace_event *ev)
{
	find_call(l, ev);
}

void lines__mark(struct lines *l, uint64_t now_ns)
{
	const struct line none = {.text = ""};

	l->now_ns = now_ns;
	if (l->crew) {
		crew__clock(l->crew, now_ns);
		crew__put(l->crew, &none, sizeof(none));
	} else if (!l->held || !held_lines__add(l->held, &none, 0, 0, now_ns)) {
		on_waited(l, &none);
	}
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

void lines__set_frames(struct lines *l, bool frames)
{
	l->o.frames = frames;
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
