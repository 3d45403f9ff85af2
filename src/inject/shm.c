/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "inject_priv.h"

#include "util/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE	  4096ul
#define PAGES(n)  (((n) + PAGE - 1) & ~(PAGE - 1))
#define COUNTS_SZ PAGES(sizeof(struct ct_count) * CT_MAX_FUNCS)
#define SLOT_SZ	  PAGES(sizeof(struct ct_shm_slot))
#define SLOTS_OFF PAGES(sizeof(struct ct_shm))
/* Slots that there is room for at first, and a power of two of that. */
#define SLOTS_MIN 8
_Static_assert(offsetof(struct ct_shm_slot, nv) <= PAGE, "all that is looked at is in one page");

/* A thread that was stopped in the midst of a record does not hold up the others for ever. */
#define BUSY_MAX_NS 10000000ull
/* What fills the end of a ring has so much at least. */
#define FILLER_SZ 8

/* Pieces of rings, as they were read: a thread's records come one after the other as a rule. */
#define WINDOW_SZ  (16 << 10)
#define WINDOW_CNT 16
static struct window {
	const struct shm *m;
	unsigned slot;
	uint64_t pos, end;
	uint8_t buf[WINDOW_SZ] __attribute__((aligned(8)));
} windows[WINDOW_CNT];

static void forget_windows(const struct shm *m)
{
	for (unsigned i = 0; i < WINDOW_CNT; i++)
		if (windows[i].m == m)
			windows[i].m = NULL;
}

static uint64_t slot_off(const struct shm *m, unsigned i)
{
	return SLOTS_OFF + i * m->stride;
}

/* Bytes of a ring that were written, up to head, and lie in one piece. NULL: they cannot be read.
 */
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

int shm__open(struct shm *m, uint64_t ring_sz, struct shm_room *room)
{
	int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

	m->ring_sz = ring_sz;
	m->stride = SLOT_SZ + ring_sz + COUNTS_SZ;
	m->size = SLOTS_OFF + CT_SHM_SLOTS * m->stride;
	m->room = room;
	m->slots = calloc(SLOTS_MIN, sizeof(*m->slots));
	m->fd = memfd_create("cudatrace-rings", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (!m->slots || m->fd < 0 || ftruncate(m->fd, m->size) || fcntl(m->fd, F_ADD_SEALS, seals))
		return -errno;
	m->mem = mmap(NULL, m->size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, m->fd, 0);
	if (m->mem == MAP_FAILED) {
		m->mem = NULL;
		return -errno;
	}
	*m->mem = (struct ct_shm){
		.magic = CT_SHM_MAGIC,
		.version = CT_SHM_VERSION,
		.slot_cnt = CT_SHM_SLOTS,
		.slots_off = SLOTS_OFF,
		.stride = m->stride,
		.ring_off = SLOT_SZ,
		.ring_sz = ring_sz,
		.counts_off = SLOT_SZ + ring_sz,
	};
	return 0;
}

void shm__close(struct shm *m)
{
	for (unsigned i = 0; i < m->slot_cnt; i++) {
		free(m->slots[i].blocks);
		free(m->slots[i].counted);
	}
	if (m->room)
		m->room->used -= m->slot_cnt;
	forget_windows(m);
	free(m->slots);
	m->slots = NULL;
	m->slot_cnt = 0;
	if (m->mem)
		munmap(m->mem, m->size);
	m->mem = NULL;
	if (m->fd >= 0)
		close(m->fd);
	m->fd = -1;
}

/* By what we know, and not by what the process may have written there. */
struct ct_shm_slot *shm__slot(const struct shm *m, unsigned i)
{
	return (struct ct_shm_slot *)((char *)m->mem + slot_off(m, i));
}

void shm__count(const struct shm *m, unsigned i, unsigned func_id, struct ct_count *c)
{
	uint64_t off = slot_off(m, i) + SLOT_SZ + m->ring_sz + func_id * sizeof(*c);

	if (pread(m->fd, c, sizeof(*c), off) != sizeof(*c))
		*c = (struct ct_count){0};
}

/* How much longer a short record is as struct ct_call, at most. */
#define SHORTER_SZ (CT_CALL_FIXED_SZ - sizeof(struct ct_shm_short))

/* One that may be lengthened. */
static bool is_short(uint16_t kind, uint32_t size)
{
	return kind == CT_SHM_REC_SHORT && size >= sizeof(struct ct_shm_short) &&
	       size <= CT_SHM_REC_MAX - SHORTER_SZ;
}

/* When it was sent. */
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

/* Slots are taken from the first on. */
static bool is_used(const struct shm *m, unsigned i)
{
	const struct ct_shm_slot *s = shm__slot(m, i);

	return __atomic_load_n(&s->state, __ATOMIC_ACQUIRE) != CT_SLOT_FREE ||
	       __atomic_load_n(&s->head, __ATOMIC_RELAXED);
}

/* false: there is no memory. */
static bool add_slot(struct shm *m)
{
	unsigned cnt = m->slot_cnt;
	struct shm_slot *slots = m->slots;

	if (cnt >= SLOTS_MIN && !(cnt & (cnt - 1)))
		slots = realloc(slots, 2 * cnt * sizeof(*slots));
	if (!slots)
		return false;
	m->slots = slots;
	slots[m->slot_cnt++] = (struct shm_slot){0};
	return true;
}

void shm__find_slots(struct shm *m)
{
	while (!m->ended && !m->left_out && m->slot_cnt < CT_SHM_SLOTS && is_used(m, m->slot_cnt)) {
		m->left_out = m->room && !shm_room_take(m->room, m->slot_cnt);
		if (!m->left_out && !add_slot(m)) {
			m->left_out = true;
			if (m->room)
				m->room->used--;
		}
	}
}

/* A short record's fixed part; its size there. */
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

/* Finds the next record. 1: found; 0: there is none. */
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
		if (rec.kind == CT_REC_NONE) {
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
		/* The process may say any time: that one means that there is no record. */
		s->key -= s->key == UINT64_MAX;
		s->size = rec.size;
		return 1;
	}
	/* Nothing behind what makes no sense can be found. */
	if (s->pos < s->head) {
		m->bad_cnt++;
		s->pos = s->head;
	}
	return 0;
}

/* What a thread makes that was seen to be idle, or at a record that is found, is later than that.
 */
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
	/* In this order: what is committed in between is seen the next time. */
	bool busy = __atomic_load_n(&shared->busy, __ATOMIC_ACQUIRE);
	uint64_t head = __atomic_load_n(&shared->head, __ATOMIC_ACQUIRE);

	if (m->ended)
		return true;
	if (s->size) {
		busy = false; /* what is being made comes behind it */
	} else if (head < s->pos || head - s->pos > m->ring_sz || head & (CT_SHM_ALIGN - 1)) {
		m->bad_cnt += head != s->pos;
		s->pos = s->head = head & ~(uint64_t)(CT_SHM_ALIGN - 1);
	}
	if (head >= s->pos && head - s->pos <= m->ring_sz && !(head & (CT_SHM_ALIGN - 1)))
		s->head = head;
	if (s->head - s->told + CT_SHM_REC_MAX > m->ring_sz)
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
}

size_t shm__take(struct shm *m, unsigned i, void *buf)
{
	struct shm_slot *s = &m->slots[i];
	uint32_t size = s->size;
	const uint8_t *at = ring_at(m, i, s->pos, size, s->head);
	struct ct_rec *rec = buf;

	s->pos += (size + CT_SHM_ALIGN - 1) & ~(uint64_t)(CT_SHM_ALIGN - 1);
	/* It may say something else than when it was found. */
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
	find(m, i);
	if (s->pos - s->told >= m->ring_sz / 8)
		shm__tell(m, i);
	return size;
}

void shm__tell(struct shm *m, unsigned i)
{
	struct shm_slot *s = &m->slots[i];

	if (s->told == s->pos)
		return;
	__atomic_store_n(&shm__slot(m, i)->tail, s->pos, __ATOMIC_RELEASE);
	s->told = s->pos;
}

unsigned shm__depth(const struct shm *m, unsigned i)
{
	uint32_t depth = ct_shm_depth(shm__slot(m, i));

	return depth < CT_MAX_DEPTH ? depth : CT_MAX_DEPTH;
}

static void each_call(const struct shm *m, unsigned i, uint64_t head,
		      void (*fn)(void *ctx, const struct ct_call *c), void *ctx)
{
	for (uint64_t pos = m->slots[i].pos; pos < head;) {
		uint64_t left = m->ring_sz - (pos & (m->ring_sz - 1));
		const uint8_t *at = ring_at(m, i, pos, FILLER_SZ, head);
		struct ct_call c = {0};
		uint64_t size;

		if (!at)
			break;
		memcpy(&c.rec, at, FILLER_SZ);
		if (c.rec.size < FILLER_SZ || c.rec.size > left || c.rec.size > head - pos)
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
		pos += (size + CT_SHM_ALIGN - 1) & ~(uint64_t)(CT_SHM_ALIGN - 1);
	}
}

void shm__each_call(const struct shm *m, unsigned i, void (*fn)(void *ctx, const struct ct_call *c),
		    void *ctx)
{
	uint64_t head = m->ended ? m->slots[i].head
				 : __atomic_load_n(&shm__slot(m, i)->head, __ATOMIC_ACQUIRE);

	if (head - m->slots[i].pos <= m->ring_sz)
		each_call(m, i, head, fn, ctx);
}

static void keep_id(void *id, const struct ct_call *c)
{
	*(uint64_t *)id = c->call_id;
}

uint64_t shm__last_call(const struct shm *m, unsigned i)
{
	uint64_t id = m->slots[i].last_id;

	each_call(m, i, m->slots[i].head, keep_id, &id);
	return id;
}

bool shm__has_returned(const struct shm *m, unsigned i, unsigned depth, uint64_t last)
{
	struct ct_count count;
	struct ct_frame f;

	shm_copy(&f, &shm__slot(m, i)->frames[depth], sizeof(f));
	if (f.off_cpu_ns) {
		shm__count(m, i, f.func_id % CT_MAX_FUNCS, &count);
		return ct_shm_row(shm__slot(m, i), &count, &f) >= f.off_cpu_ns;
	}
	return f.call_id && !(f.flags & CT_FRAME_F_COUNTED) && f.call_id == last;
}

size_t shm__frame(const struct shm *m, unsigned i, unsigned depth, const struct ct_shm_set *set,
		  struct ct_call *c)
{
	const struct ct_shm_slot *shared = shm__slot(m, i);
	struct ct_frame f, outer = {0};

	shm_copy(&f, &shared->frames[depth], sizeof(f));
	if (depth)
		shm_copy(&outer, &shared->frames[depth - 1], sizeof(outer));
	if (f.func_id >= CT_MAX_FUNCS || f.flags & CT_FRAME_F_COUNTED)
		return 0;
	memset(c, 0, CT_CALL_FIXED_SZ);
	c->rec.kind = CT_REC_CALL;
	c->rec.flags = CT_CALL_F_UNFINISHED;
	c->rec.ts_ns = f.start_ns;
	c->rec.tid = shared->tid;
	c->call_id = f.call_id;
	/* On another stack than the one before it is in none. */
	c->parent_id = f.depth ? outer.call_id : 0;
	c->func_id = f.func_id;
	c->depth = f.depth;
	c->api_depth = f.api_depth;
	c->ioctl_cnt = f.ioctl_cnt;
	c->ioctl_ns = f.ioctl_ns;
	c->word_cnt = set->specs[f.func_id].of.word_cnt;
	if (c->word_cnt > CT_MAX_WORDS)
		c->word_cnt = CT_MAX_WORDS;
	memcpy(c->words, f.words, sizeof(c->words));
	c->rec.size = CT_CALL_FIXED_SZ + c->word_cnt * sizeof(c->words[0]);
	return c->rec.size;
}

size_t shm__nv(const struct shm *m, unsigned i, void *buf, size_t size)
{
	const struct ct_nv_thread *st = &shm__slot(m, i)->nv;
	struct ct_nv *rec = buf;
	uint32_t off = st->off;

	if (!__atomic_load_n(&st->active, __ATOMIC_ACQUIRE) || off < sizeof(*rec) || off > size)
		return 0;
	shm_copy(buf, st->out, off);
	rec->rec.size = off;
	rec->rec.kind = CT_REC_NV;
	rec->rec.flags = CT_CALL_F_UNFINISHED;
	return off;
}

static uint64_t entries_of(const struct ct_shm_slot *s)
{
	return s->stats[CT_STAT_ENTRIES] + s->begun / CT_SHM_DEPTHS;
}

/* Calls of threads for which there was no room: none of what they left is read. */
static uint64_t calls_left_out(const struct shm *m)
{
	struct ct_shm_slot s;
	size_t size = offsetof(struct ct_shm_slot, drops);
	uint64_t cnt = 0;

	for (unsigned i = m->slot_cnt; m->left_out && i < CT_SHM_SLOTS; i++) {
		if (pread(m->fd, &s, size, slot_off(m, i)) != (ssize_t)size ||
		    (s.state == CT_SLOT_FREE && !s.head))
			break;
		cnt += entries_of(&s);
	}
	return cnt;
}

void shm__add_totals(const struct shm *m, struct ct_totals *sum)
{
	sum->drops[CT_DROP_THREADS_SHARE] += calls_left_out(m);
	sum->drops[CT_DROP_THREADS] += m->mem ? m->mem->no_slot_cnt : 0;
	for (unsigned i = 0; i < m->slot_cnt; i++) {
		const struct ct_shm_slot *s = shm__slot(m, i);
		uint64_t busiest = s->busiest;

		for (int k = 0; k < CT_STAT_CNT; k++)
			sum->stats[k] += k == CT_STAT_ENTRIES ? entries_of(s) : s->stats[k];
		for (int k = 0; k < CT_DROP_CNT; k++)
			sum->drops[k] += s->drops[k];
		sum->cost_ns += s->cost_ns;
		busiest = busiest >> 32 << 32 | m->slots[i].tid;
		if (busiest > sum->busiest)
			sum->busiest = busiest;
	}
}
