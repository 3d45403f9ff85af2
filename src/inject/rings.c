/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Records in the rings of one process, which may overwrite them at any time. */
#include "inject_priv.h"

#include "util/clock.h"
#include "util/time_budget.h"

#include <string.h>
#include <unistd.h>

/* A thread stopped in the middle of a record delays others at most this long. */
#define BUSY_MAX_NS 10000000ull
/* Minimum size of the filler at a ring's end. */
#define FILLER_SZ 8

/* Cached windows of rings, as read: a thread's records usually follow each other. */
#define WINDOW_SZ  (16 << 10)
#define WINDOW_CNT 16
static struct window {
	const struct shm *m;
	unsigned slot;
	uint64_t pos, end;
	uint8_t buf[WINDOW_SZ] __attribute__((aligned(8)));
} windows[WINDOW_CNT];

void shm__forget_windows(const struct shm *m)
{
	for (unsigned i = 0; i < WINDOW_CNT; i++)
		if (windows[i].m == m)
			windows[i].m = NULL;
}

/* Returns contiguous bytes of a ring, written up to head. NULL: not readable. */
static const uint8_t *ring_at(const struct shm *m, unsigned i, uint64_t pos, uint64_t size,
			      uint64_t head)
{
	struct window *w = &windows[((uintptr_t)m / sizeof(*m) + i) % WINDOW_CNT];
	uint64_t off = pos & (m->ring_sz - 1), n = head - pos;

	if (w->m == m && w->slot == i && pos >= w->pos && pos + size <= w->end)
		return w->buf + (pos - w->pos);
	n = n < WINDOW_SZ ? n : WINDOW_SZ;
	n = n < m->ring_sz - off ? n : m->ring_sz - off;
	w->m = NULL;
	if (size > n || pread(m->fd, w->buf, n, slot_off(m, i) + SLOT_SZ + off) != (ssize_t)n)
		return NULL;
	w->m = m;
	w->slot = i;
	w->pos = pos;
	w->end = pos + n;
	return w->buf;
}

/* Maximum bytes by which a short record grows as struct ct_call. */
#define SHORTER_SZ (CT_CALL_FIXED_SZ - sizeof(struct ct_shm_short))

/* Returns whether the record is a valid short one. */
static bool is_short(uint16_t kind, uint32_t size)
{
	return kind == CT_SHM_REC_SHORT && size >= sizeof(struct ct_shm_short) &&
	       size <= CT_SHM_REC_MAX - SHORTER_SZ;
}

/* Returns when the record was sent. */
static uint64_t sent_ns(const uint8_t *at, uint16_t kind, uint32_t size)
{
	uint64_t ns;

	if (is_short(kind, size))
		memcpy(&ns, at + offsetof(struct ct_shm_short, end_ns), sizeof(ns));
	else if (kind == CT_REC_CALL && size >= CT_CALL_FIXED_SZ)
		memcpy(&ns, at + offsetof(struct ct_call, end_ns), sizeof(ns));
	else if (kind == CT_REC_NV && size >= sizeof(struct ct_nv))
		memcpy(&ns, at + offsetof(struct ct_nv, end_ns), sizeof(ns));
	else if (kind == CT_REC_GPU_RUN && size >= sizeof(struct ct_gpu_run))
		memcpy(&ns, at + offsetof(struct ct_gpu_run, sent_ns), sizeof(ns));
	else
		memcpy(&ns, at + offsetof(struct ct_rec, ts_ns), sizeof(ns));
	return ns;
}

/* Expands a short record's fixed part. Returns its size in the ring. */
static uint32_t lengthen(struct ct_call *c, const uint8_t *at, uint32_t size)
{
	struct ct_shm_short s;
	uint64_t parent_id = 0;
	uint32_t fixed = sizeof(s);

	memcpy(&s, at, sizeof(s));
	if (s.depth && size >= fixed + sizeof(parent_id)) {
		memcpy(&parent_id, at + fixed, sizeof(parent_id));
		fixed += sizeof(parent_id);
	}
	memset(c, 0, CT_CALL_FIXED_SZ);
	c->rec = (struct ct_rec){.kind = CT_REC_CALL, .ts_ns = s.ts_ns, .tid = s.tid};
	c->end_ns = s.end_ns;
	c->call_id = s.call_id;
	c->parent_id = parent_id;
	c->depth = s.depth;
	c->api_depth = s.api_depth;
	c->result = s.result;
	c->func_id = s.func_id;
	c->word_cnt = s.word_cnt;
	c->cap_cnt = s.cap_cnt;
	memcpy(c->cap_len, s.cap_len, sizeof(s.cap_len));
	return fixed;
}

static uint16_t kind_at(const uint8_t *at)
{
	uint16_t kind;

	memcpy(&kind, at + offsetof(struct ct_rec, kind), sizeof(kind));
	return kind;
}

static void is_broken(struct shm *m)
{
	m->bad_cnt++;
	m->broken_cnt++;
}

/* Finds the next record. Returns 1, or 0 if there is none. */
static int find(struct shm *m, unsigned i)
{
	struct shm_slot *s = &m->slots[i];

	while (s->pos < s->head) {
		uint64_t off = s->pos & (m->ring_sz - 1), left = s->head - s->pos;
		const uint8_t *at = ring_at(m, i, s->pos, FILLER_SZ, s->head);
		struct ct_rec rec;
		uint64_t room;

		if (left > m->ring_sz - off)
			left = m->ring_sz - off;
		if (!at)
			break;
		memcpy(&rec, at, FILLER_SZ);
		room = ((uint64_t)rec.size + CT_SHM_ALIGN - 1) & ~(uint64_t)(CT_SHM_ALIGN - 1);
		if (rec.size < FILLER_SZ || room > left)
			break;
		/* A filler ends the ring, where no record fitted: a poll meets at most one. */
		if (rec.kind == CT_REC_NONE) {
			if (room != m->ring_sz - off || room > CT_SHM_REC_MAX)
				break;
			s->pos += room;
			continue;
		}
		if (rec.size < sizeof(struct ct_rec) || rec.size > CT_SHM_REC_MAX ||
		    (rec.kind == CT_SHM_REC_SHORT && !is_short(rec.kind, rec.size)))
			break;
		at = ring_at(m, i, s->pos, room, s->head);
		if (!at)
			break;
		s->key = sent_ns(at, rec.kind, rec.size);
		/* The process may write any time, but UINT64_MAX means "no record". */
		s->key -= s->key == UINT64_MAX;
		s->size = rec.size;
		return 1;
	}
	/* No record can be found after an invalid one. */
	if (s->pos < s->head) {
		is_broken(m);
		s->pos = s->head;
	}
	return 0;
}

/* A thread that was idle at `now`, or has a record pending, makes only later records. */
static bool is_clear(struct shm_slot *s, bool busy, uint64_t now)
{
	if (!busy) {
		s->clear_ns = now;
		s->busy_since = 0;
	}
	if (s->clear_ns >= now)
		return true;
	if (!s->busy_since)
		s->busy_since = now_ns();
	return now_ns() - s->busy_since >= BUSY_MAX_NS;
}

bool shm__look(struct shm *m, unsigned i, uint64_t now)
{
	const struct ct_shm_slot *shared = shm__slot(m, i);
	struct shm_slot *s = &m->slots[i];
	/* The order of these loads matters: a record committed in between is found the next time.
	 */
	bool busy = __atomic_load_n(&shared->busy, __ATOMIC_ACQUIRE);
	uint64_t head = __atomic_load_n(&shared->head, __ATOMIC_ACQUIRE);

	if (m->ended || m->broken_cnt >= SHM_BROKEN_MAX)
		return true;
	if (s->size) {
		busy = false; /* a record being made comes after it */
	} else if (head < s->pos || head - s->pos > m->ring_sz || head & (CT_SHM_ALIGN - 1)) {
		is_broken(m);
		s->pos = s->head = head & ~(uint64_t)(CT_SHM_ALIGN - 1);
	}
	if (head >= s->pos && head - s->pos <= m->ring_sz && !(head & (CT_SHM_ALIGN - 1)))
		s->head = head;
	if (s->head - s->released + CT_SHM_REC_MAX > m->ring_sz)
		m->was_full = true;
	if (!s->size && find(m, i))
		busy = false;
	return is_clear(s, busy, now);
}

void shm__end(struct shm *m, uint64_t now)
{
	shm__find_slots(m);
	for (unsigned i = 0; i < m->slot_cnt; i++)
		shm__look(m, i, now);
	m->ended = true;
	m->ended_ns = m->ended_ns ?: now_ns();
}

size_t shm__take(struct shm *m, unsigned i, void *buf)
{
	struct shm_slot *s = &m->slots[i];
	uint32_t size = s->size;
	const uint8_t *at = ring_at(m, i, s->pos, size, s->head);
	struct ct_rec *rec = buf;

	s->pos += (size + CT_SHM_ALIGN - 1) & ~(uint64_t)(CT_SHM_ALIGN - 1);
	/* The contents may differ from when it was found. */
	if (at && is_short(kind_at(at), size)) {
		uint32_t fixed = lengthen(buf, at, size);

		memcpy((uint8_t *)buf + CT_CALL_FIXED_SZ, at + fixed, size - fixed);
		size += CT_CALL_FIXED_SZ - fixed;
	} else if (at) {
		memcpy(buf, at, size);
	} else {
		memset(buf, 0, size);
	}
	rec->size = size;
	if (rec->kind == CT_REC_CALL && size >= CT_CALL_FIXED_SZ)
		s->last_id = ((const struct ct_call *)buf)->call_id;
	s->size = 0;
	s->taken_cnt++;
	if (m->broken_cnt < SHM_BROKEN_MAX)
		find(m, i);
	if (s->pos - s->released >= m->ring_sz / 8)
		shm__release(m, i);
	return size;
}

void shm__release(struct shm *m, unsigned i)
{
	struct shm_slot *s = &m->slots[i];

	if (s->released == s->pos)
		return;
	__atomic_store_n(&shm__slot(m, i)->tail, s->pos, __ATOMIC_RELEASE);
	s->released = s->pos;
}

/* Calls between checks of the time budget. */
#define CALLS_AT_ONCE 256

/* Reads a record's size and kind. Returns the bytes up to the next one, or 0 if it is invalid. */
static uint64_t room_at(const struct shm *m, unsigned i, uint64_t pos, uint64_t head,
			struct ct_rec *rec)
{
	uint64_t left = m->ring_sz - (pos & (m->ring_sz - 1));
	const uint8_t *at = ring_at(m, i, pos, FILLER_SZ, head);

	if (!at)
		return 0;
	memcpy(rec, at, FILLER_SZ);
	if (rec->size < FILLER_SZ || rec->size > left || rec->size > head - pos ||
	    (rec->kind == CT_REC_NONE && rec->size != left))
		return 0;
	return ((uint64_t)rec->size + CT_SHM_ALIGN - 1) & ~(uint64_t)(CT_SHM_ALIGN - 1);
}

static bool each_call(const struct shm *m, unsigned i, uint64_t head, unsigned max,
		      void (*fn)(void *ctx, const struct ct_call *c), void *ctx)
{
	unsigned cnt = 0;

	for (uint64_t pos = m->slots[i].pos; pos < head; cnt++) {
		struct ct_call c = {0};
		uint64_t size, room = room_at(m, i, pos, head, &c.rec);
		const uint8_t *at;

		if (cnt == max || (cnt % CALLS_AT_ONCE == 0 && !time_budget__has_time()))
			return false;
		if (!room)
			break;
		size = c.rec.size;
		if (c.rec.kind == CT_REC_CALL && size >= CT_CALL_FIXED_SZ) {
			at = ring_at(m, i, pos, CT_CALL_FIXED_SZ, head);
			if (!at)
				break;
			memcpy(&c, at, CT_CALL_FIXED_SZ);
			fn(ctx, &c);
		} else if (is_short(c.rec.kind, size)) {
			at = ring_at(m, i, pos, size, head);
			if (!at)
				break;
			lengthen(&c, at, size);
			fn(ctx, &c);
		}
		pos += room;
	}
	return true;
}

bool shm__each_call(const struct shm *m, unsigned i, unsigned max,
		    void (*fn)(void *ctx, const struct ct_call *c), void *ctx)
{
	uint64_t head = m->ended ? m->slots[i].head
				 : __atomic_load_n(&shm__slot(m, i)->head, __ATOMIC_ACQUIRE);

	return head - m->slots[i].pos > m->ring_sz || each_call(m, i, head, max, fn, ctx);
}

static void keep_id(void *id, const struct ct_call *c)
{
	*(uint64_t *)id = c->call_id;
}

bool shm__last_call(const struct shm *m, unsigned i, uint64_t *id)
{
	*id = m->slots[i].last_id;
	return each_call(m, i, m->slots[i].head, UINT32_MAX, keep_id, id);
}

/* Typical size of a record. */
#define USUAL_SZ 80

static uint64_t unread_of(const struct shm *m, unsigned i)
{
	const struct shm_slot *s = &m->slots[i];
	uint64_t cnt = 0, pos = s->pos, room;
	struct ct_rec rec;

	for (unsigned n = 0; pos < s->head; n++, pos += room) {
		if (n % CALLS_AT_ONCE == 0 && !time_budget__has_time())
			break;
		room = room_at(m, i, pos, s->head, &rec);
		if (!room)
			break;
		cnt += rec.kind != CT_REC_NONE;
	}
	return pos < s->head ? cnt + (s->head - pos + USUAL_SZ - 1) / USUAL_SZ : cnt;
}

uint64_t shm__unread(const struct shm *m)
{
	uint64_t cnt = 0;

	for (unsigned i = 0; i < m->slot_cnt; i++)
		cnt += m->slots[i].size ? unread_of(m, i) : 0;
	return cnt;
}
