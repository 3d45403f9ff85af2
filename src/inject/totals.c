/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Numbers that a process reports about itself. They may be forged: no value may decrease, or exceed
 * what its threads can have done since it connected. When all users may connect, reported losses
 * are counted separately (CT_DROP_INPROC).
 */
#include "inject_priv.h"

#include "util/clock.h"

#include <unistd.h>

/* Minimum time of a call, with the library or without, and of other events. */
#define EVENT_NS_MIN 10
/* A whole second in the unit of ct_totals.busiest. */
#define SHARE_MAX 1000000ull
/* A call may have begun before its process had connected. */
#define BEFORE_NS 5000000000ull

uint64_t total_possible(uint64_t ns)
{
	return ns / EVENT_NS_MIN;
}

uint64_t shm__age(const struct shm *m, uint64_t now)
{
	return (m->ended_ns ?: now) - m->opened_ns;
}

static uint64_t less(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* Returns the maximum for all threads together: each processor runs one at a time. */
static uint64_t of_all(uint64_t of_one)
{
	static long cpus;

	if (!cpus)
		cpus = sysconf(_SC_NPROCESSORS_CONF);
	return of_one * (cpus > 0 ? cpus : 1);
}

static void grow(__u64 *to, uint64_t now, uint64_t max)
{
	now = less(now, max);
	if (now > *to)
		*to = now;
}

static uint64_t entries_of(const struct ct_shm_slot *s, uint64_t max)
{
	return less(s->stats[CT_STAT_ENTRIES], max) + less(s->begun / CT_SHM_DEPTHS, max);
}

/* Counts calls of rejected threads. Their records are not read. */
static void read_rejected(struct shm *m, uint64_t max, uint64_t until_ns)
{
	struct ct_shm_slot s;
	size_t size = offsetof(struct ct_shm_slot, drops);
	uint64_t cnt = 0;

	for (unsigned i = m->slot_cnt; i < CT_SHM_SLOTS && now_ns() < until_ns; i++) {
		if (pread(m->fd, &s, size, slot_off(m, i)) != (ssize_t)size ||
		    (s.state == CT_SLOT_FREE && !s.head))
			break;
		cnt += entries_of(&s, max);
	}
	if (cnt > m->left_calls)
		m->left_calls = less(cnt, of_all(max));
}

void shm__read_totals(struct shm *m, uint64_t now, uint64_t until_ns)
{
	uint64_t age = shm__age(m, now), max = total_possible(age);
	struct ct_totals sum = {0};

	if (!m->mem)
		return;
	grow(&m->no_slot, m->mem->no_slot_cnt, of_all(max));
	if (m->rejected)
		read_rejected(m, max, until_ns);
	for (unsigned i = 0; i < m->slot_cnt; i++) {
		const struct ct_shm_slot *s = shm__slot(m, i);
		uint64_t busiest = s->busiest;

		for (int k = 0; k < CT_STAT_CNT; k++)
			sum.stats[k] +=
				k == CT_STAT_ENTRIES ? entries_of(s, max) : less(s->stats[k], max);
		for (int k = 0; k < CT_DROP_CNT; k++)
			sum.drops[k] += less(s->drops[k], max);
		sum.cost_ns += less(s->cost_ns, age);
		busiest = busiest >> 32 << 32 | m->slots[i].tid;
		if (busiest > m->totals.busiest && busiest >> 32 <= SHARE_MAX)
			m->totals.busiest = busiest;
	}
	for (int k = 0; k < CT_STAT_CNT; k++)
		grow(&m->totals.stats[k], sum.stats[k], of_all(max));
	for (int k = 0; k < CT_DROP_CNT; k++)
		grow(&m->totals.drops[k], sum.drops[k], of_all(max));
	grow(&m->totals.cost_ns, sum.cost_ns, of_all(age));
}

void count_limit(struct ct_count *c, uint64_t age_ns)
{
	uint64_t max = total_possible(age_ns);

	c->errors = less(c->errors, max);
	c->entered = less(c->entered, max);
	c->unfinished = less(c->unfinished, max);
	c->abandoned = less(c->abandoned, max);
	c->total_ns = less(c->total_ns, (age_ns + BEFORE_NS) * CT_MAX_DEPTH);
	c->max_ns = less(c->max_ns, age_ns + BEFORE_NS);
	for (int i = 0; i < CT_HIST_CNT; i++)
		c->hist[i] = less(c->hist[i], max);
}

void gpu__read_totals(struct client *p, uint64_t now)
{
	uint64_t age = shm__age(&p->shm, now), max = of_all(total_possible(age));
	struct ct_shm_gpu of;

	shm_copy(&of, &p->shm.mem->gpu, sizeof(of));
	grow(&p->gpu.records, of.records, max);
	grow(&p->gpu.dropped, of.dropped, max);
	grow(&p->gpu.untimed, of.untimed, max);
	grow(&p->gpu.lost, of.lost, max);
	grow(&p->gpu.discarded, of.discarded, of_all(age)); /* bytes */
	grow(&p->gpu.clock_steps, of.clock_steps, max);
	grow(&p->gpu.clock_error_ns, of.clock_error_ns, age);
}

void stalls__read_totals(struct client *p, uint64_t now)
{
	uint64_t max = of_all(shm__age(&p->shm, now)); /* a sample has nanoseconds */
	struct ct_shm_stalls of;

	shm_copy(&of, &p->shm.mem->stalls, sizeof(of));
	grow(&p->stalls.samples, of.samples, max);
	grow(&p->stalls.dropped, of.dropped, max);
	grow(&p->stalls.unattributed, of.unattributed, max);
	grow(&p->stalls.refused, of.refused, max);
	grow(&p->stalls.lost, of.lost, max);
	grow(&p->stalls.contexts, of.contexts, max);
	grow(&p->stalls.no_code, of.no_code, max);
}

bool stalls__note(struct client *p, const struct ct_stalls *rec)
{
	for (unsigned i = 0; i < CT_STALL_CNT; i++)
		p->stalls_given += rec->reasons[i];
	return true;
}

void stalls__lose_rest(struct client *p)
{
	struct ct_shm_stalls *s = &p->stalls;
	uint64_t known = p->stalls_given + s->unattributed + s->refused + s->lost;

	if (s->samples > known)
		s->lost += s->samples - known;
}

void stalls__add_totals(const struct client *p, struct ct_shm_stalls *sum)
{
	sum->samples += p->stalls.samples;
	sum->dropped += p->stalls.dropped;
	sum->unattributed += p->stalls.unattributed;
	sum->refused += p->stalls.refused;
	sum->lost += p->stalls.lost;
	sum->contexts += p->stalls.contexts;
	sum->no_code += p->stalls.no_code;
	sum->flags |= p->stalls_flags;
}

void gpu__add_totals(const struct client *p, struct ct_shm_gpu *sum)
{
	sum->records += p->gpu.records;
	sum->dropped += p->gpu.dropped;
	sum->untimed += p->gpu.untimed;
	sum->lost += p->gpu.lost;
	sum->discarded += p->gpu.discarded;
	sum->clock_steps += p->gpu.clock_steps;
	if (p->gpu.clock_error_ns > sum->clock_error_ns)
		sum->clock_error_ns = p->gpu.clock_error_ns;
}
