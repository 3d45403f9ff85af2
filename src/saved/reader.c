/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Reads several traces as one, and decides which to read next. A trace that starts while others are
 * still running is read in parallel with them; one that starts after they have ended is read after
 * them. */
#include "reader.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "clock_read.h"
#include "stream.h"
#include "util/log.h"
#include "util/segment.h"
#include "util/safe_open.h"

struct reader {
	struct lines_all all;
	/* One for each of the traces that are read in parallel; the first always exists. They are
	 * never freed earlier than the reader, because callers keep their strings. */
	struct saved *saved[READER_SIDES];
	struct parser *parsers[READER_SIDES];
	struct stream *sides[READER_SIDES]; /* NULL: unused */
	/* Those with an event or end, as a heap by precedes(); valid except for the first, whose
	 * item may have changed. */
	struct stream *heap[READER_SIDES];
	unsigned heap_cnt;
	bool is_heap;

	struct clocks clocks;
	struct stream *streams;
	struct stream_file *files;
	unsigned stream_cnt;
	bool has_begun;
	uint64_t now_ns; /* key of the last event or end */
	/* The next stream to start, and its start time; valid until something changes. */
	struct stream *next;
	uint64_t next_ns;
	bool is_known;
	int error;
};

static bool side_new(struct reader *r, unsigned i)
{
	if (!r->saved[i])
		r->saved[i] = i ? saved__beside(r->saved[0]) : saved__new();
	if (!r->parsers[i])
		r->parsers[i] = parser__new();
	return r->saved[i] && r->parsers[i];
}

struct reader *reader__new(const struct reader_ops *ops, void *ctx)
{
	struct reader *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	r->all = (struct lines_all){.ops = ops, .ctx = ctx};
	if (!side_new(r, 0)) {
		reader__free(r);
		return NULL;
	}
	return r;
}

void reader__free(struct reader *r)
{
	if (!r)
		return;
	for (unsigned i = READER_SIDES; i--;) {
		parser__free(r->parsers[i]);
		saved__free(r->saved[i]);
	}
	clocks__free(&r->clocks);
	free(r);
}

void reader__stop(struct reader *r)
{
	r->error = -ECANCELED;
}

void reader__keep_order(struct reader *r)
{
	r->all.in_file_order = true;
}

/* Returns whether f is the next segment of the trace that `last` belongs to. */
static bool goes_on(const struct stream_file *last, const struct stream_file *f)
{
	const struct trace_info *a = &last->head, *b = &f->head;

	return b->segment > a->segment && b->base_ns == a->base_ns &&
	       !strcmp(a->boot_id ?: "", b->boot_id ?: "");
}

/* Returns whether f is a copy of an earlier file, compressed or not. A copy would be counted
 * twice. */
static bool is_copy(const struct reader *r, const struct stream_file *f)
{
	for (const struct stream_file *other = r->files; other < f && f->print; other++) {
		if (other->print != f->print)
			continue;
		warn("%s is skipped: it begins like %s, so it is a copy", f->path, other->path);
		return true;
	}
	return false;
}

/* Adds a file to the stream that it continues, or to a new stream. */
static void add_file(struct reader *r, struct stream_file *f)
{
	struct stream *st = r->streams;

	for (; f->head.segment && st < r->streams + r->stream_cnt; st++) {
		struct stream_file *last = st->files;

		while (last->next)
			last = last->next;
		if (goes_on(last, f)) {
			last->next = f;
			return;
		}
	}
	st = &r->streams[r->stream_cnt++];
	st->all = &r->all;
	st->files = f;
}

static int by_piece(const void *x, const void *y)
{
	const struct stream_file *a = x, *b = y;

	if (a->head.segment != b->head.segment)
		return a->head.segment < b->head.segment ? -1 : 1;
	return (a->f > b->f) - (a->f < b->f);
}

/* The headers decide which file continues which, whatever the names and the order of the files. */
static void add_files(struct reader *r, unsigned cnt)
{
	qsort(r->files, cnt, sizeof(*r->files), by_piece);
	for (unsigned i = 0; i < cnt; i++)
		if (!r->files[i].is_left_out)
			add_file(r, &r->files[i]);
}

/* Assigns a slot to a stream; false: none is free. */
static bool take_side(struct reader *r, struct stream *st)
{
	for (unsigned i = 0; i < READER_SIDES; i++) {
		if (r->sides[i])
			continue;
		if (!side_new(r, i)) {
			r->error = -ENOMEM;
			return false;
		}
		r->sides[i] = st;
		st->side = i;
		st->saved = r->saved[i];
		st->parser = r->parsers[i];
		return true;
	}
	return false;
}

static void leave_side(struct reader *r, struct stream *st)
{
	for (unsigned i = 0; i < READER_SIDES; i++)
		if (r->sides[i] == st)
			r->sides[i] = NULL;
	stream__close(st);
}

static const struct trace_info *head_of(const struct stream *st)
{
	return st->at == STREAM_TRACE ? saved__info(st->saved) : &st->files->head;
}

/* Start time of a stream; UINT64_MAX: unknown, or it has ended. */
static uint64_t when(const struct reader *r, const struct stream *st)
{
	uint64_t ns = saved__when(r->saved[0], head_of(st));

	return ns < r->now_ns ? UINT64_MAX : ns;
}

static bool has_side(const struct reader *r)
{
	for (unsigned i = 0; i < READER_SIDES; i++)
		if (!r->sides[i])
			return true;
	return false;
}

/* Finds the waiting, readable stream that starts next. */
static void find_next(struct reader *r)
{
	bool room = has_side(r);

	if (r->is_known && r->next_ns >= r->now_ns)
		return;
	r->is_known = true;
	r->next = NULL;
	r->next_ns = UINT64_MAX;
	for (struct stream *st = r->streams; st < r->streams + r->stream_cnt; st++) {
		uint64_t ns;

		if (st->at != STREAM_TRACE && (st->at != STREAM_CLOSED || !room))
			continue;
		ns = when(r, st);
		/* Before the first stream has started, only the headers can be compared. */
		if (!r->next || ns < r->next_ns ||
		    (!r->has_begun && saved__earlier(r->saved[0], head_of(st), head_of(r->next)))) {
			r->next = st;
			r->next_ns = ns;
		}
	}
}

static bool has_item(const struct stream *st)
{
	return st->at == STREAM_EVENT || st->at == STREAM_END;
}

static bool precedes(const struct stream *a, const struct stream *b)
{
	return a->key_ns < b->key_ns || (a->key_ns == b->key_ns && a->side < b->side);
}

/* Moves an element down to its place. */
static void sift(struct reader *r, unsigned i)
{
	for (unsigned child; (child = 2 * i + 1) < r->heap_cnt; i = child) {
		struct stream *st = r->heap[i];

		if (child + 1 < r->heap_cnt && precedes(r->heap[child + 1], r->heap[child]))
			child++;
		if (!precedes(r->heap[child], st))
			return;
		r->heap[i] = r->heap[child];
		r->heap[child] = st;
	}
}

static void make_heap(struct reader *r)
{
	r->heap_cnt = 0;
	for (unsigned i = 0; i < READER_SIDES; i++)
		if (r->sides[i] && has_item(r->sides[i]))
			r->heap[r->heap_cnt++] = r->sides[i];
	for (unsigned i = r->heap_cnt / 2; i--;)
		sift(r, i);
	r->is_heap = true;
}

/* Returns the active stream with the earliest event or end; *until: the earliest of the others. */
static struct stream *next_reading(struct reader *r, uint64_t *until)
{
	if (r->is_heap)
		sift(r, 0);
	else
		make_heap(r);
	*until = UINT64_MAX;
	for (unsigned i = 1; i < 3 && i < r->heap_cnt; i++)
		if (r->heap[i]->key_ns < *until)
			*until = r->heap[i]->key_ns;
	return r->heap_cnt ? r->heap[0] : NULL;
}

static void begin(struct reader *r, struct stream *st)
{
	const struct reader_ops *ops = r->all.ops;

	saved__owner(st->saved, NULL);
	if (ops->begin)
		r->error = ops->begin(r->all.ctx, st->sum->path, saved__info(st->saved));
}

static void advance(struct reader *r, struct stream *st)
{
	stream__next(st);
	r->is_heap &= has_item(st);
	/* The next file of a daemon's trace. */
	while (st->at == STREAM_TRACE && saved__is_placed(st->saved) && !r->error) {
		begin(r, st);
		stream__next(st);
	}
	if (st->at == STREAM_DONE)
		leave_side(r, st);
	if (st->at == STREAM_DONE || st->at == STREAM_TRACE)
		r->is_known = false;
}

/* Starts a waiting stream, in parallel with others or after all of them. */
static void start(struct reader *r, struct stream *st, bool beside)
{
	r->is_known = r->is_heap = false;
	if (st->at == STREAM_CLOSED) {
		if (take_side(r, st))
			advance(r, st);
		return;
	}
	saved__place(st->saved, beside);
	r->has_begun = true;
	st->key_ns = saved__info(st->saved)->base_ns;
	r->now_ns = st->key_ns > r->now_ns ? st->key_ns : r->now_ns;
	begin(r, st);
	if (!r->error)
		advance(r, st);
}

static void give(struct reader *r, struct stream *st)
{
	const struct reader_ops *ops = r->all.ops;

	r->now_ns = st->key_ns > r->now_ns ? st->key_ns : r->now_ns;
	if (st->at == STREAM_EVENT) {
		saved__owner(st->saved, &st->ev);
		if (ops->event)
			ops->event(r->all.ctx, &st->ev);
	} else {
		saved__owner(st->saved, NULL);
		if (ops->end)
			ops->end(r->all.ctx, saved__info(st->saved), saved__end(st->saved));
	}
	advance(r, st);
}

static void read_all(struct reader *r)
{
	while (!r->error) {
		uint64_t until;
		struct stream *st = next_reading(r, &until);

		find_next(r);
		if (!st && !r->next)
			return;
		if (!st || (r->next && r->next_ns <= st->key_ns)) {
			start(r, r->next, st);
			continue;
		}
		until = r->next_ns < until ? r->next_ns : until;
		do
			give(r, st);
		while (!r->error && has_item(st) && st->key_ns <= until && r->is_known);
	}
}

/* Outputs may overwrite neither this file, which is segment n of a trace, nor the following
 * segments. */
static void keep_segments(const char *path, unsigned n)
{
	char next[2][PATH_MAX];
	struct stat st;

	while (!stat(path, &st)) {
		if (S_ISREG(st.st_mode))
			safe_open_keep(st.st_dev, st.st_ino);
		if (segment_after(next[n % 2], PATH_MAX, path, n))
			return;
		path = next[n++ % 2];
	}
}

/* The segment number of a file is known only after its header was read; here its name counts. */
static void keep_input(const char *path)
{
	struct stat st;

	if (!strcmp(path, "-")) {
		if (!fstat(STDIN_FILENO, &st) && S_ISREG(st.st_mode))
			safe_open_keep(st.st_dev, st.st_ino);
		return;
	}
	keep_segments(path, 0);
	if (segment_number(path))
		keep_segments(path, segment_number(path));
}

int reader__files(struct reader *r, const char *const *paths, unsigned cnt,
		  struct saved_file *files)
{
	bool any = false;

	r->all.many = cnt > 1;
	r->all.file_cnt = cnt;
	r->stream_cnt = r->heap_cnt = 0;
	r->is_heap = false;
	r->is_known = false;
	r->error = 0;
	r->files = calloc(cnt, sizeof(*r->files));
	r->streams = calloc(cnt, sizeof(*r->streams));
	if (!r->files || !r->streams)
		r->error = -ENOMEM;
	for (unsigned i = 0; i < cnt; i++)
		keep_input(paths[i]);
	for (unsigned i = 0; !r->error && i < cnt; i++) {
		struct stream_file *f = &r->files[i];

		f->path = paths[i];
		f->f = &files[i];
		f->head.hostname = "";
		*f->f = (struct saved_file){.path = paths[i]};
		f->is_left_out = true;
		if (cnt > 1 && stream__peek(&r->all, r->saved[0], r->parsers[0], f))
			f->f->lost.cnt[LOSS_UNREAD]++;
		else if (is_copy(r, f))
			f->f->lost.cnt[LOSS_COPIES]++;
		else
			f->is_left_out = false;
	}
	if (!r->error)
		add_files(r, cnt);
	if (!r->error && r->stream_cnt > 1) {
		clocks__free(&r->clocks);
		clock_read__files(&r->clocks, &r->all, r->streams, r->stream_cnt);
		saved__set_clocks(r->saved[0], r->clocks.cnt ? &r->clocks : NULL);
	}
	read_all(r);
	for (unsigned i = 0; i < r->stream_cnt; i++) {
		any |= r->streams[i].any;
		leave_side(r, &r->streams[i]);
	}
	free(r->streams);
	free(r->files);
	if (r->error == -ENOMEM)
		err("out of memory: close other programs");
	return r->error ? r->error : any ? 0 : -EINVAL;
}
