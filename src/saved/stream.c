/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "stream.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#include "util/log.h"
#include "util/segment.h"

/* Invalid lines without a valid one, after which a file is not a trace. */
#define GIVE_UP 1000

static bool is_stdin(const char *path)
{
	return !strcmp(path, "-");
}

static uint64_t hash(uint64_t h, const char *s, size_t len)
{
	while (len--)
		h = (h ^ (uint8_t)*s++) * 0x100000001b3;
	return h;
}

/* A hash of the header and the first event: files with the same hash are copies. A daemon's dumps
 * share only the header. */
static uint64_t print_of(struct lines *l, uint64_t header)
{
	bool whole;
	size_t len;
	const char *line = lines__next(l, &len, &whole);

	return line && whole ? hash(header, line, len) : 0;
}

int stream__peek(struct lines_all *all, struct saved *s, struct parser *parser,
		 struct stream_file *f)
{
	struct json_value p;
	struct stat st;
	bool whole, is_trace;
	uint64_t print;
	size_t len;
	char *line;

	f->head = (struct trace_info){.hostname = ""};
	f->print = 0;
	if (lines__open(&f->lines, all, f->path, f->f))
		return -ENOENT;
	line = lines__next(&f->lines, &len, &whole);
	if (!line && f->lines.error) {
		lines__close(&f->lines);
		return f->lines.error;
	}
	print = line ? hash(1, line, len) : 0;
	is_trace = line && !parser__line(parser, line, len, &p) && saved__peek(s, &p, &f->head);
	if (!is_stdin(f->path) && !stat(f->path, &st) && S_ISREG(st.st_mode)) {
		if (is_trace)
			f->print = print_of(&f->lines, print);
		lines__close(&f->lines);
	} else if (line)
		lines__again(&f->lines);
	return 0;
}

static bool is_blank(const char *line, size_t len)
{
	return !len || strspn(line, " \t\r") == len;
}

static void bad_line(struct stream *st, size_t len, const struct json_value *p, bool whole)
{
	struct saved_file *f = st->lines.file;

	f->bad_lines++;
	st->counts.invalid++;
	if (!whole && f->events) {
		f->cut_line = f->lines;
		lines__complain(&st->lines,
				"the file ends in the middle of this line: only the %" PRIu64
				" events before it were read",
				f->events);
	} else {
		lines__complain(&st->lines,
				"this is not a line of JSON (byte %zu of %zu: %s): it is skipped",
				p->at + 1, len, p->why);
	}
}

static void lose(struct stream *st, enum loss what, uint64_t cnt)
{
	if (cnt)
		st->sum->lost.cnt[what] += cnt;
}

/* Counts losses of `lost` lines that no end line has included. */
static void lose_reported(struct stream *st)
{
	lose(st, LOSS_EVENTS, st->reported_lost);
	st->reported_lost = 0;
}

static void forget_lines(struct stream *st)
{
	st->counts = (struct line_counts){0};
}

static void check_lines(struct stream *st)
{
	line_counts__check(&st->counts, saved__own_end(st->saved), &st->sum->lost);
	forget_lines(st);
}

/* The daemon deletes old files on purpose. */
static void lose_first(struct stream *st, const char *reason)
{
	if (!strcmp(reason, TRACE_ROTATED) || !strcmp(reason, TRACE_STOPPED))
		st->sum->lost.chosen[CHOSEN_REMOVED] += st->skipped;
	else
		lose(st, LOSS_FIRST_FILES, st->skipped);
	st->skipped = 0;
}

static void in_trace(struct stream *st)
{
	/* The header of another trace or file, where the end of the current one should be. */
	lose(st, LOSS_NO_END, st->in_trace);
	if (st->in_trace)
		lose_first(st, "");
	forget_lines(st);
	st->in_trace = true;
	st->has_end = st->goes_on = false;
}

/* The note on its placement is printed later, when it was placed: by the next call. */
static void begin(struct stream *st)
{
	in_trace(st);
	st->at = STREAM_TRACE;
}

static void begin_without_header(struct stream *st)
{
	lines__complain(&st->lines,
			"there is no header before this line: times count from 0, and the machine "
			"is unknown");
	lose(st, LOSS_NO_HEADER, 1);
	if (saved__begin(st->saved)) {
		st->lines.error = -ENOMEM;
		return;
	}
	lines__again(&st->lines);
	begin(st);
}

static void on_event(struct stream *st)
{
	st->lines.file->events++;
	line_counts__event(&st->counts, &st->ev);
	if (saved__is_again(st->saved, &st->ev)) {
		st->counts.again++;
		lose(st, LOSS_DOUBLED_CALLS, 1);
		if (!st->lines.doubled_cnt++)
			lines__complain(&st->lines,
					"this call was read before: it is counted twice");
	}
	if (st->ev.kind == EVENT_TRACER && !strcmp(st->ev.op, "lost"))
		st->reported_lost += st->ev.tracer.events;
	st->at = STREAM_EVENT;
}

static void on_more(struct stream *st)
{
	const char *note = saved__note(st->saved);

	if (note)
		lines__note(&st->lines, note);
	lose(st, LOSS_MIDDLE_FILES, saved__skipped(st->saved));
	/* Each file of the daemon has its own end. */
	if (saved__end(st->saved))
		begin(st);
	else
		in_trace(st);
}

static void on_unknown(struct stream *st)
{
	lose(st, LOSS_UNKNOWN_LINES, 1);
	if (!st->lines.unknown_cnt++)
		lines__complain(&st->lines,
				"an event of a type that this cudatrace does not support is "
				"skipped: a newer version wrote it");
}

static void on_line(struct stream *st, const char *line, size_t len, bool whole)
{
	struct lines *l = &st->lines;
	struct json_value p;
	unsigned segment;
	const char *why;
	int kind;

	if (l->file->lines == 1 && *line == '[') {
		l->file->bad_lines++;
		lines__complain(
			l,
			"this is a JSON array, such as a Chrome trace: give a file that cudatrace "
			"--jsonl wrote");
		l->error = -EINVAL;
		return;
	}
	if (parser__line(st->parser, line, len, &p)) {
		bad_line(st, len, &p, whole);
		return;
	}
	if (st->must_go_on && !saved__continues(st->saved, &p, &segment)) {
		l->error = -ESTALE;
		return;
	}
	st->must_go_on = false;
	kind = saved__line(st->saved, &p, line, &st->ev, &why);
	switch (kind) {
	case SAVED_HEADER:
		lose_reported(st);
		lose(st, LOSS_LAST_FILES, st->goes_on);
		begin(st);
		st->skipped = saved__skipped(st->saved);
		break;
	case SAVED_MORE:
		on_more(st);
		break;
	case SAVED_EVENT:
	case SAVED_STACK:
		/* The times of an event need the header: a file without one is read again from its
		 * start. */
		if (!st->in_trace) {
			begin_without_header(st);
			break;
		}
		if (kind == SAVED_EVENT)
			on_event(st);
		else
			st->counts.types[TYPE_STACK]++;
		break;
	case SAVED_END:
		check_lines(st);
		lose_first(st, saved__end(st->saved)->reason);
		st->reported_lost = 0;
		st->has_end = true;
		st->in_trace = false;
		st->at = STREAM_END;
		break;
	case SAVED_SEGMENT:
		check_lines(st);
		lose_first(st, TRACE_GOES_ON);
		st->has_end = st->goes_on = true;
		st->in_trace = false;
		break;
	case SAVED_UNKNOWN:
		st->counts.unknown++;
		on_unknown(st);
		break;
	case -EPROTO:
		err("%s: line %" PRIu64 ": %s", lines__name(l), l->file->lines, why);
		l->error = kind;
		break;
	default:
		l->file->bad_lines++;
		st->counts.invalid++;
		lines__complain(l, "%s", why);
	}
}

static void report_missing(const struct stream *st, const char *before, const char *name)
{
	bool later_is_named = st->files && st->files->head.segment > saved__segment(st->saved);

	warn("%s: the trace continues in %s, which does not exist or belongs to another "
	     "trace: %s is missing",
	     before, name, later_is_named ? "this file" : "the rest");
}

static void end_file(struct stream *st)
{
	struct lines *l = &st->lines;
	const struct saved_file *f = l->file;
	struct saved_file *sum = st->sum;
	bool read = f->events || st->has_end || st->in_trace;

	lines__sum_up(l);
	lose(st, LOSS_NO_END, l->error != -ESTALE && st->in_trace);
	lose_first(st, "");
	lose(st, LOSS_CUT_LINE, f->cut_line != 0);
	lose(st, LOSS_BAD_LINES, f->bad_lines - (f->cut_line != 0));
	lose(st, LOSS_UNREAD, (l->error && l->error != -ESTALE) || !f->lines);
	if (l->error == -ESTALE) {
		report_missing(st, st->before, st->path);
		lose(st, LOSS_LAST_FILES, !st->files);
	}
	if (l->error == -EPROTO || l->error == -ESTALE)
		read = false;
	else if (l->error == -ENOMEM)
		err("%s: out of memory: close other programs; the rest of the file is not read",
		    lines__name(l));
	else if (!f->lines && !l->error)
		err("%s is empty: give the file that the trace was written to", lines__name(l));
	else if (f->lines && !read)
		err("%s is not a trace: give a file that cudatrace --jsonl wrote", lines__name(l));
	else if (st->in_trace && !f->cut_line)
		info("%s: the trace has no end line: it was cut off, or is still being written",
		     lines__name(l));
	st->any |= read && (!l->error || l->error == -EIO);
	if (f == &st->more && l->error != -ESTALE) {
		sum->bytes += f->bytes;
		sum->lines += f->lines;
		sum->events += f->events;
		sum->bad_lines += f->bad_lines;
		sum->cut_line = f->cut_line;
	}
	st->goes_on &= !l->error;
	st->drains = false;
	st->kept = NULL;
	lines__close(l);
}

static void forget_file(struct stream *st)
{
	st->has_end = st->in_trace = st->goes_on = st->must_go_on = false;
}

/* Opens the next segment of the trace, if no file was named for it. */
static bool open_more(struct stream *st)
{
	const struct stream_file *next = st->files;
	unsigned segment = saved__segment(st->saved);
	char name[PATH_MAX];
	struct stat file;

	if (!st->goes_on || (next && next->head.segment == segment + 1) ||
	    segment_after(name, sizeof(name), st->path, segment))
		return false;
	/* The user did not name this file. A FIFO of this name, which any user may have created,
	 * would block.
	 */
	if (stat(name, &file) || !S_ISREG(file.st_mode) ||
	    lines__open(&st->lines, st->all, name, &st->more)) {
		report_missing(st, st->path, name);
		return false;
	}
	strcpy(st->before, st->path);
	strcpy(st->path, name);
	st->lines.path = st->more.path = st->path;
	forget_file(st);
	st->must_go_on = true;
	return true;
}

static bool open_named(struct stream *st)
{
	struct stream_file *f;

	while ((f = st->files)) {
		st->files = f->next;
		st->sum = f->f;
		st->path[0] = 0;
		if (strlen(f->path) < sizeof(st->path))
			strcpy(st->path, f->path);
		forget_file(st);
		if (f->lines.in) {
			st->lines = f->lines;
			f->lines = (struct lines){0};
			return true;
		}
		if (!lines__open(&st->lines, st->all, f->path, f->f))
			return true;
		lose(st, LOSS_UNREAD, 1);
	}
	return false;
}

static size_t window_bytes(const struct lines_all *all)
{
	size_t bytes = all->file_cnt ? WINDOW_BYTES_ALL / all->file_cnt : 0;

	if (!all->many)
		return WINDOW_BYTES_ONE;
	if (bytes < WINDOW_BYTES_MIN)
		return WINDOW_BYTES_MIN;
	return bytes < WINDOW_BYTES_MANY ? bytes : WINDOW_BYTES_MANY;
}

static bool next_file(struct stream *st)
{
	if (!st->window && !st->all->in_file_order)
		st->window = window__new(window_bytes(st->all));
	if (st->path[0] && !is_stdin(st->path) && open_more(st))
		return true;
	lose(st, LOSS_LAST_FILES, st->goes_on && !st->files);
	return open_named(st);
}

/* The line is too far from its position for the window. */
static void be_late(struct stream *st, uint64_t late_ns)
{
	lose(st, LOSS_UNSORTED, 1);
	if (!st->lines.backwards_cnt++)
		lines__complain(&st->lines,
				"this line belongs %.3f s earlier, and too many lines lie between: "
				"times in the report may be wrong; sort the lines by \"ts\"",
				late_ns / 1e9);
}

static void take_sorted(struct stream *st)
{
	uint64_t late_ns;
	const struct window_line *line = window__take(st->window, &late_ns);

	st->lines.number = line->number;
	if (late_ns)
		be_late(st, late_ns);
	on_line(st, line->text, line->len, true);
}

static void keep_line(struct stream *st, char *line, size_t len, bool whole)
{
	st->kept = line;
	st->kept_len = len;
	st->kept_whole = whole;
}

/* Events and stacks go to the window. A header or an end waits until it is empty, and so does the
 * end of the file in a line. Lines that cannot be read have no place: they are handled at once. */
static void put_line(struct stream *st, char *line, size_t len, bool whole)
{
	struct json_value p;

	if (!st->window || !st->in_trace || !whole) {
		keep_line(st, line, len, whole);
		return;
	}
	if (parser__line(st->parser, line, len, &p)) {
		bad_line(st, len, &p, whole);
		return;
	}
	switch (window__add(st->window, &p, line, len, st->lines.number)) {
	case WINDOW_ADDED:
		break;
	case WINDOW_BORDER:
		keep_line(st, line, len, whole);
		break;
	case WINDOW_NO_PLACE:
		on_line(st, line, len, whole);
		break;
	default:
		st->lines.error = -ENOMEM;
	}
}

/* Handles one line, or reads one. Returns false at the end of the file. */
static bool next_line(struct stream *st)
{
	bool has_sorted = st->window && !window__is_empty(st->window);
	struct lines *l = &st->lines;
	bool whole;
	size_t len;
	char *line;

	if (has_sorted && (st->kept || st->drains || window__is_full(st->window))) {
		take_sorted(st);
		return true;
	}
	if (st->kept) {
		line = st->kept;
		st->kept = NULL;
		if (st->window && st->in_trace)
			window__begin(st->window);
		l->number = l->file->lines;
		on_line(st, line, st->kept_len, st->kept_whole);
		return true;
	}
	line = l->error ? NULL : lines__next(l, &len, &whole);
	st->drains = !line;
	if (line && !is_blank(line, len))
		put_line(st, line, len, whole);
	return line || has_sorted;
}

/* The sort key of an event or an end: it never decreases within a stream. */
static void set_key(struct stream *st)
{
	uint64_t ns = 0;

	if (st->at == STREAM_EVENT)
		ns = st->ev.end_ns;
	else if (st->at == STREAM_END)
		ns = saved__end(st->saved)->end_ns;
	if (ns > st->key_ns)
		st->key_ns = ns;
}

void stream__next(struct stream *st)
{
	struct lines *l = &st->lines;
	bool goes_on;

	if (st->at == STREAM_TRACE && saved__note(st->saved))
		lines__note(l, saved__note(st->saved));
	st->at = STREAM_CLOSED;
	while (st->at == STREAM_CLOSED) {
		if (!l->in && !next_file(st)) {
			lose_reported(st);
			st->at = STREAM_DONE;
			return;
		}
		goes_on = next_line(st);
		if (!goes_on ||
		    (l->file->bad_lines >= GIVE_UP && !l->file->events && !st->in_trace))
			end_file(st);
	}
	set_key(st);
}

void stream__close(struct stream *st)
{
	struct stream_file *f;

	lines__close(&st->lines);
	window__free(st->window);
	st->window = NULL;
	for (f = st->files; f; f = f->next)
		lines__close(&f->lines);
	st->files = NULL;
}
