/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Calls: the thread itself does what bpf/call.bpf.h does at an entry point and at a return.
 *
 * A signal handler may make a call at any instruction here: `busy` shows that, and such a call is
 * counted as dropped. The tracer may read at any time: a record is valid once head is stored, a
 * frame once depth is stored.
 */
#include "record.h"

__thread struct tls inject_me;
struct hook inject_hooks[CT_MAX_FUNCS];

/* --- records --- */

/* CT_CAP_EXTRA is read only for the outermost call of another family (settings.c). */
static bool has_extra(const struct ct_spec *spec)
{
	return spec->cap_cnt < CT_MAX_CAPS && spec->caps[spec->cap_cnt].kind == CT_CAP_EXTRA;
}

/* Index of CT_CAP_PARAMS, with CT_SPEC_F_PARAMS. */
static inline unsigned params_at(const struct ct_spec *spec)
{
	return (spec->cap_cnt + has_extra(spec)) & (CT_MAX_CAPS - 1);
}

/* This call's number stays unused: the next call gets it, because the tracer expects numbers
 * without large gaps. */
static void number_back(struct thread *t, const struct ct_spec *spec, const struct ct_frame *f)
{
	if (t->slot->next_id != f->call_id + 1 || t->nv_call == f->call_id)
		return;
	t->slot->next_id = f->call_id;
	t->reused |= (spec->flags & (CT_SPEC_F_PYTHON | CT_SPEC_F_SAMPLED)) != 0;
}

/* The reader, on another processor, owns the cache line of the last record. Getting it back takes
 * as long as a call, so it is prefetched at the end of the previous call. */
static inline void next_set(const uint8_t *next)
{
	inject_me.next = next;
#pragma GCC unroll 4
	for (unsigned i = 0; i < 4; i++)
		__builtin_prefetch(next + 64 * i, 1);
}

/* Returns space for a record of this thunk's call; NULL: there is none, and it is counted. */
static inline void *call_room(struct thread *t, const struct call *call)
{
	void *c = ring_room(t, CT_SHM_REC_MAX);

	if (unlikely(!c)) {
		frame_row(call->frame, CT_SHM_ROW_DROPPED, t->slot->drops[CT_DROP_CALL] + 1);
		bump(&t->slot->drops[CT_DROP_CALL]);
	}
	return c;
}

static inline void call_send(struct thread *t, uint64_t call_id, uint32_t size)
{
	/* The order of these stores matters: see was_sent(). */
	t->sent_head = t->slot->head;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	t->sent_id = call_id;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	ring_send(t, size);
	next_set(t->ring + (t->slot->head & (t->ring_sz - 1)));
}

/* Returns whether struct ct_shm_short can hold it. */
static inline bool is_short(const struct ct_spec *spec, const struct ct_frame *f)
{
	return !f->ioctl_cnt && spec->cap_cnt <= CT_SHM_SHORT_CAPS &&
	       !(spec->flags & CT_SPEC_F_STACK) &&
	       !(f->flags & (CT_FRAME_F_SAMPLED | CT_FRAME_F_REUSED)) &&
	       !(RECORDER_HAS_EXTRA(f) && has_extra(spec)) &&
	       !(spec->flags & CT_SPEC_F_PARAMS && params_at(spec) >= CT_SHM_SHORT_CAPS);
}

/* Sends a short record of this thunk's call. Returns false if the ring was full. */
static inline bool call_put_short(struct thread *t, const struct call *call, uint64_t now,
				  int32_t result)
{
	const struct ct_spec *spec = call->spec;
	struct ct_shm_short *c;
	uint32_t size;

	if (unlikely(spec->handle_word))
		name_of_call(t, call, spec, ct_result_is_ok(spec, result));
	c = call_room(t, call);
	if (unlikely(!c))
		return false;
	size = short_fill(c, t, call->frame, spec, now, result);
	if (spec->cap_cnt)
		size = pointees_add(t, call, spec, c, c->cap_len, ct_result_is_ok(spec, result),
				    size);
	if (spec->flags & CT_SPEC_F_PARAMS) {
		c->cap_cnt = params_at(spec) + 1;
		size = params_add(t, call, &spec->caps[params_at(spec)], (uint8_t *)c,
				  &c->cap_len[params_at(spec)], ct_result_is_ok(spec, result),
				  size);
	}
	c->size = size;
	call_send(t, c->call_id, size);
	return true;
}

/* Any call. */
static __attribute__((noinline)) bool call_put(struct thread *t, const struct call *call,
					       uint64_t now, uint16_t flags, int32_t result,
					       bool ok)
{
	const struct ct_spec *spec = call->spec;
	struct ct_call *c;
	uint32_t size;

	if (spec->handle_word)
		name_of_call(t, call, spec, ok);
	c = call_room(t, call);
	if (unlikely(!c))
		return false;
	size = call_fill(c, t, call->frame, spec, now, flags);
	c->result = result;
	c->cap_cnt = spec->cap_cnt < CT_MAX_CAPS ? spec->cap_cnt : CT_MAX_CAPS;
	if (c->cap_cnt)
		size = pointees_add(t, call, spec, c, c->cap_len, ok, size);
	if (RECORDER_HAS_EXTRA(c) && has_extra(spec))
		size = extra_add(t, call, spec, c, ok, size);
	if (spec->flags & CT_SPEC_F_PARAMS) {
		c->cap_cnt = params_at(spec) + 1;
		size = params_add(t, call, &spec->caps[params_at(spec)], (uint8_t *)c,
				  &c->cap_len[params_at(spec)], ok, size);
	}
	if ((spec->flags & CT_SPEC_F_STACK || flags & CT_CALL_F_SAMPLED) &&
	    inject_process->set->stack_max) {
		c->stack_cnt = stack_add(t, call, (uint64_t *)((uint8_t *)c + size));
		size += c->stack_cnt * 8u;
	}
	c->rec.size = size;
	call_send(t, c->call_id, size);
	return true;
}

/* --- samples --- */

static inline bool may_sample(struct thread *t, const struct ct_spec *spec)
{
	return (uint32_t)(random_next(t) >> 16) < spec->sample_below;
}

/* The kernel emulates the first instruction of cudatrace_sampled(). Any other one, such as endbr64,
 * costs a second trap. */
#ifdef __x86_64__
#define PROBED __attribute__((visibility("default"), noinline, nocf_check))
#else
#define PROBED __attribute__((visibility("default"), noinline))
#endif

/* The tracer has a probe here, which reads the thread's Python frames and its PyTorch operator: of
 * the call with this stack pointer, this number, and this many frames below its own. */
PROBED void cudatrace_sampled(uint64_t sp, uint64_t id, uint32_t depth);
PROBED void cudatrace_sampled(uint64_t sp, uint64_t id, uint32_t depth)
{
	__asm__ volatile("nop" ::"r"(sp), "r"(id), "r"(depth));
}

static void frames_read(const struct thread *t, const struct call *call)
{
	cudatrace_sampled(call->sp, t->slot->next_id ?: 1, call->depth);
}

/* took: the overhead of this sample since the last pause was set. */
static void sample_pause(struct thread *t, uint64_t now, uint64_t took)
{
	uint64_t pause;

	/* A longer time contains an interruption. */
	took = took < CT_COST_MAX_NS ? took : CT_COST_MAX_NS;
	t->slot->stats[CT_STAT_SAMPLE_NS] += took;
	t->sample_took += took;
	pause = t->sample_took * CT_SAMPLE_PAUSE;
	t->sample_ns = now + (pause > CT_SHM_SAMPLE_NS ? pause : CT_SHM_SAMPLE_NS);
}

/* Returns whether this call is sampled, which begins. */
static cold bool sample_begin(struct process *p, struct thread *t, const struct call *call)
{
	uint64_t now = thread_now(p, t);

	if (now < t->sample_ns)
		return false;
	t->sample_took = 0;
	if (p->set->python && !is_quiet()) {
		frames_read(t, call);
		/* The call may never return. */
		sample_pause(t, now, thread_now(p, t) - now);
	}
	return true;
}

/* For a function whose calls may have Python frames or an operator. Returns whether the call is
 * sampled; it is recorded then. */
static __attribute__((noinline)) bool frames_begin(struct process *p, struct thread *t,
						   const struct call *call, uint32_t *level)
{
	const struct ct_spec *spec = call->spec;

	if (spec->flags & CT_SPEC_F_SAMPLED && may_sample(t, spec) && sample_begin(p, t, call)) {
		*level = CT_LEVEL_TRACE;
		return true;
	}
	if (spec->flags & CT_SPEC_F_PYTHON && *level != CT_LEVEL_COUNT)
		frames_read(t, call);
	return false;
}

/* now: when the call returned. */
static cold bool call_put_sample(struct process *p, struct thread *t, const struct call *call,
				 uint64_t now, int32_t result)
{
	bool sent = call_put(t, call, now, CT_CALL_F_SAMPLED, result,
			     ct_result_is_ok(call->spec, result));
	uint64_t done = thread_now(p, t);

	sample_pause(t, done, done - now);
	return sent;
}

/* --- entry --- */

static cold void level_set(struct process *p, uint32_t level)
{
	p->level = level;
	/* Modules that it unloads meanwhile are not detected. */
	if (level == CT_PROC_OFF)
		names_forget();
}

static inline uint32_t level_of_proc(const struct process *p)
{
	uint32_t level = __atomic_load_n(&p->shm->level, __ATOMIC_RELAXED);

	return level ? level : p->set->others_level;
}

/* For processes with a changed or unusual level, and for functions of which only some calls are
 * recorded. */
static __attribute__((noinline)) uint32_t level_of(struct process *p, struct thread *t,
						   const struct ct_spec *spec, uint32_t of_proc)
{
	uint32_t level;

	if (of_proc != p->level)
		level_set(p, of_proc);
	level = recorder_level(spec, of_proc);
	return level == CT_LEVEL_SAMPLE ? recorder_sample(spec, random_next(t) >> 16) : level;
}

static inline uint32_t call_level(struct process *p, struct thread *t, const struct ct_spec *spec)
{
	uint32_t of_proc = level_of_proc(p), level = spec->level;

	if (likely(of_proc == CT_PROC_TRACE && p->level == CT_PROC_TRACE &&
		   level != CT_LEVEL_SAMPLE))
		return level;
	return level_of(p, t, spec, of_proc);
}

/* If its calls are off, the next ones need not come here until settings change. Functions with a
 * role always do. */
static cold void off_mark(const struct process *p, const struct call *call,
			  const struct ct_spec *spec)
{
	struct hook *hook = &inject_hooks[call->hook];
	uint64_t changed = __atomic_load_n(&p->set->changed_ns, __ATOMIC_ACQUIRE);

	/* Read levels after that, so that they are not older. */
	if (!hook->role && (spec->level >= CT_LEVEL_OFF || level_of_proc(p) == CT_PROC_OFF))
		__atomic_store_n(&hook->off_ns, changed, __ATOMIC_SEQ_CST);
	/* hook_role_set() meanwhile? */
	if (__atomic_load_n(&hook->role, __ATOMIC_SEQ_CST))
		__atomic_store_n(&hook->off_ns, 0, __ATOMIC_RELAXED);
}

static inline void frame_words(struct ct_frame *f, const struct call *call, uint32_t cnt)
{
	/* Zero if not requested. Without a branch, which is mispredicted if it has not run for a
	 * while. */
	uint64_t mask = -(uint64_t)(cnt != 0);

#pragma GCC unroll 8
	for (uint32_t i = 0; i < REG_WORDS; i++)
		f->words[i] = call->regs[i] & mask;
	if (unlikely(cnt > REG_WORDS))
		words_rest(f->words, call->stack, cnt);
}

/* For a call whose return is not probed: the frame is not kept. */
static cold void enter_only(struct thread *t, const struct call *call, uint32_t level)
{
	struct ct_shm_slot *s = t->slot;

	bump(&s->stats[CT_STAT_ENTRIES]);
	s->stats[CT_STAT_ENTRY_ONLY]++;
	if (level == CT_LEVEL_COUNT) {
		s->stats[CT_STAT_COUNTED]++;
		count_get(t, call->func_id)->entered++;
	} else {
		/* Recorded like a failed call, because its output is not written yet. */
		call_put(t, call, call->start_ns, CT_CALL_F_ENTRY_ONLY, 0, false);
	}
}

/* The frame is written; the call is recorded or counted from here on. Returns true if its return
 * needs processing. */
static inline bool enter_frame(struct process *p, struct thread *t, struct call *call,
			       uint32_t level, int outer)
{
	const struct ct_spec *spec = call->spec;
	struct ct_shm_slot *s = t->slot;
	struct ct_frame *f = call->frame;

	f->sp = call->sp;
	f->func_id = call->func_id;
	if (unlikely(spec->flags & CT_SPEC_F_NO_RETURN)) {
		if (spec->flags & CT_SPEC_F_UNLOADS)
			names_forget();
		if (level == CT_LEVEL_COUNT) {
			enter_only(t, call, level);
			return false;
		}
	}
	f->ioctl_ns = 0;
	f->off_cpu_ns = 0;
	f->ioctl_cnt = 0;
	f->flags = 0;
	f->api = spec->api;
	f->call_id = 0;
	f->depth = 0;
	f->api_depth = 0;
	if (outer > 0)
		recorder_nest(s->frames, f, outer);
	if (level == CT_LEVEL_COUNT) {
		f->flags = CT_FRAME_F_COUNTED;
		count_fetch(t, call->func_id);
	} else {
		if (unlikely(!s->next_id))
			s->next_id = 1;
		f->call_id = s->next_id++;
		if (unlikely(t->reused)) {
			f->flags |= CT_FRAME_F_REUSED;
			t->reused = false;
		}
		frame_words(f, call, recorder_word_cnt(spec));
	}
	f->start_ns = call->start_ns = thread_now(p, t);
	if (unlikely(spec->flags & CT_SPEC_F_NO_RETURN)) {
		enter_only(t, call, level);
		return false;
	}
	t->calls[call->depth] = call;
	inject_me.frame = f + 1;
	frame_add(s);
	return true;
}

static cold void enter_dropped(struct ct_shm_slot *s)
{
	bump(&s->stats[CT_STAT_ENTRIES]);
	bump(&s->drops[CT_DROP_CALL]);
}

static cold void enter_timed(struct process *p, struct thread *t, struct call *call, uint64_t began)
{
	uint64_t now = thread_now(p, t);

	/* If its return is not processed, this is all of its overhead. */
	if (call->t && now - began < CT_COST_MAX_NS)
		call->timed_ns = now - began + 1;
	else
		cost_add(t, now - began, now);
	cost_skip(t);
}

static inline void enter(struct process *p, struct thread *t, struct call *call)
{
	const struct ct_spec *spec = once(&p->set->specs[call->func_id].of);
	struct ct_shm_slot *s = t->slot;
	uint32_t level = spec->level;
	bool sampled = false;
	uint64_t began = 0;
	int outer = 0;

	if (likely(level < CT_LEVEL_OFF))
		level = call_level(p, t, spec);
	if (unlikely(level >= CT_LEVEL_OFF)) {
		off_mark(p, call, spec);
		return;
	}
	if (unlikely(is_within(t, call->sp, t->busy_sp) ||
		     (level == CT_LEVEL_COUNT && !count_has(t, call->func_id)))) {
		enter_dropped(s);
		return;
	}
	busy_set(t, call->sp);
	/* Check again now that the record in progress is visible to the tracer, which waits for it
	 * unless it has ended. */
	if (unlikely(p->set->ended)) {
		busy_clear(t);
		return;
	}
	if (unlikely(!--t->skip))
		began = thread_now(p, t);
	call->depth = ct_shm_depth(s);
	if (call->depth && likely(is_inproc(t, call->depth, call->sp))) {
		outer = call->depth;
	} else if (unlikely(call->depth)) {
		outer = calls_unwind_stale(p, t, call->sp);
		call->depth = ct_shm_depth(s);
	}
	if (unlikely(call->depth >= CT_MAX_DEPTH)) {
		s->drops[CT_DROP_DEPTH]++;
	} else {
		call->spec = spec;
		call->frame = once(&s->frames[call->depth]);
		if (unlikely(spec->flags & (CT_SPEC_F_SAMPLED | CT_SPEC_F_PYTHON)))
			sampled = frames_begin(p, t, call, &level);
		if (likely(enter_frame(p, t, call, level, outer))) {
			call->t = t;
			call->gen = p->alive;
			if (unlikely(sampled))
				call->frame->flags |= CT_FRAME_F_SAMPLED;
		}
	}
	call->timed_ns = 0;
	if (unlikely(call->start_ns >= t->look_ns))
		thread_look(t, call->start_ns);
	if (unlikely(began))
		enter_timed(p, t, call, began);
	busy_clear(t);
	if (unlikely((int64_t)(call->start_ns - p->set->beat_ns) > (int64_t)CT_SHM_STALE_NS))
		process_check_tracer(p, call->start_ns);
}

/* Copies words of the caller's stack. A stack may end after its used part: another page is read
 * only if it is certainly mapped. */
static inline void copy_stack(struct call *call, const struct thread *t)
{
#ifdef __x86_64__
	uint64_t from = call->sp + 8;
#else
	uint64_t from = call->sp;
#endif
	uint64_t left = 4096 - (from & 4095);

	if (likely(left >= sizeof(call->stack)) ||
	    (t && is_own_stack(t, from) && from + sizeof(call->stack) <= t->stack_hi)) {
		memcpy(call->stack, (void *)from, sizeof(call->stack));
		return;
	}
	stack_words(call->stack, from, left);
}

/* Prefetches all lines that will be written. In a program that computes between calls, none of them
 * is in the caches, and a waiting store delays those after it. Loads need no prefetch, because
 * they run out of order. always_inline: gcc 12 drops a call that does nothing else. */
static inline __attribute__((always_inline)) void fetch(void)
{
	const uint8_t *next = inject_me.next, *t = (const uint8_t *)inject_me.t;
	const uint8_t *frame = (const uint8_t *)inject_me.frame;

	__builtin_prefetch(t, 1);
	__builtin_prefetch(t + 64, 1);
	__builtin_prefetch(inject_me.slot, 1);
	__builtin_prefetch(frame, 1);
	__builtin_prefetch(frame + 64, 1);
	__builtin_prefetch(next, 1);
	__builtin_prefetch(next + 64, 1);
	__builtin_prefetch(next + 128, 1);
}

/* Returns false if the call is not to be recorded. */
static cold bool enter_role(struct call *call)
{
	uint32_t role = call->role & ~HOOK_GATED;

	if (role == HOOK_UNLOADS)
		names_forget();
	else if (role == HOOK_FREES)
		comm_free_begin(call->regs[0]);
	if (!(call->role & HOOK_GATED) || gate_enter(call->sp))
		return true;
	call->role = HOOK_NONE;
	return false;
}

hot void *inject_enter(struct call *call)
{
	const struct hook *hook = once(&inject_hooks[call->func_id]);
	struct process *p = inject_me.process;
	struct thread *t = inject_me.t;

	fetch();
	call->t = NULL;
	call->start_ns = 0;
	call->hook = call->func_id;
	call->func_id = hook->func_id;
	call->role = hook->role;
	if (unlikely(!t || inject_me.gen != p->alive)) {
		t = thread_begin(call->sp);
		p = inject_me.process;
	}
	if (!t || !p->set->specs[call->func_id].of.in_regs)
		copy_stack(call, t);
	if (unlikely(call->role) && !enter_role(call))
		return hook->real;
	if (likely(t)) {
		if (unlikely(p->set->ended)) {
			process_end();
		} else {
			enter(p, t, call);
			return hook->bypass;
		}
	}
	return hook->real;
}

/* --- return --- */

static inline void leave(struct process *p, struct thread *t, const struct call *call, uint64_t now,
			 int32_t result)
{
	const struct ct_spec *spec = call->spec;
	struct ct_shm_slot *s = t->slot;
	struct ct_frame *f = call->frame;
	bool forgets = true, sent = true;

	if (unlikely(ct_shm_depth(s) > call->depth + 1))
		calls_drop_frames(t, call->depth + 1, now, CT_CALL_F_ABANDONED);
	if (unlikely(f->ioctl_cnt && call->depth))
		recorder_add_ioctls(f - 1, f);
	if (f->flags & CT_FRAME_F_COUNTED) {
		count_returned(t, call, result, now - call->start_ns);
		s->stats[CT_STAT_COUNTED]++;
	} else if (unlikely(now - call->start_ns < p->set->min_duration_ns) &&
		   !(spec->flags & CT_SPEC_F_KEEP)) {
		frame_row(f, CT_SHM_ROW_FILTERED, s->stats[CT_STAT_FILTERED] + 1);
		s->stats[CT_STAT_FILTERED]++;
		forgets = sent = false;
	} else if (likely(is_short(spec, f))) {
		sent = call_put_short(t, call, now, result);
	} else if (f->flags & CT_FRAME_F_SAMPLED) {
		sent = call_put_sample(p, t, call, now, result);
	} else {
		sent = call_put(t, call, now, 0, result, ct_result_is_ok(spec, result));
	}
	depth_set(s, call->depth);
	inject_me.frame = f;
	if (unlikely(!sent))
		number_back(t, spec, f);
	/* Must come last, because names sent from here on must follow this record. */
	if (unlikely(spec->flags & CT_SPEC_F_UNLOADS) && forgets)
		names_forget();
}

static bool frame_is_own(const struct ct_shm_slot *s, const struct call *call)
{
	const struct ct_frame *f = call->frame;

	return ct_shm_depth(s) > call->depth && f->sp == call->sp && f->start_ns == call->start_ns;
}

static cold void exit_role(const struct call *call, uint64_t result)
{
	void **to = (void **)call->regs[1];
	uint32_t role = call->role & ~HOOK_GATED;

	if (call->role & HOOK_GATED)
		gate_leave();
	if (role == HOOK_UNLOADS)
		names_forget();
	else if (role == HOOK_FREES)
		comm_free_end(call->regs[0]);
	/* The call succeeded, so the driver has written there. */
	else if (role == HOOK_ANSWERS && (int32_t)result == 0 && to && *to)
		*to = hook_answer(*to);
}

hot void inject_exit(struct call *call, uint64_t result)
{
	struct process *p = inject_me.process;
	struct thread *t = call->t;
	uint64_t now, done;

	/* In a child forked during the call, or in another thread, the frame is not valid. */
	if (likely(t && inject_me.t == t && inject_me.gen == call->gen && p->alive == call->gen)) {
		busy_set(t, call->sp);
		now = thread_now(p, t);
		/* For a tracer that has ended, the call is in flight. */
		if (likely(frame_is_own(t->slot, call) && !p->set->ended))
			leave(p, t, call, now, result);
		if (unlikely(call->timed_ns)) {
			done = thread_now(p, t);
			cost_add(t, call->timed_ns + done - now, done);
		}
		busy_clear(t);
	}
	if (unlikely(call->role))
		exit_role(call, result);
}
