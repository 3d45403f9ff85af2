/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "recorder.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zstd.h>

/* Lines before compression. Large enough for good compression, small enough that what is dropped at
 * once is little: 700 calls. */
#define CHUNK_SZ   (256 << 10)
#define ZSTD_LEVEL 1

struct chunk {
	struct chunk *next;
	uint64_t first_ns, last_ns, lines;
	size_t len;
	char data[]; /* one zstd frame */
};

struct recorder {
	uint64_t keep_ns, memory;
	struct recorder_stats s;
	ZSTD_CCtx *zstd;
	struct chunk *oldest, **end;
	size_t len;
	uint64_t lines, first_ns, last_ns;
	char open[CHUNK_SZ]; /* lines that are not compressed yet */
	char scratch[];	     /* ZSTD_COMPRESSBOUND(CHUNK_SZ) */
};

struct recorder *recorder__new(uint64_t keep_ns, uint64_t memory)
{
	struct recorder *r = calloc(1, sizeof(*r) + ZSTD_compressBound(CHUNK_SZ));

	if (!r)
		return NULL;
	r->keep_ns = keep_ns;
	r->memory = memory;
	r->end = &r->oldest;
	r->s.bytes = sizeof(*r) + ZSTD_compressBound(CHUNK_SZ);
	r->zstd = ZSTD_createCCtx();
	if (!r->zstd) {
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

/* A frame of its own in scratch. */
static size_t compress(struct recorder *r, const char *data, size_t len)
{
	size_t n = ZSTD_compressCCtx(r->zstd, r->scratch, ZSTD_compressBound(CHUNK_SZ), data, len,
				     ZSTD_LEVEL);

	return ZSTD_isError(n) ? 0 : n;
}

static void seal(struct recorder *r)
{
	size_t len = compress(r, r->open, r->len);
	struct chunk *c = len ? malloc(sizeof(*c) + len) : NULL;

	if (c) {
		*c = (struct chunk){.first_ns = r->first_ns,
				    .last_ns = r->last_ns,
				    .lines = r->lines,
				    .len = len};
		memcpy(c->data, r->scratch, len);
		*r->end = c;
		r->end = &c->next;
		r->s.bytes += sizeof(*c) + len;
	} else {
		r->s.cut += r->lines;
		r->s.lines -= r->lines;
	}
	r->len = 0;
	r->lines = 0;
}

void recorder__line(struct recorder *r, const char *line, size_t len, uint64_t now_ns)
{
	if (len > sizeof(r->open)) {
		r->s.cut++;
		return;
	}
	if (r->len + len > sizeof(r->open))
		seal(r);
	if (!r->len)
		r->first_ns = now_ns;
	memcpy(r->open + r->len, line, len);
	r->len += len;
	r->last_ns = now_ns;
	r->lines++;
	r->s.lines++;
	forget(r, now_ns);
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
	return len ? put(fd, r->scratch, compress(r, data, len)) : 0;
}

int recorder__dump(struct recorder *r, int fd, const char *first, size_t first_len,
		   const char *last, size_t last_len)
{
	int ret;

	if (first_len > CHUNK_SZ || last_len > CHUNK_SZ)
		return -EINVAL;
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
	ZSTD_freeCCtx(r->zstd);
	free(r);
}
