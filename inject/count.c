/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Counted calls, as in bpf/count.bpf.h, except that each thread has its own rows; and the overhead
 * of all calls. */
#include "inject.h"

/* Number of calls per timed one: the mean of 1 to 128. */
#define COST_SKIP 128

struct ct_count *count_get(struct thread *t, uint32_t func_id)
{
	static struct ct_count none; /* for a call that began when another thread had the slot */

	if (!count_has(t, func_id))
		return &none;
	t->slot->counted[func_id / 64] |= 1ull << (func_id % 64);
	return &t->counts[func_id];
}

static cold void count_error(struct thread *t, const struct ct_spec *spec, uint32_t func_id,
			     int32_t result)
{
	const struct ct_shm_set *set = inject_process->set;
	struct ct_shm_error *e = t->slot->errors;

	result = recorder_result(set->results[spec->api & (CT_APIS_MAX - 1)], result);
	for (; e < t->slot->errors + CT_SHM_ERRORS; e++) {
		if (e->cnt && (e->func_id != func_id || e->result != result))
			continue;
		e->func_id = func_id;
		e->result = result;
		__atomic_store_n(&e->cnt, e->cnt + 1, __ATOMIC_RELEASE);
		return;
	}
	t->slot->drops[CT_DROP_ERRORS]++;
}

hot void count_returned(struct thread *t, const struct call *call, int32_t result, uint64_t ns)
{
	struct ct_count *c = count_get(t, call->func_id);
	const struct ct_spec *spec = call->spec;
	uint32_t i = ct_hist_index(ns);

	c->total_ns += ns;
	if (ns > c->max_ns)
		c->max_ns = ns;
	if (unlikely(ct_result_is_error(spec, result))) {
		c->errors++;
		count_error(t, spec, call->func_id, result);
	} else if (spec->bytes_word) {
		c->bytes += call_word(call, spec->bytes_word - 1u);
	}
	frame_row(call->frame, i, c->hist[i] + 1);
	c->hist[i]++;
}

/* --- overhead --- */

cold void cost_skip(struct thread *t)
{
	t->skip = 1 + random_next(t) % COST_SKIP;
}

static void cost_sum(struct thread *t, uint64_t ns, uint64_t now)
{
	struct ct_shm_slot *s = t->slot;
	uint64_t second = now - t->since_ns, share;

	s->cost_ns += ns;
	if (!t->since_ns)
		t->since_ns = now;
	share = ct_cost_share(s->cost_ns - t->cost_then, second, t->tid);
	if (share >> 32 > s->busiest >> 32)
		s->busiest = share;
	if (second >= 1000000000) {
		t->since_ns = now;
		t->cost_then = s->cost_ns;
	}
}

/* Unless it was interrupted. */
cold void cost_add(struct thread *t, uint64_t took, uint64_t now)
{
	if (took <= CT_COST_MAX_NS)
		cost_sum(t, took * (COST_SKIP + 1) / 2, now);
}

void cost_add_nv(struct thread *t, uint64_t took, uint64_t now)
{
	if (took <= CT_COST_MAX_NS)
		cost_sum(t, took, now);
}
