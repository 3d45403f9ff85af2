/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A thread's ring: only the thread accesses data behind head. */
#include "inject.h"

/* End of the ring, or of the space known to be free; a multiple of CT_SHM_ALIGN. */
cold void *ring_turn(struct thread *t, uint32_t size)
{
	struct ct_shm_slot *s = t->slot;
	uint64_t pos = s->head & (t->ring_sz - 1), pad = 0;
	struct ct_rec *rec;
	uint64_t end;

	if (pos + size > t->ring_sz)
		pad = t->ring_sz - pos;
	if (unlikely(s->head + pad + size - s->tail_seen > t->ring_sz)) {
		s->tail_seen = __atomic_load_n(&s->tail, __ATOMIC_ACQUIRE);
		if (s->head + pad + size - s->tail_seen > t->ring_sz)
			return NULL;
	}
	if (unlikely(pad)) {
		rec = (struct ct_rec *)(t->ring + pos);
		rec->size = pad;
		rec->kind = CT_REC_NONE;
		rec->flags = 0;
		__atomic_store_n(&s->head, s->head + pad, __ATOMIC_RELEASE);
		pos = 0;
	}
	end = s->head - pos + t->ring_sz;
	t->room_end = s->tail_seen + t->ring_sz;
	if (t->room_end > end)
		t->room_end = end;
	return t->ring + pos;
}
