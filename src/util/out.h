/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Buffered output in units that are written whole or not at all. A unit is one line, which ends
 * with a newline and holds no other, unless unit_len says what one is. When a write fails (full
 * disk, closed pipe), the file is cut back to the last whole unit and nothing more is written: what
 * is there stays valid.
 *
 * A pipe, a socket or a terminal whose reader does not read never holds us up for more than a
 * moment: the buffer grows to a bound, then whole lines are left out and counted, until the reader
 * goes on.
 */
#ifndef UTIL_OUT_H
#define UTIL_OUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct out {
	char *buf;
	size_t len, cap; /* bytes in the buffer, its size */
	size_t mark;	 /* end of the last whole unit in the buffer */
	int fd;
	bool is_file; /* a regular file: can be cut */
	bool failed;
	bool finished; /* out__finish() was called: nothing is waited for again */
	bool stuck;    /* the reader has taken nothing for a while */
	bool last;     /* the closing lines are made: none is left out */
	bool held;     /* nothing is written: the buffer grows */
	bool named;    /* a file that was opened by its name */
	bool had_link; /* it had a name when it was opened */
	bool has_size; /* and its size says what was written */
	int error;     /* errno of the first failure: reported then, and never again */
	char *name;
	const char *gone; /* what another program did to the file, or NULL; then it failed, too */
	uint64_t end;	  /* where in the file the last write ended: it is no shorter */
	uint64_t written; /* bytes of whole units in the file */
	uint64_t lost;	  /* units that were committed and not written, and never will be */
	/* The file ends in so many bytes, whole lines, that are cut after the next flush. */
	uint64_t stale, stale_lines;
	/* Units that are no lines: the length of the one at p, of which n bytes are there; 0: they
	 * are too few to say. NULL: lines. Set before anything is put. */
	size_t (*unit_len)(const char *p, size_t n);
	size_t begun; /* the buffer begins with so many bytes of a unit that is partly out */
	uint64_t boundary[2]; /* where in the file units begin, the older one first */
};

/* Creates or truncates path; "-" is stdout. Reports its own errors (what to do). NULL on error. */
struct out *out__open(const char *path);
/* A file that is not failed and has nothing in its buffer goes on in fd, another one, which is
 * empty. */
void out__next(struct out *o, int fd, const char *name);
/* There is no other, called name: says so, and nothing more is written. */
void out__no_next(struct out *o, const char *name, int e);
/* In memory only: fd -1, the buffer grows. */
struct out *out__memory(void);
/* Nothing more will be put: gives back what the buffer has too much. */
void out__fit(struct out *o);
/* Ends the unit; everything since the last one is now part of the file's valid content. */
void out__commit(struct out *o);
/* Forgets what was put since the last commit. */
void out__rollback(struct out *o);
/* Puts all of from, which is in memory and whole units, behind what is there, and writes it. */
void out__write_all_of(struct out *o, struct out *from);
/* Writes whole units; what a stuck reader does not take stays in the buffer. */
void out__flush(struct out *o);
/* After a failure: cut whole lines from the end of the file until n bytes fit, so that closing
 * lines can be written into blocks that the file has already. The first line stays. Returns how
 * many lines were cut, or -errno; writing is possible again then, and whatever was in the buffer is
 * gone. */
long out__make_room(struct out *o, size_t n);
/* Something waits for the reader: flush when poll() says that fd can be written. */
static inline bool out__waits(const struct out *o)
{
	return !o->is_file && o->fd >= 0 && o->mark && !o->failed;
}

/* Fails when another program has deleted or truncated the file, and says so; at_end: also when it
 * has moved or replaced it. Each write and out__finish() do that, too. */
void out__check(struct out *o, bool at_end);
/* Why something is not written; NULL: everything was. */
const char *out__why(const struct out *o);

/* How long out__close() waits for a reader that takes nothing: ms, -1 without end, and not after
 * signal_fd (or -1) can be read. For all outputs. */
void out__set_write_timeout(int signal_fd, int ms);
/* Nothing more will be put: flushes, and waits for the reader. o->lost is final then. */
void out__finish(struct out *o);
/* Finishes, closes, frees. -errno when anything was not written. */
int out__close(struct out *o);

/* Room for n more bytes (flushes or grows); returns where to write. Never NULL. */
char *out__room(struct out *o, size_t n);

static inline char *out_reserve(struct out *o, size_t n)
{
	return o->cap - o->len >= n ? o->buf + o->len : out__room(o, n);
}

static inline void out_bytes(struct out *o, const char *s, size_t n)
{
	memcpy(out_reserve(o, n), s, n);
	o->len += n;
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
/* Shortest of %.6g; null for what JSON has no word for. */
void out_f64(struct out *o, double x);
/* A JSON string with its quotes. Any bytes: what is no UTF-8 becomes U+FFFD; what a terminal would
 * obey (plain.h) is escaped. */
void out_json_str(struct out *o, const char *s, size_t len);

#endif /* UTIL_OUT_H */
