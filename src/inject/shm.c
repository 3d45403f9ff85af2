/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The shared memory of one process: its slots, rings and counts. */
#include "inject_priv.h"

#include "ct_recorder.h"
#include "util/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Initial number of slots; a power of two. */
#define SLOTS_MIN 8
_Static_assert(offsetof(struct ct_shm_slot, nv) <= PAGE, "all checked members are in one page");

int shm__open(struct shm *m, uint64_t ring_sz, struct shm_memlimit *room, struct owner *owner)
{
	int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

	m->ring_sz = ring_sz;
	m->stride = SLOT_SZ + ring_sz + COUNTS_SZ;
	m->size = SLOTS_OFF + CT_SHM_SLOTS * m->stride;
	m->room = room;
	m->owner = owner;
	m->opened_ns = now_ns();
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
	if (m->owner)
		m->owner->slots -= m->slot_cnt;
	shm__forget_windows(m);
	free(m->slots);
	m->slots = NULL;
	m->slot_cnt = 0;
	if (m->mem)
		munmap(m->mem, m->size);
	m->mem = NULL;
}

uint64_t shm__allocated(const struct shm *m)
{
	struct stat st;

	return fstat(m->fd, &st) ? 0 : (uint64_t)st.st_blocks * 512;
}

/* Uses our own offsets, not those that the process may have overwritten. */
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

/* Slots are used in order, starting with the first. */
static bool is_used(const struct shm *m, unsigned i)
{
	const struct ct_shm_slot *s = shm__slot(m, i);

	return __atomic_load_n(&s->state, __ATOMIC_ACQUIRE) != CT_SLOT_FREE ||
	       __atomic_load_n(&s->head, __ATOMIC_RELAXED);
}

/* Returns false if out of memory. */
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
	while (!m->ended && !m->rejected && m->slot_cnt < CT_SHM_SLOTS && is_used(m, m->slot_cnt)) {
		m->rejected = m->room &&
			      !shm_charge(m->room, m->slot_cnt, m->owner ? m->owner->slots : 0);
		if (m->rejected)
			return;
		if (!add_slot(m)) {
			m->rejected = true;
			if (m->room)
				m->room->used--;
		} else if (m->owner) {
			m->owner->slots++;
		}
	}
}

unsigned shm__depth(const struct shm *m, unsigned i)
{
	uint32_t depth = ct_shm_depth(shm__slot(m, i));

	return depth < CT_MAX_DEPTH ? depth : CT_MAX_DEPTH;
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
	if (f.flags & CT_FRAME_F_SAMPLED)
		c->rec.flags |= CT_CALL_F_SAMPLED;
	if (f.flags & CT_FRAME_F_REUSED)
		c->rec.flags |= CT_CALL_F_REUSED;
	c->rec.ts_ns = f.start_ns;
	c->rec.tid = shared->tid;
	recorder_fill(c, &f, recorder_word_cnt(&set->specs[f.func_id].of));
	/* A call on another stack than the previous one has no parent. */
	c->parent_id = f.depth ? outer.call_id : 0;
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
