/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "recorder.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "util/zframe.h"

/* Lines before compression. Large enough for good compression, small enough that a drop loses
 * little: 700 calls. */
#define CHUNK_SZ   (256 << 10)
#define FRAME_ROOM ZFRAME_ROOM(CHUNK_SZ)

/* The members of struct trace_end that line__count() counts. */
struct sums {
	uint32_t type_cnt[TYPE_CNT];
	uint32_t event_cnt, call_cnt, unfinished_cnt, abandoned_cnt;
};

struct chunk {
	struct chunk *next;
	struct sums sums;
	uint64_t first_ns, last_ns, lines;
	size_t len;
	char data[]; /* one zstd frame */
};

struct recorder {
	uint64_t keep_ns, memory;
	struct recorder_stats s;
	struct zframe *frame;
	struct chunk *oldest, **end;
	size_t len;
	uint64_t lines, first_ns, last_ns;
	char open[CHUNK_SZ];	    /* lines that are not yet compressed */
	struct trace_end open_sums; /* of these */
	char scratch[FRAME_ROOM];
};

struct recorder *recorder__new(uint64_t keep_ns, uint64_t memory)
{
	struct recorder *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	r->keep_ns = keep_ns;
	r->memory = memory;
	r->end = &r->oldest;
	r->s.bytes = sizeof(*r);
	r->frame = zframe__new();
	if (!r->frame) {
		free(r);
		return NULL;
	}
	return r;
}

static void drop_oldest(struct recorder *r)
{
	struct chunk *c = r->oldest;

	r->oldest = c->next;
	if (!r->oldest)
		r->end = &r->oldest;
	r->s.lines -= c->lines;
	r->s.bytes -= sizeof(*c) + c->len;
	free(c);
}

static void forget(struct recorder *r, uint64_t now_ns)
{
	while (r->oldest && now_ns > r->keep_ns && r->oldest->last_ns < now_ns - r->keep_ns)
		drop_oldest(r);
	while (r->oldest && r->s.bytes > r->memory) {
		r->s.cut += r->oldest->lines;
		drop_oldest(r);
	}
}

static void keep(struct recorder *r, const char *frame, size_t len, struct chunk about)
{
	struct chunk *c = len ? malloc(sizeof(*c) + len) : NULL;

	if (!c) {
		r->s.cut += about.lines;
		r->s.lines -= about.lines;
		return;
	}
	*c = about;
	c->len = len;
	memcpy(c->data, frame, len);
	*r->end = c;
	r->end = &c->next;
	r->s.bytes += sizeof(*c) + len;
}

static struct sums sums_of(const struct trace_end *end)
{
	struct sums s = {
		.event_cnt = end->event_cnt,
		.call_cnt = end->call_cnt,
		.unfinished_cnt = end->stats[CT_STAT_UNFINISHED],
		.abandoned_cnt = end->stats[CT_STAT_ABANDONED],
	};

	for (unsigned i = 0; i < TYPE_CNT; i++)
		s.type_cnt[i] = end->type_cnt[i];
	return s;
}

static void seal(struct recorder *r)
{
	size_t len;

	if (!r->len)
		return;
	len = zframe__make(r->frame, r->open, r->len, r->scratch, FRAME_ROOM);
	keep(r, r->scratch, len,
	     (struct chunk){.first_ns = r->first_ns,
			    .last_ns = r->last_ns,
			    .lines = r->lines,
			    .sums = sums_of(&r->open_sums)});
	r->len = 0;
	r->lines = 0;
	r->open_sums = (struct trace_end){0};
}

void recorder__frame(struct recorder *r, const char *frame, size_t len, uint64_t lines,
		     const struct trace_end *sums, uint64_t now_ns)
{
	seal(r);
	r->s.lines += lines;
	keep(r, frame, len,
	     (struct chunk){
		     .first_ns = now_ns, .last_ns = now_ns, .lines = lines, .sums = sums_of(sums)});
	forget(r, now_ns);
}

void recorder__line(struct recorder *r, const struct line *line, uint64_t now_ns)
{
	if (line->len > sizeof(r->open)) {
		r->s.cut++;
		return;
	}
	if (r->len + line->len > sizeof(r->open))
		seal(r);
	if (!r->len)
		r->first_ns = now_ns;
	memcpy(r->open + r->len, line->text, line->len);
	r->len += line->len;
	line__count(line, &r->open_sums);
	r->last_ns = now_ns;
	r->lines++;
	r->s.lines++;
	forget(r, now_ns);
}

void recorder__count(const struct recorder *r, struct trace_end *end)
{
	line__count_all(&r->open_sums, end);
	for (const struct chunk *c = r->oldest; c; c = c->next) {
		end->event_cnt += c->sums.event_cnt;
		end->call_cnt += c->sums.call_cnt;
		end->stats[CT_STAT_ENTRIES] += c->sums.call_cnt;
		end->stats[CT_STAT_UNFINISHED] += c->sums.unfinished_cnt;
		end->stats[CT_STAT_ABANDONED] += c->sums.abandoned_cnt;
		for (unsigned i = 0; i < TYPE_CNT; i++)
			end->type_cnt[i] += c->sums.type_cnt[i];
	}
}

void recorder__stats(const struct recorder *r, struct recorder_stats *s)
{
	*s = r->s;
	s->oldest_ns = r->oldest ? r->oldest->first_ns : r->len ? r->first_ns : 0;
}

static int put(int fd, const char *p, size_t len)
{
	while (len) {
		ssize_t n = write(fd, p, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n ? -errno : -ENOSPC;
		p += n;
		len -= n;
	}
	return 0;
}

static int put_frame(struct recorder *r, int fd, const char *data, size_t len)
{
	if (!len)
		return 0;
	len = zframe__make(r->frame, data, len, r->scratch, FRAME_ROOM);
	return len ? put(fd, r->scratch, len) : -E2BIG;
}

int recorder__dump(struct recorder *r, int fd, const char *first, size_t first_len,
		   const char *last, size_t last_len)
{
	int ret;

	ret = put_frame(r, fd, first, first_len);
	for (const struct chunk *c = r->oldest; c && !ret; c = c->next)
		ret = put(fd, c->data, c->len);
	return ret ?: put_frame(r, fd, r->open, r->len) ?: put_frame(r, fd, last, last_len);
}

void recorder__free(struct recorder *r)
{
	if (!r)
		return;
	while (r->oldest)
		drop_oldest(r);
	zframe__free(r->frame);
	free(r);
}
