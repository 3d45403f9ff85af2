/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "lines.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "foreign.h"
#include "input.h"
#include "parse.h"
#include "util/log.h"
#include "util/plural.h"

#define BUF_SZ (1u << 20)
/* Of each of many files. */
#define BUF_SZ_MANY    (64u << 10)
#define MANY_FILES     32
#define PROGRESS_BYTES (16u << 20)

/* Messages printed per file; further ones are only counted. */
#define MESSAGES_MAX 5
/* Bytes of too long lines that are skipped in a file: a sparse or packed file may have terabytes.
 */
#define SKIPPED_MAX (64u << 20)

int lines__open(struct lines *l, struct lines_all *all, const char *path, struct saved_file *f)
{
	const char *why;

	*f = (struct saved_file){.path = path};
	*l = (struct lines){.all = all, .path = path, .file = f, .cap = BUF_SZ};
	if (all->file_cnt > MANY_FILES)
		l->cap = BUF_SZ_MANY;
	l->in = input__open(path, all->many, &why);
	if (!l->in) {
		err("cannot read %s: %s", lines__name(l), why);
		return -ENOENT;
	}
	l->buf = calloc(1, l->cap + PARSE_SLACK);
	if (!l->buf) {
		err("out of memory: close other programs");
		lines__close(l);
		return -ENOMEM;
	}
	all->bytes += l->cap;
	return 0;
}

void lines__close(struct lines *l)
{
	input__close(l->in);
	if (l->buf)
		l->all->bytes -= l->cap;
	free(l->buf);
	l->in = NULL;
	l->buf = NULL;
}

const char *lines__name(const struct lines *l)
{
	return strcmp(l->path, "-") ? l->path : "stdin";
}

void lines__complain(struct lines *l, const char *fmt, ...)
{
	char text[512];
	va_list ap;

	if (++l->message_cnt > MESSAGES_MAX)
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	warn("%s:%" PRIu64 ": %s", lines__name(l), l->number, text);
}

void lines__note(struct lines *l, const char *text)
{
	if (++l->note_cnt <= MESSAGES_MAX)
		info("%s: line %" PRIu64 ": %s", lines__name(l), l->number, text);
}

void lines__be_quiet(struct lines *l)
{
	l->message_cnt = l->note_cnt = MESSAGES_MAX;
	l->is_quiet = true;
}

void lines__sum_up(const struct lines *l)
{
	if (l->message_cnt > MESSAGES_MAX)
		warn("%s: %u more such %s", lines__name(l), l->message_cnt - MESSAGES_MAX,
		     noun(l->message_cnt - MESSAGES_MAX, "line", "lines"));
	if (l->note_cnt > MESSAGES_MAX)
		info("%s: %u more such %s", lines__name(l), l->note_cnt - MESSAGES_MAX,
		     noun(l->note_cnt - MESSAGES_MAX, "trace", "traces"));
	if (l->unknown_cnt > 1)
		warn("%s: %" PRIu64
		     " events have types that are unknown to this version of cudatrace: "
		     "they are skipped",
		     lines__name(l), l->unknown_cnt);
	if (l->backwards_cnt > 1)
		warn("%s: %" PRIu64 " lines are too far from their position", lines__name(l),
		     l->backwards_cnt);
}

static bool may_grow(const struct lines *l)
{
	return l->cap < READER_LINE_MAX && l->all->bytes + l->cap <= LINES_BYTES_MAX;
}

static int grow(struct lines *l)
{
	size_t cap = l->cap * 2;
	char *grown = realloc(l->buf, cap + PARSE_SLACK);

	if (!grown)
		return -ENOMEM;
	memset(grown + l->cap, 0, cap - l->cap + PARSE_SLACK);
	l->buf = grown;
	l->all->bytes += l->cap;
	l->cap = cap;
	return 0;
}

/* Appends bytes of the file to the buffer. Returns 0 at the end of the file. */
static ssize_t fill(struct lines *l)
{
	const struct reader_ops *ops = l->all->ops;
	const char *why;
	ssize_t n;

	if (l->error)
		return 0;
	if (l->pos) {
		memmove(l->buf, l->buf + l->pos, l->len - l->pos);
		l->len -= l->pos;
		l->pos = 0;
	}
	why = l->held;
	n = why ? -1 : input__read(l->in, l->buf + l->len, l->cap - l->len, &why);
	if (n < 0 && !l->looked_at) {
		/* The bytes before the error are handled first. */
		l->held = why;
		return 0;
	}
	if (n < 0) {
		if (!l->is_quiet)
			warn("%s: line %" PRIu64 ": %s: the rest of the file is not read",
			     lines__name(l), l->file->lines + 1, why);
		l->error = -EIO;
		return 0;
	}
	l->len += n;
	l->file->bytes += n;
	if (ops->progress && l->file->bytes - l->shown >= PROGRESS_BYTES) {
		l->shown = l->file->bytes;
		ops->progress(l->all->ctx, l->path, input__pos(l->in), input__size(l->in));
	}
	return n;
}

/* Skips the rest of a line that is longer than the buffer. */
static void skip_line(struct lines *l)
{
	char *nl;

	l->number = ++l->file->lines;
	l->file->bad_lines++;
	lines__complain(l, "a line of more than %zu MiB is skipped: is this a cudatrace trace?",
			l->cap >> 20);
	do {
		l->skipped += l->len - l->pos;
		l->pos = l->len;
		if (l->skipped > SKIPPED_MAX && !l->error) {
			if (!l->is_quiet)
				warn("%s: line %" PRIu64 ": more than %u MiB are in such lines: "
				     "the rest of the file is not read",
				     lines__name(l), l->number, SKIPPED_MAX >> 20);
			l->error = -EIO;
		}
		if (!fill(l))
			return;
		nl = memchr(l->buf, '\n', l->len);
	} while (!nl);
	l->pos = nl + 1 - l->buf;
}

void lines__again(struct lines *l)
{
	l->again = true;
}

/* Detects a file that is not a trace, and prints what it is. */
static bool is_foreign(struct lines *l)
{
	char text[PATH_MAX + 256];

	while (l->len < FOREIGN_PEEK && fill(l))
		;
	l->looked_at = true;
	if (!foreign__find(l->path, l->buf, l->len, text, sizeof(text)))
		return false;
	err("cannot read %s: %s", lines__name(l), text);
	l->error = -EPROTO;
	return true;
}

char *lines__next(struct lines *l, size_t *len, bool *whole)
{
	size_t seen = 0;
	char *nl;

	if (!l->looked_at && is_foreign(l))
		return NULL;
	while (!l->again) {
		nl = memchr(l->buf + l->pos + seen, '\n', l->len - l->pos - seen);
		if (!nl) {
			seen = l->len - l->pos;
			if (seen == l->cap && !may_grow(l)) {
				skip_line(l);
				seen = 0;
				continue;
			}
			if (seen == l->cap && grow(l)) {
				l->error = -ENOMEM;
				return NULL;
			}
			if (fill(l))
				continue;
			if (l->pos == l->len)
				return NULL;
			nl = l->buf + l->len;
		}
		l->line = l->buf + l->pos;
		l->line_whole = nl < l->buf + l->len;
		l->line_len = nl - l->line;
		*nl = 0;
		l->pos = nl - l->buf + l->line_whole;
		l->number = ++l->file->lines;
		/* Some editors write a byte order mark first. */
		if (l->file->lines == 1 && l->line_len >= 3 &&
		    !memcmp(l->line, "\xef\xbb\xbf", 3)) {
			l->line += 3;
			l->line_len -= 3;
		}
		break;
	}
	l->again = false;
	*len = l->line_len;
	*whole = l->line_whole;
	return l->line;
}
