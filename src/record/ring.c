/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Reads the rings itself, because libbpf's reader empties one ring after the other and records are
 * needed in order of time. Their layout is part of the kernel's user API (kernel/bpf/ringbuf.c,
 * since 5.8): a page with the consumer's position, a page with the producer's, the data twice. Each
 * record follows a header of 8 bytes whose first 4 are its length and two flags.
 */
#include "ring_priv.h"

#include "ct_nv.h"

#include "util/clock.h"
#include "util/log.h"

#include <errno.h>
#include <limits.h>
#include <linux/bpf.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <unistd.h>

#define HEADER_SZ     8
#define CACHE_LINE_SZ 64
/* Space for two records of calls without pointees and stack, and the next one's header. */
#define AHEAD_SZ 512
/* No record is longer than a page. */
#define RECORD_SZ_MAX 4096
/* A record is incomplete while a program copies it, for less than a microsecond, unless that
 * program was preempted. Other rings wait at most this long. */
#define BUSY_MAX_NS 10000000ull

#define NONE UINT64_MAX

/* A tree entry: a ring's oldest record. */
struct entry {
	uint64_t key;  /* NONE: no more records */
	unsigned leaf; /* EMPTY: not set yet */
};
#define EMPTY UINT_MAX

struct ring {
	struct ring_part *parts;
	unsigned cnt;
	/* Rings that had a record at the last check are the leaves of a tree of losers (Knuth,
	 * 5.4.1). first is the oldest record; losers[1] lost to it last. The order of rings is
	 * practically random, so the way up has no branch that depends on it. */
	struct ring_part **leaves;
	struct entry first, *losers;
	unsigned leaf_cnt;
	size_t part_sz;
	int epoll_fd;
	ring_fn fn;
	void *ctx;
	bool was_full;
};

struct ring *ring__new(unsigned max_parts, size_t size, ring_fn fn, void *ctx)
{
	struct ring *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	r->parts = calloc(max_parts, sizeof(*r->parts));
	r->leaves = calloc(max_parts, sizeof(*r->leaves));
	r->losers = calloc(max_parts, sizeof(*r->losers));
	r->first.key = NONE;
	r->epoll_fd = -1;
	r->part_sz = size;
	r->fn = fn;
	r->ctx = ctx;
	if (r->parts && r->leaves && r->losers)
		return r;
	ring__free(r);
	return NULL;
}

void ring__add(struct ring *r, unsigned long *consumer, const unsigned long *producer,
	       const uint8_t *data)
{
	struct ring_part *p = &r->parts[r->cnt++];

	p->consumer = consumer;
	p->producer = producer;
	p->data = data;
	p->pos = p->released = *consumer;
}

static int map_part(struct ring *r, int fd)
{
	size_t page = sysconf(_SC_PAGESIZE), size = page + 2 * r->part_sz;
	/* Edge-triggered; otherwise it is readable as soon as one record waits. */
	struct epoll_event ev = {.events = EPOLLIN | EPOLLET};
	uint8_t *producer;
	void *consumer = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (consumer == MAP_FAILED)
		return -errno;
	producer = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, page);
	if (producer == MAP_FAILED) {
		int ret = -errno;

		munmap(consumer, page);
		return ret;
	}
	/* The command's process does not need these mappings, and copying the page tables takes
	 * milliseconds. */
	madvise(producer, size, MADV_DONTFORK);
	ring__add(r, consumer, (void *)producer, producer + page);
	return epoll_ctl(r->epoll_fd, EPOLL_CTL_ADD, fd, &ev) ? -errno : 0;
}

struct ring *ring__open(const int *map_fds, unsigned cnt, size_t size, ring_fn fn, void *ctx)
{
	struct ring *r = ring__new(cnt, size, fn, ctx);
	int ret = 0;

	if (!r) {
		err("out of memory");
		return NULL;
	}
	r->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (r->epoll_fd < 0)
		ret = -errno;
	for (unsigned i = 0; i < cnt && !ret; i++)
		ret = map_part(r, map_fds[i]);
	if (!ret)
		return r;
	err("cannot map the ring buffers: %s: try a smaller --buffer-size", strerror(-ret));
	ring__free(r);
	return NULL;
}

void ring__free(struct ring *r)
{
	size_t page = sysconf(_SC_PAGESIZE);

	if (!r)
		return;
	/* Tests map their own parts. */
	for (unsigned i = 0; i < r->cnt && r->epoll_fd >= 0; i++) {
		munmap(r->parts[i].consumer, page);
		munmap((void *)r->parts[i].producer, page + 2 * r->part_sz);
	}
	if (r->epoll_fd >= 0)
		close(r->epoll_fd);
	free(r->parts);
	free(r->leaves);
	free(r->losers);
	free(r);
}

int ring__fd(const struct ring *r)
{
	return r->epoll_fd;
}

void ring__woken(const struct ring *r)
{
	struct epoll_event evs[64];

	epoll_wait(r->epoll_fd, evs, sizeof(evs) / sizeof(evs[0]), 0);
}

bool ring__was_full(struct ring *r)
{
	bool was = r->was_full;

	r->was_full = false;
	return was;
}

/* The time at which it was sent. Records too short to have one are rejected later
 * (record/check.h). */
static uint64_t sent_ns(const void *data, size_t size)
{
	const struct ct_rec *rec = data;

	if (size < sizeof(*rec))
		return 0;
	if (rec->kind == CT_REC_CALL && size >= CT_CALL_FIXED_SZ)
		return ((const struct ct_call *)data)->end_ns;
	if (rec->kind == CT_REC_NV && size >= sizeof(struct ct_nv))
		return ((const struct ct_nv *)data)->end_ns;
	return rec->ts_ns;
}

/* Prefetches data written by another processor, up to the position found. Beyond it that processor
 * is still writing. */
static inline void fetch(struct ring_part *p, const uint8_t *at)
{
	unsigned long pos = p->fetched > p->pos ? p->fetched : p->pos;
	unsigned long end = p->pos + AHEAD_SZ < p->head ? p->pos + AHEAD_SZ : p->head;

	for (; pos < end; pos += CACHE_LINE_SZ)
		__builtin_prefetch(at + (pos - p->pos));
	p->fetched = pos;
}

enum peek { LOOK_EMPTY, LOOK_BUSY, LOOK_RECORD };

static enum peek look(const struct ring *r, struct ring_part *p)
{
	while (p->pos < p->head) {
		const uint8_t *at = p->data + (p->pos & (r->part_sz - 1));
		uint32_t len = __atomic_load_n((const uint32_t *)at, __ATOMIC_ACQUIRE);

		if (len & BPF_RINGBUF_BUSY_BIT)
			return LOOK_BUSY;
		p->busy_since_ns = 0;
		p->rec = at + HEADER_SZ;
		p->size = len & ~BPF_RINGBUF_DISCARD_BIT;
		if (!(len & BPF_RINGBUF_DISCARD_BIT)) {
			p->key = sent_ns(p->rec, p->size);
			p->key -= p->key == NONE;
			fetch(p, at);
			return LOOK_RECORD;
		}
		p->pos += (HEADER_SZ + p->size + 7) & ~7ul;
	}
	return LOOK_EMPTY;
}

/* Returns the older of the two; the other stays at *b. Swaps by bit operations, because gcc would
 * compile conditions to branches. */
static inline struct entry play(struct entry a, struct entry *b)
{
	uint64_t lost = -(uint64_t)(b->key < a.key), key = (a.key ^ b->key) & lost;
	unsigned leaf = (a.leaf ^ b->leaf) & (unsigned)lost;

	b->key ^= key;
	b->leaf ^= leaf;
	return (struct entry){a.key ^ key, a.leaf ^ leaf};
}

/* e is the next record of its leaf. Returns the new first entry. */
static inline struct entry replay(const struct ring *r, struct entry e)
{
	for (unsigned k = (r->leaf_cnt + e.leaf) / 2; k; k /= 2)
		e = play(e, &r->losers[k]);
	return e;
}

/* At each node, the first to arrive waits for the other. */
static void play_all(struct ring *r)
{
	for (unsigned k = 1; k < r->leaf_cnt; k++)
		r->losers[k].leaf = EMPTY;
	r->first.key = NONE;
	for (unsigned i = 0; i < r->leaf_cnt; i++) {
		struct entry e = {r->leaves[i]->key, i};
		unsigned k = (r->leaf_cnt + i) / 2;

		for (; k && r->losers[k].leaf != EMPTY; k /= 2)
			e = play(e, &r->losers[k]);
		*(k ? &r->losers[k] : &r->first) = e;
	}
}

/* Frees the space. Called once for many records, because the programs read this position for every
 * record. */
static void release(struct ring_part *p)
{
	if (p->released == p->pos)
		return;
	__atomic_store_n(p->consumer, p->pos, __ATOMIC_RELEASE);
	p->released = p->pos;
}

/* Returns whether other rings must wait for this incomplete record: later records in its ring may
 * have caused some of theirs. */
static bool holds_up(struct ring_part *p)
{
	uint64_t now = now_ns();

	if (!p->busy_since_ns)
		p->busy_since_ns = now;
	return now - p->busy_since_ns < BUSY_MAX_NS;
}

bool ring__look(struct ring *r)
{
	bool whole = true;

	r->leaf_cnt = 0;
	for (unsigned i = 0; i < r->cnt; i++) {
		struct ring_part *p = &r->parts[i];
		enum peek found;

		p->head = __atomic_load_n(p->producer, __ATOMIC_ACQUIRE);
		if (p->head - p->released + RECORD_SZ_MAX > r->part_sz)
			r->was_full = true;
		found = look(r, p);
		if (found == LOOK_RECORD)
			r->leaves[r->leaf_cnt++] = p;
		else if (found == LOOK_BUSY && holds_up(p))
			whole = false;
	}
	play_all(r);
	return whole;
}

uint64_t ring__next_ns(const struct ring *r)
{
	return r->first.key;
}

size_t ring__take(struct ring *r, size_t max, uint64_t until)
{
	struct entry first = r->first;
	size_t cnt = 0;

	while (first.key != NONE && first.key <= until && cnt < max) {
		struct ring_part *p = r->leaves[first.leaf];
		enum peek found;

		r->fn(r->ctx, p->rec, p->size);
		cnt++;
		p->pos += (HEADER_SZ + p->size + 7) & ~7ul;
		if (p->pos - p->released >= r->part_sz / 8)
			release(p);
		found = look(r, p);
		if (found == LOOK_BUSY && holds_up(p))
			break;
		first.key = found == LOOK_RECORD ? p->key : NONE;
		first = replay(r, first);
	}
	r->first = first;
	for (unsigned i = 0; i < r->cnt; i++)
		release(&r->parts[i]);
	/* They may have been filled again meanwhile. */
	if (cnt == max)
		r->was_full = true;
	return cnt;
}

size_t ring__drain(struct ring *r, size_t max)
{
	size_t cnt = 0;

	while (cnt < max) {
		uint64_t now = now_ns(), next;
		bool whole = ring__look(r);

		next = ring__next_ns(r);
		if (next == UINT64_MAX && whole)
			break;
		/* Each check takes a record, even if the processors' clocks differ. */
		if (whole)
			cnt += ring__take(r, max - cnt, next > now ? next : now);
	}
	return cnt;
}
