/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What record.c does, for a call as nearly all are: in no other one, of a thread that has its slot,
 * with nothing to be asked, timed, looked up or corrected. It calls nothing and is compiled without
 * vector registers, so that the thunk need not keep those (inject.mk): half as much code has to be
 * fetched for a call, which is most of what it costs in a program that computes between calls. Where
 * anything is otherwise nothing has been changed, and record.c does all of it.
 */
#include "record.h"

#ifdef __x86_64__
/* Its words on the stack that the thunk passes on. false: they may end there. */
static inline bool stack_pass(struct call *call)
{
	const uint64_t *from = (const uint64_t *)(call->sp + 8);

	if (unlikely(4096 - ((uintptr_t)from & 4095) < STACK_WORDS * sizeof(*from)))
		return false;
#pragma GCC unroll 1
	for (unsigned i = 0; i < STACK_WORDS; i++)
		call_stack(call)[i] = from[i];
	return true;
}

/* A level that may change with each call is record.c's: CT_LEVEL_SAMPLE. */
static inline uint32_t level_quick(const struct process *p, const struct ct_shm_set *set,
				   const struct ct_spec *spec)
{
	uint32_t of_proc = p->shm->level;

	of_proc = of_proc ? of_proc : set->others_level;
	if (unlikely(of_proc != p->level))
		return CT_LEVEL_SAMPLE;
	if (likely(of_proc == CT_PROC_TRACE))
		return spec->level;
	if (of_proc != CT_PROC_METRICS)
		return CT_LEVEL_OFF;
	return spec->level < CT_LEVEL_COUNT && !(spec->flags & CT_SPEC_F_ALWAYS) ? CT_LEVEL_COUNT
										 : spec->level;
}

hot void *inject_enter_quick(struct call *call)
{
	const struct hook *hook = once(&inject_hooks[call->func_id]);
	struct process *p = inject_me.process;
	struct thread *t = inject_me.t;
	const struct ct_shm_set *set;
	const struct ct_spec *spec;
	struct ct_shm_slot *s;
	struct ct_frame *f;
	uint32_t level;
	uint64_t now;

	fetch(p, call->func_id);
	call->t = NULL;
	call->role = hook->role;
	if (unlikely(!t || inject_me.gen != p->alive || hook->role | hook->skip))
		return NULL;
	set = p->set;
	spec = once(&set->specs[call->func_id].of);
	/* Whether the call is seen or not. */
	if (unlikely(set->ended) || (!spec->in_regs && !stack_pass(call)))
		return NULL;
	level = level_quick(p, set, spec);
	if (unlikely(level >= CT_LEVEL_OFF))
		return hook->real;
	s = t->slot;
	if (unlikely(level == CT_LEVEL_SAMPLE || t->busy_sp || ct_shm_depth(s) || t->skip == 1 ||
		     spec->flags & CT_SPEC_F_NO_RETURN || (!s->next_id && !level)))
		return NULL;
	busy_set(t, call->sp);
	/* In this order: as in enter() and thread_now(). */
	now = set->ended ? 0 : thread_now_quick(t);
	if (unlikely(!now || (int64_t)(now - set->beat_ns) > (int64_t)CT_SHM_STALE_NS)) {
		busy_clear(t);
		return NULL;
	}
	t->skip--;
	f = once(&s->frames[0]);
	frame_fill(f, call, spec);
	if (level == CT_LEVEL_COUNT)
		frame_count(f, t, call);
	else
		frame_record(f, s, call, spec);
	f->start_ns = call->start_ns = now;
	call->depth = 0;
	call->spec = spec;
	call->frame = f;
	call->timed_ns = 0;
	call->gen = p->alive;
	call->t = t;
	t->calls[0] = call;
	frame_add(s);
	busy_clear(t);
	return hook->real;
}

static inline bool count_quick(struct thread *t, const struct call *call, int32_t result,
			       uint64_t ns)
{
	const struct ct_spec *spec = call->spec;
	struct ct_count *c;

	if (unlikely(ct_result_is_error(spec, result) || spec->flags & CT_SPEC_F_UNLOADS))
		return false;
	c = count_get(t, call->func_id);
	if (spec->bytes_word)
		c->bytes += call_word(call, spec->bytes_word - 1u);
	count_add(c, call->frame, ns);
	t->slot->stats[CT_STAT_COUNTED]++;
	return true;
}

/* Has all been told of the kernel that is launched? */
static inline bool is_told(const struct call *call, const struct ct_spec *spec)
{
	uint64_t key = name_key(call_word(call, spec->handle_word - 1u)), i = name_place(key);

	return !(spec->flags & CT_SPEC_F_HANDLE_OUT) &&
	       (likely(name_is_at(i, key)) || name_is_at(i ^ 1, key));
}

static inline bool record_quick(struct thread *t, const struct call *call, uint64_t now,
				int32_t result)
{
	const struct ct_spec *spec = call->spec;
	struct ct_shm_slot *s = t->slot;
	uint64_t addr = 0;
	struct ct_shm_short *c;
	uint32_t size;

	if (unlikely(!is_short(spec, call->frame) || spec->flags & CT_SPEC_F_UNLOADS ||
		     now - call->start_ns < inject_me.process->set->min_duration_ns ||
		     s->head + CT_SHM_REC_MAX > t->room_end))
		return false;
	if (spec->cap_cnt) {
		if (unlikely(!spec->out_sz || spec->cap_cnt > 1 || spec->caps[0].arg >= REG_WORDS ||
			     !ct_result_is_ok(spec, result)))
			return false;
		addr = call->regs[spec->caps[0].arg];
		if (unlikely(!addr || addr & (spec->out_sz - 1u)))
			return false;
	}
	if (spec->handle_word && unlikely(!is_told(call, spec)))
		return false;
	c = (struct ct_shm_short *)(t->ring + (s->head & (t->ring_sz - 1)));
	size = short_fill(c, t, call->frame, spec, now, result);
	if (addr)
		size = out_add(spec, addr, c, c->cap_len, size);
	c->size = size;
	call_send(t, c->call_id, size);
	return true;
}

hot bool inject_exit_quick(struct call *call, uint64_t result)
{
	struct process *p = inject_me.process;
	struct thread *t = call->t;
	const struct ct_frame *f;
	struct ct_shm_slot *s;
	bool done = false;
	uint64_t now;

	if (!t)
		return !call->role;
	f = call->frame;
	s = t->slot;
	if (unlikely(inject_me.t != t || inject_me.gen != call->gen || p->alive != call->gen ||
		     call->role | call->timed_ns | call->depth))
		return false;
	if (unlikely(ct_shm_depth(s) != 1 || f->sp != call->sp || f->start_ns != call->start_ns))
		return false;
	busy_set(t, call->sp);
	now = thread_now_quick(t);
	if (likely(now && !p->set->ended))
		done = f->flags & CT_FRAME_F_COUNTED
			       ? count_quick(t, call, result, now - call->start_ns)
			       : record_quick(t, call, now, result);
	if (likely(done))
		depth_set(s, 0);
	busy_clear(t);
	return done;
}
#endif
