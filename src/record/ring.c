/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * libbpf's reader hands out one ring after the other; records are wanted by time, so the rings are
 * read here. Their layout is the kernel's promise to user space (kernel/bpf/ringbuf.c, since 5.8):
 * a page with the consumer's position, a page with the producer's, the data twice; each record
 * behind a header of 8 bytes whose first 4 are its length and two flags.
 */
#include "ring_priv.h"

#include "ct_nv.h"

#include "util/clock.h"
#include "util/log.h"

#include <errno.h>
#include <linux/bpf.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <unistd.h>

#define HEADER_SZ     8
#define CACHE_LINE_SZ 64
/* What a call's record has but for its pointees and stack, and the next one's header. */
#define FETCH_SZ 256
/* No record is longer than a page. */
#define RECORD_SZ_MAX 4096
/* A record is incomplete while a program copies it, for less than a microsecond, unless that
 * program was preempted. Then the others do not wait for ever. */
#define BUSY_MAX_NS 10000000ull

struct ring {
	struct ring_part *parts;
	struct ring_part **heap; /* those with a record, the oldest first */
	unsigned cnt, heap_cnt;
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
	r->heap = calloc(max_parts, sizeof(*r->heap));
	r->epoll_fd = -1;
	r->part_sz = size;
	r->fn = fn;
	r->ctx = ctx;
	if (r->parts && r->heap)
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
	p->pos = p->told = *consumer;
}

static int map_part(struct ring *r, int fd)
{
	size_t page = sysconf(_SC_PAGESIZE), size = page + 2 * r->part_sz;
	struct epoll_event ev = {.events = EPOLLIN};
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
	/* The command's process needs none of this, and copying the tables takes milliseconds. */
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
	/* Else they are a test's. */
	for (unsigned i = 0; i < r->cnt && r->epoll_fd >= 0; i++) {
		munmap(r->parts[i].consumer, page);
		munmap((void *)r->parts[i].producer, page + 2 * r->part_sz);
	}
	if (r->epoll_fd >= 0)
		close(r->epoll_fd);
	free(r->parts);
	free(r->heap);
	free(r);
}

int ring__fd(const struct ring *r)
{
	return r->epoll_fd;
}

bool ring__was_full(struct ring *r)
{
	bool was = r->was_full;

	r->was_full = false;
	return was;
}

/* When it was sent. What is not long enough to say is somebody else's to refuse (record/check.h).
 */
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

/* Another processor has written it, and records of other rings come before it: by then it is here,
 * and so is the start of the next. */
static void fetch(const struct ring_part *p)
{
	for (size_t off = CACHE_LINE_SZ; off < p->size + CACHE_LINE_SZ && off <= FETCH_SZ;
	     off += CACHE_LINE_SZ)
		__builtin_prefetch(p->rec + off);
}

enum look { LOOK_EMPTY, LOOK_BUSY, LOOK_RECORD };

static enum look look(const struct ring *r, struct ring_part *p)
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
			fetch(p);
			return LOOK_RECORD;
		}
		p->pos += (HEADER_SZ + p->size + 7) & ~7ul;
	}
	return LOOK_EMPTY;
}

static void sift_down(struct ring *r, unsigned i)
{
	struct ring_part *p = r->heap[i];
	unsigned child;

	for (; (child = 2 * i + 1) < r->heap_cnt; i = child) {
		if (child + 1 < r->heap_cnt && r->heap[child + 1]->key < r->heap[child]->key)
			child++;
		if (p->key <= r->heap[child]->key)
			break;
		r->heap[i] = r->heap[child];
	}
	r->heap[i] = p;
}

/* Gives the room back. Not for each record: the programs look at that position for each of theirs.
 */
static void tell(struct ring_part *p)
{
	if (p->told == p->pos)
		return;
	__atomic_store_n(p->consumer, p->pos, __ATOMIC_RELEASE);
	p->told = p->pos;
}

/* Must the others wait for this incomplete record? What made those behind it may have caused some
 * of theirs. */
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

	r->heap_cnt = 0;
	for (unsigned i = 0; i < r->cnt; i++) {
		struct ring_part *p = &r->parts[i];
		enum look found;

		p->head = __atomic_load_n(p->producer, __ATOMIC_ACQUIRE);
		if (p->head - p->told + RECORD_SZ_MAX > r->part_sz)
			r->was_full = true;
		found = look(r, p);
		if (found == LOOK_RECORD)
			r->heap[r->heap_cnt++] = p;
		else if (found == LOOK_BUSY && holds_up(p))
			whole = false;
	}
	for (unsigned i = r->heap_cnt / 2; i-- > 0;)
		sift_down(r, i);
	return whole;
}

uint64_t ring__next_ns(const struct ring *r)
{
	return r->heap_cnt ? r->heap[0]->key : UINT64_MAX;
}

size_t ring__take(struct ring *r, size_t max, uint64_t until)
{
	size_t cnt = 0;

	while (r->heap_cnt && r->heap[0]->key <= until && cnt < max) {
		struct ring_part *p = r->heap[0];
		enum look found;

		r->fn(r->ctx, p->rec, p->size);
		cnt++;
		p->pos += (HEADER_SZ + p->size + 7) & ~7ul;
		if (p->pos - p->told >= r->part_sz / 8)
			tell(p);
		found = look(r, p);
		if (found == LOOK_BUSY && holds_up(p))
			break;
		if (found != LOOK_RECORD)
			r->heap[0] = r->heap[--r->heap_cnt];
		if (r->heap_cnt)
			sift_down(r, 0);
	}
	for (unsigned i = 0; i < r->cnt; i++)
		tell(&r->parts[i]);
	/* They may have filled up meanwhile. */
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
		/* Whatever the clocks of the processors say, each look takes something. */
		if (whole)
			cnt += ring__take(r, max - cnt, next > now ? next : now);
	}
	return cnt;
}
