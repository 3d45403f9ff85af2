/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The rings' memory, mapped slot by slot when a thread needs one. All of it would be gigabytes of
 * address space, for which a program that locks its memory (mlockall()) would need memory.
 *
 * The descriptor is closed by then. But mremap() of no bytes maps the file again, from the start of
 * an existing mapping on, to any length. So slots are mapped in order, each from the end of the
 * previous one. The new mapping is locked only if the old one is. Where this does not work
 * (valgrind), everything is mapped at once.
 */
#include "inject.h"

#include <sys/mman.h>

/* Maps memory of the file after the last page of a mapping, from this many bytes after its end.
 * Returns NULL on error. */
static void *map_behind(uint8_t *end, uint64_t skip, uint64_t size)
{
	uint64_t page = page_size(), front = page + skip;
	long at;

	sys(SYS_munlock, end - page, page);
	at = sys(SYS_mremap, end - page, 0, front + size, MREMAP_MAYMOVE);
	if (is_sys_error(at))
		return NULL;
	sys(SYS_munmap, at, front);
	return (void *)(at + front);
}

/* Whole pages are mapped. */
static uint64_t slot_size(const struct process *p)
{
	return p->shm->ring_off + p->shm->ring_sz;
}

struct ct_shm_slot *slot_at(struct process *p, unsigned i)
{
	struct ct_shm_slot *s = __atomic_load_n(&p->slots[i], __ATOMIC_ACQUIRE), *none = NULL;
	uint64_t size = slot_size(p);
	uint8_t *before;

	if (s)
		return s;
	if (p->whole) {
		s = (void *)((uint8_t *)p->shm + p->shm->slots_off + i * p->shm->stride);
		__atomic_store_n(&p->slots[i], s, __ATOMIC_RELEASE);
		return s;
	}
	if (i) {
		before = (uint8_t *)slot_at(p, i - 1);
		s = before ? map_behind(before + size, p->shm->stride - size, size) : NULL;
	} else {
		s = map_behind((uint8_t *)p->shm + p->shm->slots_off, 0, size);
	}
	if (!s || __atomic_compare_exchange_n(&p->slots[i], &none, s, false, __ATOMIC_ACQ_REL,
					      __ATOMIC_ACQUIRE))
		return s;
	sys(SYS_munmap, s, size);
	return none;
}

cold bool counts_map(struct thread *t, uint32_t func_id)
{
	const struct process *p = inject_process;
	uint64_t end = slot_size(p), page = page_size();
	uint32_t cnt = p->set->fn_cnt > func_id ? p->set->fn_cnt : CT_MAX_FUNCS;
	uint64_t size = (cnt * sizeof(struct ct_count) + page - 1) & -page;
	void *to = (uint8_t *)t->slot + p->shm->counts_off;

	if (is_quiet() || func_id >= CT_MAX_FUNCS || p->shm->counts_off < end)
		return false;
	/* Keep the previous one: an interrupted thread may still use it. */
	if (!p->whole)
		to = map_behind((uint8_t *)t->slot + end, p->shm->counts_off - end, size);
	if (!to)
		return false;
	t->counts = to;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	t->counts_cnt = cnt < CT_MAX_FUNCS ? cnt : CT_MAX_FUNCS;
	return true;
}
