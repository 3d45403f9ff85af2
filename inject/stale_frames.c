/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Calls that were left without returning, by longjmp(), exceptions or the end of a thread: the next
 * call's stack position reveals them, and their frames are dropped.
 */
#include "record.h"

#include <signal.h>

cold bool inject_on_other_stack(const struct thread *t, uint64_t sp, uint64_t outer_sp)
{
	uint64_t far = sp > outer_sp ? sp - outer_sp : outer_sp - sp;

	return far > CT_SAME_STACK_SZ && !(is_own_stack(t, sp) && is_own_stack(t, outer_sp));
}

/* A signal handler was left by longjmp() between the record, or the count, and the code after it.
 */
static bool was_sent(struct thread *t, const struct ct_frame *f)
{
	uint32_t id = f->func_id & (CT_MAX_FUNCS - 1);

	if (f->off_cpu_ns)
		return (f->found_ns >= CT_HIST_CNT || count_has(t, id)) &&
		       ct_shm_row(t->slot, &t->counts[id], f) >= f->off_cpu_ns;
	return f->call_id == t->sent_id && !(f->flags & CT_FRAME_F_COUNTED) &&
	       t->slot->head != t->sent_head;
}

/* The frame at depth i belongs to a call that will not return. */
static cold void drop_frame(struct thread *t, uint32_t i, uint64_t now, uint16_t flags)
{
	struct ct_shm_slot *s = t->slot;
	struct ct_frame *f = &s->frames[i];
	const struct ct_spec *spec =
		&inject_process->set->specs[f->func_id & (CT_MAX_FUNCS - 1)].of;
	bool abandoned = flags & CT_CALL_F_ABANDONED;
	struct ct_call *c;

	if (unlikely(was_sent(t, f)))
		return;
	s->stats[abandoned ? CT_STAT_ABANDONED : CT_STAT_UNFINISHED]++;
	if (f->flags & CT_FRAME_F_COUNTED) {
		struct ct_count *n = count_get(t, f->func_id & (CT_MAX_FUNCS - 1));

		s->stats[CT_STAT_COUNTED]++;
		if (abandoned)
			n->abandoned++;
		else
			n->unfinished++;
		return;
	}
	c = ring_room(t, CT_CALL_FIXED_SZ + 8 * CT_MAX_WORDS);
	if (!c) {
		bump(&s->drops[CT_DROP_CALL]);
		return;
	}
	if (f->flags & CT_FRAME_F_SAMPLED)
		flags |= CT_CALL_F_SAMPLED;
	c->rec.size = call_fill(c, t, f, spec, now, flags);
	ring_send(t, c->rec.size);
}

/* The program may overwrite it. */
static void depth_check(struct ct_shm_slot *s)
{
	if (ct_shm_depth(s) > CT_MAX_DEPTH)
		depth_set(s, CT_MAX_DEPTH);
}

cold void calls_drop_frames(struct thread *t, uint32_t depth, uint64_t now, uint16_t flags)
{
	depth_check(t->slot);
	while (ct_shm_depth(t->slot) > depth) {
		drop_frame(t, ct_shm_depth(t->slot) - 1, now, flags);
		depth_set(t->slot, ct_shm_depth(t->slot) - 1);
	}
}

cold void inject_unfinished(struct thread *t, uint64_t now)
{
	nv_unfinished(t, now);
	calls_drop_frames(t, 0, now, CT_CALL_F_UNFINISHED);
}

/* The stack of a signal handler may be an array in a function, above the interrupted call. */
static cold bool is_handler(uint64_t sp, uint64_t outer_sp)
{
	stack_t st;
	uint64_t lo;

	if (is_quiet() || sys(SYS_sigaltstack, NULL, &st) || !(st.ss_flags & SS_ONSTACK))
		return false;
	lo = (uintptr_t)st.ss_sp;
	return sp - lo < st.ss_size && outer_sp - lo >= st.ss_size;
}

cold int calls_unwind_stale(struct process *p, struct thread *t, uint64_t sp)
{
	struct ct_shm_slot *s = t->slot;
	uint64_t now = 0;

	depth_check(s);
	while (ct_shm_depth(s)) {
		const struct ct_frame *top = &s->frames[ct_shm_depth(s) - 1];

		if (inject_on_other_stack(t, sp, top->sp))
			return OTHER_STACK;
		if (top->sp > sp && is_there(t, ct_shm_depth(s) - 1))
			break;
		if (top->sp <= sp && is_handler(sp, top->sp))
			return OTHER_STACK;
		if (!now)
			now = thread_now(p, t);
		calls_drop_frames(t, ct_shm_depth(s) - 1, now, CT_CALL_F_ABANDONED);
	}
	return ct_shm_depth(s);
}
