/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Buffered output in units that are written whole or not at all. A unit is one line, which ends
 * with the only newline in it, unless unit_len defines another unit. When a write fails (full disk,
 * closed pipe), the file is cut back to the last whole unit and nothing more is written: the file
 * stays valid.
 *
 * A pipe, a socket or a terminal whose reader does not read delays us only for a moment: the buffer
 * grows up to a limit, then whole lines are dropped and counted until the reader continues.
 */
#ifndef UTIL_OUT_H
#define UTIL_OUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct out {
	char *buf;
	size_t len, cap; /* used and allocated bytes of the buffer */
	size_t mark;	 /* end of the last whole unit in the buffer */
	int fd;
	bool is_file; /* a regular file: can be truncated */
	bool failed;
	bool finished;	 /* out__finish() was called: no more waiting */
	bool stuck;	 /* the reader has read nothing for a while */
	bool last;	 /* closing lines follow: none is dropped */
	bool held;	 /* nothing is written: the buffer grows */
	bool named;	 /* a file that was opened by name */
	bool is_checked; /* in memory: its user checks `failed`, and relies on no offset before */
	bool had_link;	 /* it had a directory entry when it was opened */
	bool has_size;	 /* its size reflects what was written */
	int error;	 /* errno of the first failure, which alone is reported */
	char *name;
	const char *
		external_change; /* what another program did to the file, or NULL; implies failed */
	uint64_t end;	  /* file offset after the last write: the file is at least this long */
	uint64_t written; /* bytes of whole units in the file */
	uint64_t lost;	  /* committed units that were not written and never will be */
	/* Bytes and lines at the end of the file that are cut after the next flush. */
	uint64_t stale, stale_lines;
	/* For units other than lines: the length of the unit at p, of which n bytes are available;
	 * 0: too few bytes. NULL: units are lines. To be set before anything is put. */
	size_t (*unit_len)(const char *p, size_t n);
	size_t begun; /* bytes at the start of the buffer of a unit that is partly written */
	uint64_t boundary[2]; /* file offsets of unit starts, the older first */
};

/* Creates or truncates path; "-" is stdout. Reports errors itself. Returns NULL on error. */
struct out *out__open(const char *path);
/* Continues in fd, another, empty file. The output must not have failed, and its buffer must be
 * empty. */
void out__next(struct out *o, int fd, const char *name);
/* Reports that the next file, called name, cannot be opened; nothing more is written. */
void out__no_next(struct out *o, const char *name, int e);
/* An output in memory: fd is -1, and the buffer grows. Returns NULL without memory. */
struct out *out__memory(void);
/* Shrinks the buffer to its content, when nothing more will be put. */
void out__fit(struct out *o);
/* Ends the unit: everything since the last one becomes valid content. */
void out__commit(struct out *o);
/* Discards what was put since the last commit. */
void out__rollback(struct out *o);
/* Appends all of from, an output in memory with whole units, and writes it. */
void out__write_all_of(struct out *o, struct out *from);
/* Writes whole units; what a stuck reader does not take stays in the buffer. */
void out__flush(struct out *o);
/* After a failure: cuts whole lines from the end of the file until n bytes fit, so that closing
 * lines can be written into blocks that the file has already. Keeps the first line. Returns the
 * number of lines cut, or -errno. Writing is possible again then, and the buffer is empty. */
long out__make_room(struct out *o, size_t n);
/* Returns whether data waits for the reader: flush when poll() reports fd writable. */
static inline bool out__waits(const struct out *o)
{
	return !o->is_file && o->fd >= 0 && o->mark && !o->failed;
}

/* Fails, with a message, when another program has deleted or truncated the file; at_end: also when
 * it has moved or replaced it. Each write and out__finish() check this too. */
void out__check(struct out *o, bool at_end);
/* Why something was not written: the error, or OUT_READER_SLOW; NULL: everything was. */
#define OUT_READER_SLOW "the reader was too slow"
const char *out__why(const struct out *o);

/* Sets how long out__close() waits for a reader that reads nothing, in ms (-1: no limit). It also
 * stops waiting when signal_fd (-1: none) becomes readable. For all outputs. */
void out__set_write_timeout(int signal_fd, int ms);
/* Flushes, and waits for the reader, when nothing more will be put. o->lost is final then. */
void out__finish(struct out *o);
/* Finishes, closes and frees. Returns -errno when anything was not written. */
int out__close(struct out *o);

/* Makes room for n more bytes (flushes or grows) and returns where to write. Never NULL. Without
 * memory for a unit the output fails, with a message: the unit is dropped, and len is less than
 * before. The process ends if n bytes alone do not fit, or if an output in memory is not
 * is_checked. */
char *out__room(struct out *o, size_t n);

static inline char *out_reserve(struct out *o, size_t n)
{
	return o->cap - o->len >= n ? o->buf + o->len : out__room(o, n);
}

/* out_bytes() without enough space in the buffer. */
void out__bytes(struct out *o, const char *s, size_t n);

static inline void out_bytes(struct out *o, const char *s, size_t n)
{
	if (o->cap - o->len < n) {
		out__bytes(o, s, n);
		return;
	}
	memcpy(o->buf + o->len, s, n);
	o->len += n;
}

/* The bytes since the offset at of this unit; 0 if the output failed meanwhile. */
static inline size_t out_since(const struct out *o, size_t at)
{
	return o->len > at ? o->len - at : 0;
}

static inline void out_char(struct out *o, char c)
{
	*out_reserve(o, 1) = c;
	o->len++;
}

/* String constants. */
#define out_lit(o, s) out_bytes(o, s, sizeof(s) - 1)

void out_str(struct out *o, const char *s);
/* Decimal, and hexadecimal with 0x. */
void out_u64(struct out *o, uint64_t x);
void out_hex(struct out *o, uint64_t x);
/* x / 1000 with three decimals: nanoseconds as microseconds. */
void out_milli(struct out *o, uint64_t x);
/* Shortest form of %.6g; null for values that JSON cannot represent. */
void out_f64(struct out *o, double x);
/* A JSON string with its quotes, from any bytes: invalid UTF-8 becomes U+FFFD, and what a terminal
 * would interpret (plain.h) is escaped. */
void out_json_str(struct out *o, const char *s, size_t len);

#endif /* UTIL_OUT_H */
