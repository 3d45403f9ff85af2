/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The memory that a process shares with its tracer, as the tracer's answer has it. */
#include "inject.h"

#include <fcntl.h>
#include <sys/mman.h>

/* src/inject/shm.c: whole pages. */
#define SHM_SZ ((sizeof(struct ct_shm) + page_size() - 1) & -page_size())

/* Maps the first size bytes of a memory that has at least `has` bytes. A child of fork does not
 * have them. */
static void *map(int fd, size_t has, size_t size, int prot)
{
	long end = sys(SYS_lseek, fd, 0, SEEK_END), at;

	if (end < 0 || (size_t)end < has)
		return NULL;
	at = sys(SYS_mmap, 0, size, prot, MAP_SHARED, fd, 0);
	if (is_sys_error(at))
		return NULL;
	sys(SYS_madvise, at, size, MADV_DONTFORK);
	sys(SYS_madvise, at, size, MADV_DONTDUMP); /* it is not part of the program */
	return (void *)at;
}

static bool is_valid(const struct ct_shm *m, uint64_t size)
{
	return m->magic == CT_SHM_MAGIC && m->version == CT_SHM_VERSION && m->slot_cnt &&
	       m->slots_off >= sizeof(*m) && m->slots_off < size && m->stride &&
	       (size - m->slots_off) / m->stride >= m->slot_cnt &&
	       m->ring_sz >= 2 * CT_SHM_REC_MAX && !(m->ring_sz & (m->ring_sz - 1)) &&
	       m->ring_off >= sizeof(struct ct_shm_slot) && m->ring_off <= m->stride &&
	       m->ring_sz <= m->stride - m->ring_off && m->counts_off <= m->stride &&
	       sizeof(struct ct_count) * CT_MAX_FUNCS <= m->stride - m->counts_off &&
	       !((m->slots_off | m->stride | m->ring_off | m->ring_sz | m->counts_off) &
		 (page_size() - 1));
}

static int map_whole(struct process *p, const struct ct_shm_welcome *w, int fd)
{
	struct ct_shm *shm = map(fd, w->shm_sz, w->shm_sz, PROT_READ | PROT_WRITE);

	if (!shm)
		return -ENOMEM;
	sys(SYS_munmap, p->shm, SHM_SZ);
	p->shm = shm;
	p->whole = true;
	return 0;
}

int shares_map(struct process *p, const struct ct_shm_welcome *w, const int fds[FD_CNT])
{
	struct ct_shm_set *set;
	struct ct_shm *shm;

	if (fds[0] < 0 || w->set_sz < sizeof(*set) || w->shm_sz < sizeof(*shm))
		return -EPROTO;
	set = map(fds[0], w->set_sz, w->set_sz, PROT_READ);
	/* The rest of it when it is needed: slots.c. */
	shm = map(fds[1], w->shm_sz, SHM_SZ, PROT_READ | PROT_WRITE);
	if (set && shm && set->magic == CT_SHM_MAGIC && set->version == CT_SHM_VERSION &&
	    shm->slots_off == SHM_SZ && is_valid(shm, w->shm_sz)) {
		p->set = set;
		p->set_sz = w->set_sz;
		p->shm = shm;
		clock_set_offset(shm->clock_offset_ns);
		return slot_at(p, 0) ? 0 : map_whole(p, w, fds[1]);
	}
	if (set)
		sys(SYS_munmap, set, w->set_sz);
	if (shm)
		sys(SYS_munmap, shm, SHM_SZ);
	return set && shm ? -EPROTO : -ENOMEM;
}
