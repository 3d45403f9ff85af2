/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "segments.h"

#include "pending_lines.h"
#include "segments_pending.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "util/log.h"
#include "util/opener.h"
#include "util/out.h"
#include "util/safe_open.h"

/* Maximum size of the end of a file that another one follows, with counters at their longest. */
#define CLOSING_SZ 4096
/* The buffer is written before it grows beyond this. */
#define FLUSH_SZ (512 << 10)

struct segments {
	uint64_t max;
	unsigned output; /* number for the opener */
	const struct trace_info *info;
	struct segments_pending *wait; /* NULL: lines do not wait */
	unsigned segments;	       /* finished files */
	struct trace_end here;	       /* sums of the current file */
	struct trace_end earlier;      /* sums in the ends of earlier files */
	/* Stacks that the current file defines: a bit for each id. */
	uint8_t *stacks;
	size_t stacks_sz;
};

int sink__segment(struct sink *s, const char *path, uint64_t max, const struct trace_info *info)
{
	struct segments *sp;
	int output;

	if (!s->ops->next_file || !s->out->is_file || !strcmp(path, "-") || safe_open_fd(path) >= 0)
		return 0;
	output = opener__add(path);
	if (output < 0)
		return output;
	sp = calloc(1, sizeof(*sp));
	if (!sp) {
		err("cannot split %s: out of memory: close other programs", path);
		return -ENOMEM;
	}
	sp->max = max;
	sp->output = output;
	sp->info = info;
	sp->here.end_ns = info->base_ns;
	s->segments = sp;
	return 0;
}

void segments__free(struct segments *sp)
{
	if (!sp)
		return;
	segments_pending__free(sp->wait);
	free(sp->stacks);
	free(sp);
}

bool segments__wait(struct sink *s)
{
	s->segments->wait = segments_pending__new(s);
	return s->segments->wait;
}

static bool is_defined(const struct segments *sp, uint64_t id)
{
	return id / 8 < sp->stacks_sz && sp->stacks[id / 8] >> id % 8 & 1;
}

static void set_defined(struct segments *sp, uint64_t id)
{
	size_t size = (id / 8 + 1) * 2;
	uint8_t *grown;

	if (id / 8 >= sp->stacks_sz) {
		grown = realloc(sp->stacks, size);
		/* The stack is then defined twice. */
		if (!grown)
			return;
		memset(grown + sp->stacks_sz, 0, size - sp->stacks_sz);
		sp->stacks = grown;
		sp->stacks_sz = size;
	}
	sp->stacks[id / 8] |= 1 << id % 8;
}

struct trace_event stack_definition(const struct trace_event *ev)
{
	return (struct trace_event){
		.kind = EVENT_STACK,
		.type = TYPE_STACK,
		.op = "stack",
		.name = "stack",
		.pid = ev->pid,
		.tid = ev->tid,
		.comm = ev->comm,
		.start_ns = ev->start_ns,
		.end_ns = ev->start_ns,
		.stack = ev->stack,
	};
}

/* An item for the current file: an event, or its line. */
struct segment_item {
	const struct trace_event *ev; /* NULL: a line */
	struct line line;	      /* for an event without its text */
	const struct line *stack;
};

static void put_line(struct sink *s, const struct line *l)
{
	out_bytes(s->out, l->text, l->len);
	out__commit(s->out);
}

static void put_stack(struct sink *s, const struct segment_item *n,
		      void (*event)(struct sink *s, const struct trace_event *ev))
{
	struct trace_event stack;

	if (!n->ev) {
		put_line(s, n->stack);
		return;
	}
	stack = stack_definition(n->ev);
	event(s, &stack);
}

/* Writes the item. If only an earlier file defines its stack, defines it first, and returns
 * true. */
static bool put(struct sink *s, const struct segment_item *n,
		void (*event)(struct sink *s, const struct trace_event *ev))
{
	bool lacks = s->ops->defines_stacks && n->line.stack_id && n->line.kind != EVENT_STACK &&
		     !is_defined(s->segments, n->line.stack_id);

	if (lacks)
		put_stack(s, n, event);
	if (n->ev)
		event(s, n->ev);
	else
		put_line(s, &n->line);
	return lacks;
}

/* Returns whether no space is left for this number of bytes. */
static bool is_full(const struct sink *s, size_t room)
{
	return s->out->written + s->out->len + room > s->segments->max;
}

static void take_back(struct out *o, size_t at)
{
	o->len = o->mark = o->failed ? 0 : at;
}

/* Ends a file that another one follows, with that file's sums. The tracer's costs and drops belong
 * to the last file. */
static void end_file(struct sink *s)
{
	struct segments *sp = s->segments;
	struct trace_end end = sp->here;

	end.goes_on = true;
	end.reason = TRACE_GOES_ON;
	end.not_traced = sp->info->not_traced;
	s->ops->end(s, &end);
	out__flush(s->out);
	out__check(s->out, true);
	sp->earlier.stats[CT_STAT_ENTRIES] += end.stats[CT_STAT_ENTRIES];
	sp->earlier.stats[CT_STAT_UNFINISHED] += end.stats[CT_STAT_UNFINISHED];
	sp->earlier.stats[CT_STAT_ABANDONED] += end.stats[CT_STAT_ABANDONED];
}

static void begin_file(struct sink *s)
{
	struct segments *sp = s->segments;
	struct trace_info info = *sp->info;

	info.segment = ++sp->segments;
	info.segment_ns = sp->here.end_ns;
	memset(&sp->here, 0, sizeof(sp->here));
	sp->here.end_ns = info.segment_ns;
	if (sp->stacks)
		memset(sp->stacks, 0, sp->stacks_sz);
	s->ops->next_file(s, &info);
}

/* false: no next file could be opened, which was reported; nothing more is written. */
static bool next_file(struct sink *s)
{
	struct out *o = s->out;
	const char *name;
	int fd = opener__next(s->segments->output, &name);

	o->held = false;
	if (fd < 0) {
		out__flush(o);
		out__no_next(o, name, -fd);
		return false;
	}
	end_file(s);
	if (!o->failed)
		out__next(o, fd, name);
	else
		close(fd);
	if (o->failed)
		return false;
	begin_file(s);
	return !o->failed;
}

static void put_next(struct sink *s, const struct segment_item *n)
{
	struct segments *sp = s->segments;
	struct out *o = s->out;
	bool with_stack;
	size_t at;

	if (o->len >= FLUSH_SZ)
		out__flush(o);
	/* Discarded output is counted where it is discarded, so not here. */
	if (o->failed) {
		s->lost_cnt++;
		return;
	}
	at = o->len;
	o->held = true;
	with_stack = put(s, n, s->ops->event);
	/* An event that is alone in its file stays there, whatever its size. */
	if (!o->failed && is_full(s, CLOSING_SZ) && sp->here.event_cnt) {
		take_back(o, at);
		if (next_file(s)) {
			o->held = true;
			with_stack = put(s, n, s->ops->again);
		}
	}
	o->held = false;
	if (o->failed) {
		s->lost_cnt++;
		return;
	}
	sp->here.type_cnt[TYPE_STACK] += with_stack;
	line__count(&n->line, &sp->here);
	if (with_stack || n->line.kind == EVENT_STACK)
		set_defined(sp, n->line.stack_id);
}

void segments__now(struct sink *s, const struct trace_event *ev)
{
	const struct segment_item n = {.ev = ev, .line = line_of(ev)};

	put_next(s, &n);
}

void segments__line(struct sink *s, const struct line *l, const struct line *stack)
{
	const struct segment_item n = {.line = *l, .stack = stack};

	put_next(s, &n);
}

void segments__event(struct sink *s, const struct trace_event *ev)
{
	if (s->segments->wait)
		segments_pending__event(s->segments->wait, ev);
	else
		segments__now(s, ev);
}

void segments__tick(struct sink *s)
{
	if (s->segments->wait)
		segments_pending__tick(s->segments->wait);
}

void split__release(struct sink *s)
{
	if (s->segments->wait)
		segments_pending__release(s->segments->wait);
}

static struct trace_end last_end(const struct segments *sp, const struct trace_end *end)
{
	struct trace_end last = *end;

	last.event_cnt = sp->here.event_cnt;
	last.call_cnt = sp->here.call_cnt;
	memcpy(last.type_cnt, sp->here.type_cnt, sizeof(last.type_cnt));
	for (unsigned i = 0; i < CT_STAT_CNT; i++)
		last.stats[i] -=
			sp->earlier.stats[i] < last.stats[i] ? sp->earlier.stats[i] : last.stats[i];
	return last;
}

void segments__end(struct sink *s, const struct trace_end *end)
{
	struct segments *sp = s->segments;
	struct trace_end last = last_end(sp, end);
	struct out *o = s->out;

	out__flush(o);
	if (o->failed) {
		s->ops->end(s, &last);
		return;
	}
	o->held = true;
	s->ops->end(s, &last);
	if (!o->failed && is_full(s, 0) && sp->here.event_cnt) {
		take_back(o, 0);
		next_file(s);
		last = last_end(sp, end);
		if (!o->failed)
			s->ops->end(s, &last);
	}
	o->held = false;
	out__flush(o);
	/* The end replaces the last lines. */
	if (o->failed)
		s->ops->end(s, &last);
}
