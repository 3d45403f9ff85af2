/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "reader.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "input.h"
#include "parse.h"
#include "saved.h"
#include "util/log.h"
#include "util/piece.h"

#define BUF_SZ	       (1u << 20)
#define PROGRESS_BYTES (16u << 20)

/* Messages per file; then they are counted. */
#define MESSAGES_MAX 5

/* So many bad lines and no good one: it is no trace. */
#define GIVE_UP 1000

/* Threads may be swapped by little; the end of a trace gathers what never returned. */
#define BACKWARDS_NS 1000000000ull

struct reader {
	const struct reader_ops *ops;
	void *ctx;
	struct saved *saved;
	struct parser *parser;

	char *buf; /* cap bytes, then PARSE_SLACK */
	size_t pos, len, cap;

	/* the file at hand */
	struct input *in;
	const char *path;
	struct saved_file *file;
	uint64_t shown; /* progress */
	unsigned message_cnt, note_cnt;
	uint64_t unknown_cnt, backwards_cnt, long_cnt;
	uint64_t last_ns;
	bool has_end, in_trace;
	bool goes_on;	 /* the trace does, in another file */
	bool must_go_on; /* the file is read as such a one */
	int error;	 /* the rest of the file is not read */
};

struct reader *reader__new(const struct reader_ops *ops, void *ctx)
{
	struct reader *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	r->ops = ops;
	r->ctx = ctx;
	r->cap = BUF_SZ;
	r->buf = calloc(1, r->cap + PARSE_SLACK);
	r->saved = saved__new();
	r->parser = parser__new();
	if (!r->buf || !r->saved || !r->parser) {
		reader__free(r);
		return NULL;
	}
	return r;
}

void reader__free(struct reader *r)
{
	if (!r)
		return;
	input__close(r->in);
	parser__free(r->parser);
	saved__free(r->saved);
	free(r->buf);
	free(r);
}

static const char *name_of(const struct reader *r)
{
	return strcmp(r->path, "-") ? r->path : "stdin";
}

/* With the place, a few times. */
static void __attribute__((format(printf, 2, 3))) complain(struct reader *r, const char *fmt, ...)
{
	char text[512];
	va_list ap;

	if (++r->message_cnt > MESSAGES_MAX)
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	warn("%s:%" PRIu64 ": %s", name_of(r), r->file->lines, text);
}

static int grow(struct reader *r)
{
	size_t cap = r->cap * 2;
	char *grown = realloc(r->buf, cap + PARSE_SLACK);

	if (!grown)
		return -ENOMEM;
	memset(grown + r->cap, 0, cap - r->cap + PARSE_SLACK);
	r->buf = grown;
	r->cap = cap;
	return 0;
}

/* More bytes behind those that are left. 0 at the end of the file. */
static ssize_t fill(struct reader *r)
{
	const char *why;
	ssize_t n;

	if (r->pos) {
		memmove(r->buf, r->buf + r->pos, r->len - r->pos);
		r->len -= r->pos;
		r->pos = 0;
	}
	n = input__read(r->in, r->buf + r->len, r->cap - r->len, &why);
	if (n < 0) {
		warn("%s: line %" PRIu64 ": %s: what follows is lost", name_of(r),
		     r->file->lines + 1, why);
		r->error = -EIO;
		return 0;
	}
	r->len += n;
	r->file->bytes += n;
	if (r->ops->progress && r->file->bytes - r->shown >= PROGRESS_BYTES) {
		r->shown = r->file->bytes;
		r->ops->progress(r->ctx, r->path, input__pos(r->in), input__size(r->in));
	}
	return n;
}

/* The rest of a line that is longer than the buffer. */
static void skip_line(struct reader *r)
{
	char *nl;

	r->long_cnt++;
	r->file->lines++;
	r->file->bad_lines++;
	complain(r, "a line of more than %u MiB is left out: is this a trace of cudatrace?",
		 READER_LINE_MAX >> 20);
	do {
		r->pos = r->len;
		if (!fill(r))
			return;
		nl = memchr(r->buf, '\n', r->len);
	} while (!nl);
	r->pos = nl + 1 - r->buf;
}

/* The next line, its newline made a NUL. *whole: it had one. NULL: there are no more. */
static char *next_line(struct reader *r, size_t *len, bool *whole)
{
	size_t seen = 0;
	char *nl, *line;

	for (;;) {
		nl = memchr(r->buf + r->pos + seen, '\n', r->len - r->pos - seen);
		if (nl)
			break;
		seen = r->len - r->pos;
		if (seen >= READER_LINE_MAX) {
			skip_line(r);
			seen = 0;
			continue;
		}
		if (seen == r->cap && grow(r)) {
			r->error = -ENOMEM;
			return NULL;
		}
		if (!fill(r)) {
			if (r->pos == r->len)
				return NULL;
			nl = r->buf + r->len;
			break;
		}
	}
	line = r->buf + r->pos;
	*whole = nl < r->buf + r->len;
	*len = nl - line;
	*nl = 0;
	r->pos = nl - r->buf + *whole;
	r->file->lines++;
	return line;
}

static bool is_blank(const char *line, size_t len)
{
	return !len || strspn(line, " \t\r") == len;
}

static void bad_line(struct reader *r, size_t len, const struct parsed *p, bool whole)
{
	struct saved_file *f = r->file;

	f->bad_lines++;
	if (!whole && f->events) {
		f->cut_line = f->lines;
		complain(r,
			 "the file breaks off in this line: the %" PRIu64
			 " events before it are all there is",
			 f->events);
	} else {
		complain(r, "this is no line of JSON (byte %zu of %zu: %s): it is left out",
			 p->at + 1, len, p->why);
	}
}

static void in_trace(struct reader *r)
{
	const char *note = saved__note(r->saved);

	if (note && ++r->note_cnt <= MESSAGES_MAX)
		info("%s: line %" PRIu64 ": %s", name_of(r), r->file->lines, note);
	r->in_trace = true;
	r->has_end = r->goes_on = false;
}

static int begin(struct reader *r)
{
	in_trace(r);
	r->last_ns = 0;
	return r->ops->begin ? r->ops->begin(r->ctx, saved__info(r->saved)) : 0;
}

static int begin_without_header(struct reader *r)
{
	if (r->in_trace)
		return 0;
	complain(r, "there is no header before this line: times count from 0, and nothing is known "
		    "of the machine");
	if (saved__begin(r->saved))
		return -ENOMEM;
	return begin(r);
}

static void on_event(struct reader *r, const struct trace_event *ev)
{
	r->file->events++;
	if (ev->end_ns + BACKWARDS_NS < r->last_ns && !ev->unfinished) {
		if (!r->backwards_cnt++)
			complain(r,
				 "the time goes back by %.3f s here: the lines are in another "
				 "order than cudatrace wrote them in; what the report says of "
				 "times may be wrong",
				 (r->last_ns - ev->end_ns) / 1e9);
	}
	if (ev->end_ns > r->last_ns)
		r->last_ns = ev->end_ns;
	if (r->ops->event)
		r->ops->event(r->ctx, ev);
}

static void on_line(struct reader *r, const char *line, size_t len, bool whole)
{
	struct trace_event ev;
	struct parsed p;
	unsigned piece;
	const char *why;
	int kind;

	if (r->file->lines == 1 && *line == '[') {
		r->file->bad_lines++;
		complain(r, "this is a JSON array, such as a Chrome trace: report reads what "
			    "cudatrace --jsonl writes");
		r->error = -EINVAL;
		return;
	}
	if (parser__line(r->parser, line, len, &p)) {
		bad_line(r, len, &p, whole);
		return;
	}
	if (r->must_go_on && !saved__continues(r->saved, &p, &piece)) {
		r->error = -ESTALE;
		return;
	}
	r->must_go_on = false;
	kind = saved__line(r->saved, &p, line, &ev, &why);
	/* An event's times need the header's: those of a file that has none are read again. */
	if ((kind == SAVED_EVENT || kind == SAVED_STACK) && !r->in_trace) {
		r->error = begin_without_header(r);
		if (!r->error)
			kind = saved__line(r->saved, &p, line, &ev, &why);
	}
	if (r->error)
		return;
	switch (kind) {
	case SAVED_HEADER:
		r->error = begin(r);
		break;
	case SAVED_MORE:
		/* Files of the daemon have an end each. */
		if (saved__end(r->saved))
			r->error = begin(r);
		else
			in_trace(r);
		break;
	case SAVED_EVENT:
		on_event(r, &ev);
		break;
	case SAVED_END:
		r->has_end = true;
		if (r->ops->end)
			r->ops->end(r->ctx, saved__end(r->saved));
		r->in_trace = false;
		break;
	case SAVED_SPLIT:
		r->has_end = r->goes_on = true;
		r->in_trace = false;
		break;
	case SAVED_STACK:
		break;
	case SAVED_UNKNOWN:
		if (!r->unknown_cnt++)
			complain(r,
				 "a type of event that this cudatrace does not know is left out: "
				 "a newer one wrote it");
		break;
	case -EPROTO:
		err("%s: line %" PRIu64 ": %s", name_of(r), r->file->lines, why);
		r->error = kind;
		break;
	default:
		r->file->bad_lines++;
		complain(r, "%s", why);
	}
}

static void sum_up(struct reader *r)
{
	const struct saved_file *f = r->file;

	if (r->message_cnt > MESSAGES_MAX)
		warn("%s: %u more lines like these", name_of(r), r->message_cnt - MESSAGES_MAX);
	if (r->note_cnt > MESSAGES_MAX)
		info("%s: %u more traces like these", name_of(r), r->note_cnt - MESSAGES_MAX);
	if (r->unknown_cnt > 1)
		warn("%s: %" PRIu64 " events are of types that this cudatrace does not know: they "
		     "are left out",
		     name_of(r), r->unknown_cnt);
	if (r->backwards_cnt > 1)
		warn("%s: the time goes back in %" PRIu64 " lines", name_of(r), r->backwards_cnt);
	if (r->error == -EPROTO || r->error == -ESTALE)
		return;
	if (!f->lines && !r->error)
		err("%s is empty: was the trace written to another file?", name_of(r));
	else if (f->lines && !f->events && !r->has_end && !r->in_trace)
		err("%s: nothing in it is a trace: report reads what cudatrace --jsonl writes",
		    name_of(r));
	else if (r->in_trace && !f->cut_line)
		info("%s: the trace has no end line: it was cut off, or is being written still",
		     name_of(r));
}

int reader__file(struct reader *r, const char *path, struct saved_file *f)
{
	const char *why;
	bool whole;
	size_t len;
	char *line;

	*f = (struct saved_file){.path = path};
	r->path = path;
	r->file = f;
	r->pos = r->len = r->shown = 0;
	r->message_cnt = r->note_cnt = r->error = 0;
	r->unknown_cnt = r->backwards_cnt = r->long_cnt = 0;
	r->has_end = r->in_trace = r->goes_on = false;
	r->in = input__open(path, &why);
	if (!r->in) {
		err("cannot read %s: %s", name_of(r), why);
		return -ENOENT;
	}
	while (!r->error && (line = next_line(r, &len, &whole))) {
		/* Some editors put a byte order mark in front. */
		if (f->lines == 1 && len >= 3 && !memcmp(line, "\xef\xbb\xbf", 3)) {
			line += 3;
			len -= 3;
		}
		if (!is_blank(line, len))
			on_line(r, line, len, whole);
		if (f->bad_lines >= GIVE_UP && !f->events && !r->in_trace)
			break;
	}
	sum_up(r);
	input__close(r->in);
	r->in = NULL;
	if (r->error && r->error != -EIO)
		return r->error;
	return f->events || r->has_end || r->in_trace ? 0 : -EINVAL;
}

/* -ESTALE: it is of another trace. */
static int read_more(struct reader *r, const char *path, struct saved_file *sum)
{
	struct saved_file f;
	int ret;

	r->must_go_on = true;
	ret = reader__file(r, path, &f);
	r->must_go_on = false;
	if (ret == -ESTALE)
		return ret;
	sum->bytes += f.bytes;
	sum->lines += f.lines;
	sum->events += f.events;
	sum->bad_lines += f.bad_lines;
	sum->cut_line = f.cut_line;
	return ret;
}

int reader__pieces(struct reader *r, const char *path, const char *next, struct saved_file *f)
{
	int ret = reader__file(r, path, f);
	char now[PATH_MAX], name[PATH_MAX];

	if (!strcmp(path, "-") || strlen(path) >= sizeof(now))
		return ret;
	strcpy(now, path);
	while (!ret && r->goes_on) {
		if (piece_after(name, sizeof(name), now, saved__piece(r->saved)) ||
		    (next && !strcmp(name, next)))
			break;
		if (access(name, F_OK) || read_more(r, name, f) == -ESTALE) {
			warn("%s: the trace goes on in %s, which is not there or of another trace: "
			     "what follows is missing",
			     now, name);
			break;
		}
		strcpy(now, name);
	}
	return ret;
}
