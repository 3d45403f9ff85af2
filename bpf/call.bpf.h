/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * CUDA calls: one entry and one return program for all functions. A probe's cookie identifies the
 * function and the library file; the spec in the `specs` map defines what to copy.
 *
 * A call is identified by the stack pointer at its entry point. This needs no help from the kernel
 * (session cookies), works the same for all three ways of attaching, and is self-correcting. A
 * frame below the stack pointer of a newer call belongs to an abandoned call (longjmp, an
 * exception, thread cancellation) and is dropped. Equal stack pointers mean one of:
 * - the same call, seen through two attachments (one file with two names for its inode): drop it;
 * - a tail call, one export jumping to another: nest it;
 * - another call from the same place after longjmp: drop the old frame. The return address
 * distinguishes it from a tail call, because the kernel replaces that of a call that has yet to
 * return.
 *
 * A thread may be on another stack in the middle of a call (coroutines, signal handlers). Then
 * stack pointers cannot be compared. The kernel's own list of pending returns still compares them.
 * It drops a call when another begins above it, or when a call above it returns. It kills the
 * process (SIGILL; all kernels up to 6.18) when the dropped call returns. So the return of a call
 * on another stack is not probed: see on_other_stack().
 */
#ifndef CT_CALL_BPF_H
#define CT_CALL_BPF_H

/* Registers and stack by the ABI at an entry point, and the stack pointer when the return probe
 * fires: x86-64's `ret` has popped the return address by then. */
#if defined(__TARGET_ARCH_x86)
#define REG_WORDS      CT_REG_WORDS_X86
#define STACK_ARGS_OFF 8
#define RETURN_SP_OFF  8
#elif defined(__TARGET_ARCH_arm64)
#define REG_WORDS      CT_REG_WORDS_ARM64
#define STACK_ARGS_OFF 0
#define RETURN_SP_OFF  0
#else
#error "no calling convention for this architecture"
#endif

/* Assembles the record's fixed part and words from a frame. Returns its size so far. */
static __always_inline __u32 call_begin(struct ct_thread *t, const struct ct_frame *f, __u32 depth,
					const struct ct_spec *spec, __u64 now, __u16 flags)
{
	struct ct_call *c = (struct ct_call *)t->out;
	__u32 word_cnt = recorder_word_cnt(spec);

	rec_begin_at(&c->rec, CT_REC_CALL, 0, t->pid, t->tid, f->start_ns);
	c->rec.flags = flags;
	c->end_ns = now;
	recorder_fill(c, f, word_cnt);
	c->parent_id = 0;
	if (depth > 0 && depth < CT_MAX_DEPTH)
		c->parent_id = t->frames[depth - 1].call_id;
	c->lib_id = CT_LIB_ID(f->lib_id);
	c->result = 0;
	c->cap_cnt = 0;
	c->stack_cnt = 0;
	c->python_cnt = 0;
	c->python = 0;
	c->off_cpu_ns = t->off_cpu_ns - f->off_cpu_ns;
	c->operator_id = f->operator_id;
	__builtin_memset(c->cap_len, 0, sizeof(c->cap_len));
	__builtin_memcpy(c->words, f->words, REG_WORDS * 8);
	if (word_cnt > REG_WORDS)
		__builtin_memcpy(c->words + REG_WORDS, f->words + REG_WORDS,
				 (CT_MAX_WORDS - REG_WORDS) * 8);
	return CT_CALL_FIXED_SZ + word_cnt * 8;
}

/* Drops the frame at depth, whose call will not return. Always returns 0. */
__noinline int call_drop_frame(struct ct_thread *t, __u32 depth, __u64 now, __u16 flags)
{
	struct ct_frame *f;
	struct ct_spec *spec;
	__u32 func_id;

	if (!t)
		return 0;
	f = &t->frames[depth & (CT_MAX_DEPTH - 1)];
	func_id = f->func_id;
	if (flags & CT_CALL_F_ABANDONED)
		t->stats[CT_STAT_ABANDONED]++;
	else
		t->stats[CT_STAT_UNFINISHED]++;
	if (f->flags & CT_FRAME_F_COUNTED) {
		t->stats[CT_STAT_COUNTED]++;
		if (count_given_up(t, func_id, flags))
			t->drops[CT_DROP_COUNT]++;
		return 0;
	}
	if (f->flags & CT_FRAME_F_SAMPLED)
		flags |= CT_CALL_F_SAMPLED;
	spec = bpf_map_lookup_elem(&specs, &func_id);
	if (spec)
		thread_send(t, call_begin(t, f, depth, spec, now, flags));
	return 0;
}

/* Results of call_unwind_stale() that are not a depth. */
#define CALL_DUP	 -1 /* seen through another attachment: do not count again */
#define CALL_TAKEN_OVER	 -3 /* the same, but this attachment will exist when it returns */
#define CALL_OTHER_STACK -2 /* on another stack: do not probe its return */

/*
 * Drops frames of abandoned calls to make space for a call with this stack pointer. Returns the
 * depth of the new frame, or CALL_*. stacks: check for other stacks.
 */
__noinline int call_unwind_stale(struct ct_thread *t, __u64 sp, __u32 func_id, __u32 lib_id,
				 bool stacks)
{
	__u64 now = 0, trampoline = return_trampoline();

	if (!t)
		return CALL_DUP;

	for (int i = 0; i < CT_MAX_DEPTH; i++) {
		__u32 depth = t->depth;
		struct ct_frame *top;
		bool same, elsewhere;

		if (depth == 0 || depth > CT_MAX_DEPTH)
			break;
		top = &t->frames[(depth - 1) & (CT_MAX_DEPTH - 1)];
		same = top->sp == sp && top->func_id == func_id;
		/* When the call is first seen, its return address is still unchanged. */
		if (same && top->lib_id != lib_id) {
			if (CT_IS_NEWER(lib_id, top->lib_id)) {
				top->lib_id = lib_id;
				return CALL_TAKEN_OVER;
			}
			t->stats[CT_STAT_DUPLICATES] += CT_LIB_ID(top->lib_id ^ lib_id) != 0;
			return CALL_DUP;
		}
		elsewhere = stacks && on_other_stack(sp, top->sp, top->flags & CT_FRAME_F_DEEP);
		if (!same && (elsewhere || top->sp >= sp) && !frame_is_stale(top->sp, trampoline)) {
			if (elsewhere)
				return CALL_OTHER_STACK;
			break;
		}
		if (!now)
			now = bpf_ktime_get_ns();
		t->depth = depth - 1;
		call_drop_frame(t, depth - 1, now, CT_CALL_F_ABANDONED);
	}
	return t->depth;
}

static __always_inline void read_words(struct pt_regs *ctx, struct ct_frame *f,
				       const struct ct_spec *spec)
{
	__u32 word_cnt = spec->word_cnt, size;

	f->words[0] = PT_REGS_PARM1(ctx);
	f->words[1] = PT_REGS_PARM2(ctx);
	f->words[2] = PT_REGS_PARM3(ctx);
	f->words[3] = PT_REGS_PARM4(ctx);
	f->words[4] = PT_REGS_PARM5(ctx);
	f->words[5] = PT_REGS_PARM6(ctx);
#if REG_WORDS == 8
	f->words[6] = PT_REGS_PARM7(ctx);
	f->words[7] = PT_REGS_PARM8(ctx);
#endif
	if (word_cnt <= REG_WORDS)
		return;
	/* Compare the same register that is used: older verifiers (6.1, 6.12) do not propagate a
	 * bound from one to the other. */
	size = (word_cnt - REG_WORDS) * 8;
	barrier_var(size);
	if (size <= (CT_MAX_WORDS - REG_WORDS) * 8)
		bpf_probe_read_user(
			&f->words[REG_WORDS], size,
			(void *)(PT_REGS_SP(ctx) + STACK_ARGS_OFF + spec->word_skip * 8));
	/* The words before the skipped ones are at the start of the copied words. */
	size = spec->skip_at * 8;
	if (!size)
		return;
	barrier_var(size);
	if (size <= (CT_MAX_WORDS - REG_WORDS) * 8)
		bpf_probe_read_user(&f->words[REG_WORDS], size,
				    (void *)(PT_REGS_SP(ctx) + STACK_ARGS_OFF));
}

/* Checks once per thread whether its process is traced, and creates the thread's state if so. */
static __always_inline struct ct_thread *thread_admit(const struct ct_spec *spec, __u32 pid,
						      __u32 tid)
{
	if (spec->flags & CT_SPEC_F_STUB) {
		if (pid != cfg.own_pid)
			return NULL;
	} else if (!pid || pid == cfg.own_pid) {
		return NULL;
	} else if (cfg.filter_mode == CT_FILTER_PIDS && !bpf_map_lookup_elem(&pids, &pid)) {
		return NULL;
	} else if (cfg.filter_uid && (__u32)bpf_get_current_uid_gid() != cfg.uid) {
		return NULL;
	}
	return thread_new(pid, tid);
}

/*
 * An entry-only call has no frame to recognise a second attachment by. The slot above the last
 * frame holds the newest such call.
 */
static __always_inline bool entry_is_new(struct ct_thread *t, const struct ct_frame *f, __u64 sp,
					 __u32 func_id, __u32 lib_id)
{
	if (f->flags != CT_FRAME_F_ENTRY_ONLY || f->sp != sp || f->func_id != func_id ||
	    f->lib_id == lib_id)
		return true;
	t->stats[CT_STAT_DUPLICATES] += CT_LIB_ID(f->lib_id ^ lib_id) != 0;
	return false;
}

static __always_inline void call_count_entry(struct ct_thread *t, struct ct_frame *f, __u32 func_id)
{
	f->flags = CT_FRAME_F_ENTRY_ONLY;
	t->stats[CT_STAT_ENTRY_ONLY]++;
	t->stats[CT_STAT_COUNTED]++;
	if (count_entered(t, func_id))
		t->drops[CT_DROP_COUNT]++;
}

static __always_inline bool stack_is_wanted(bool sampled)
{
	return !cfg.profile || sampled;
}

static __always_inline __u64 sample_sent(__u64 begin_ns)
{
	__u64 now = bpf_ktime_get_ns(), took = now - begin_ns;

	this_cpu()->sample_ns = now + took * CT_SAMPLE_PAUSE;
	return took;
}

static __always_inline void call_send_entry(struct pt_regs *ctx, struct ct_thread *t,
					    struct ct_frame *f, __u32 depth,
					    const struct ct_spec *spec, bool sampled)
{
	__u16 flags = CT_CALL_F_ENTRY_ONLY | (sampled ? CT_CALL_F_SAMPLED : 0);
	__u32 size;

	f->flags = CT_FRAME_F_ENTRY_ONLY;
	t->stats[CT_STAT_ENTRY_ONLY]++;
	f->start_ns = bpf_ktime_get_ns();
	name_of_call(t, f, spec, false);
	size = call_begin(t, f, depth, spec, f->start_ns, flags);
	/* Captured as for a failed call: output memory is not written yet. */
	size = call_capture(t, f, spec, false, size);
	if (spec->flags & CT_SPEC_F_STACK && stack_is_wanted(sampled))
		size += stack_of_entry(ctx, t, size);
	if (spec->flags & CT_SPEC_F_PYTHON && stack_is_wanted(sampled))
		size += python_of(t, size);
	thread_send(t, size);
	if (sampled)
		t->stats[CT_STAT_SAMPLE_NS] += sample_sent(f->start_ns);
}

static __always_inline void call_number(struct ct_thread *t, struct ct_frame *f)
{
	if (t->next_id == t->end_id) {
		t->next_id = __sync_fetch_and_add(&next_id, CT_ID_BLOCK);
		t->end_id = t->next_id + CT_ID_BLOCK;
	}
	f->call_id = t->next_id++;
}

static __always_inline __u32 entry_kind(__u64 cookie, bool may_refuse, bool counted)
{
	return cost_kind(cookie, may_refuse || cookie & CT_COOKIE_F_ENTRY, counted);
}

static __always_inline void entry_cost(struct ct_thread *t, __u32 func_id,
				       const struct timer *timing, __u64 cookie, bool may_refuse,
				       bool counted)
{
	__u32 ns = timing->ns ? timing_end(timing, bpf_ktime_get_ns()) : 0;

	if (ns)
		cost_add(t, func_id, ns, timing->found_ns, entry_kind(cookie, may_refuse, counted));
}

/* A function of its own: its stack would be added to that of python_read(), and older kernels round
 * that of each function up to 32 bytes, of 512 in all. */
__noinline int thread_make(__u32 pid, __u32 tid)
{
	return thread_new(pid, tid) != NULL;
}

/* A call of the library begins that may have Python frames or an operator. Its record follows. The
 * kernel verifies this function once. A program may call the library's function at any rate: for
 * profiles, the processor's pause holds here, too. */
__noinline int frames_of_inproc(__u32 pid, __u32 tid, __u64 sp, __u64 call_id, __u32 depth)
{
	__u64 begin_ns = bpf_ktime_get_ns();
	struct ct_thread *t;
	struct ct_call *c;
	__u32 size;

	if (!cfg.inproc || !bpf_map_lookup_elem(&inproc, &pid) ||
	    (cfg.profile && begin_ns < this_cpu()->sample_ns))
		return 0;
	t = bpf_map_lookup_elem(&threads, &tid);
	if (!t && thread_make(pid, tid))
		t = bpf_map_lookup_elem(&threads, &tid);
	if (!t)
		return 0;
	c = (struct ct_call *)t->out;
	__builtin_memset(c, 0, CT_CALL_FIXED_SZ);
	rec_begin(&c->rec, CT_REC_SAMPLE, 0, pid, tid);
	c->call_id = call_id & CT_SAMPLE_ID_MASK;
	c->depth = depth;
	if (cfg.torch)
		c->operator_id = operator_in(tid, sp, false);
	size = CT_CALL_FIXED_SZ + python_of(t, CT_CALL_FIXED_SZ);
	if (size > sizeof(t->out))
		size = sizeof(t->out);
	c->rec.size = size;
	if ((cfg.python || c->operator_id) && !rec_send(t->out, size, false))
		total_drop(CT_DROP_BEGIN);
	/* The library counts this time. */
	if (cfg.profile)
		sample_sent(begin_ns);
	return 0;
}

/*
 * Entry point of a traced function. Returns 1 when the return need not be probed. may_refuse: 1
 * keeps the kernel from replacing the return address; otherwise, skipping the return gains nothing.
 */
static __always_inline int call_enter(struct pt_regs *ctx, __u64 cookie, bool may_refuse)
{
	struct timer timing = timing_begin(&this_cpu()->left);
	__u32 func_id = CT_COOKIE_FUNC(cookie), lib_id = CT_COOKIE_LIB(cookie);
	__u64 id = current_id(), sp = PT_REGS_SP(ctx);
	__u32 pid = id >> 32, tid = id, level;
	struct ct_spec *spec;
	struct ct_thread *t;
	struct ct_frame *f;
	bool is_entry_only, sampled;
	int depth, outer;

	if (cfg.python && func_id == CT_FUNC_PYTHON_FREE) {
		python_free(PT_REGS_PARM1(ctx));
		return 1;
	}
	if ((cfg.python | cfg.torch) && func_id == CT_FUNC_SAMPLED) {
		frames_of_inproc(pid, tid, PT_REGS_PARM1(ctx), PT_REGS_PARM2(ctx),
				 PT_REGS_PARM3(ctx));
		return 1;
	}
	spec = bpf_map_lookup_elem(&specs, &func_id);
	if (!spec || spec->level >= CT_LEVEL_OFF || is_inproc(pid, func_id))
		return 1;
	inproc_begins(pid, tid, func_id);
	t = bpf_map_lookup_elem(&threads, &tid);
	if (!t) {
		t = thread_admit(spec, pid, tid);
		if (!t)
			return 1;
	}
	if (timing.ns)
		timing.found_ns = bpf_ktime_get_ns() - timing.ns;
	level = call_level(t, spec);
	if (level == CT_LEVEL_OFF)
		return 1;
	sampled = call_is_sampled(spec);
	if (sampled)
		level = CT_LEVEL_TRACE;
	if (cfg.torch && spec->flags & CT_SPEC_F_TORCH &&
	    !torch_is_news(ctx, tid, spec->flags, sp)) {
		cost_of_no_call(&timing, tid,
				ct_cost_base(&cost_cfg, entry_kind(cookie, may_refuse, false),
					     timing.found_ns));
		return 1;
	}
	is_entry_only = spec->flags & CT_SPEC_F_NO_RETURN;
	depth = outer = t->depth;
	/* The depth does not matter for a call without frame and record. */
	if (depth && (!is_entry_only || level != CT_LEVEL_COUNT || depth >= CT_MAX_DEPTH)) {
		outer = call_unwind_stale(t, sp, func_id, lib_id, may_refuse);
		if (outer == CALL_DUP)
			return 1;
		if (outer == CALL_TAKEN_OVER)
			return 0;
		if (outer == CALL_OTHER_STACK) {
			is_entry_only = true;
			outer = 0;
		}
		depth = t->depth;
	}
	if (depth >= CT_MAX_DEPTH) {
		t->drops[CT_DROP_DEPTH]++;
		return 1;
	}
	f = &t->frames[depth & (CT_MAX_DEPTH - 1)];
	if (is_entry_only && !entry_is_new(t, f, sp, func_id, lib_id))
		return 1;
	t->stats[CT_STAT_ENTRIES]++;
	f->sp = sp;
	f->func_id = func_id;
	f->lib_id = lib_id;
	if (is_entry_only && spec->flags & CT_SPEC_F_UNLOADS)
		names_forget(t->pid);
	if (is_entry_only && level == CT_LEVEL_COUNT) {
		call_count_entry(t, f, func_id);
		entry_cost(t, func_id, &timing, cookie, may_refuse, true);
		return 1;
	}
	f->call_id = 0;
	f->depth = 0;
	f->api = spec->api;
	f->api_depth = 0;
	if (outer > 0)
		recorder_nest(t->frames, f, outer);
	f->flags = spec->flags & CT_SPEC_F_DEEP ? CT_FRAME_F_DEEP : 0;
	if (sampled)
		f->flags |= CT_FRAME_F_SAMPLED;
	if (level == CT_LEVEL_COUNT)
		f->flags |= CT_FRAME_F_COUNTED;
	else
		call_number(t, f);
	/* No words if arguments are redacted or the function has none. */
	if (spec->word_cnt && !(spec->flags & CT_SPEC_F_TORCH) &&
	    (level != CT_LEVEL_COUNT || spec->bytes_word))
		read_words(ctx, f, spec);
	f->ioctl_cnt = 0;
	f->ioctl_ns = 0;
	f->off_cpu_ns = t->off_cpu_ns;
	f->operator_id = torch_enter(ctx, t, f, spec, sp);
	if (is_entry_only) {
		call_send_entry(ctx, t, f, outer, spec, sampled);
		entry_cost(t, func_id, &timing, cookie, may_refuse, false);
		return 1;
	}
	t->depth = depth + 1;
	f->timed_ns = 0;
	f->start_ns = bpf_ktime_get_ns();
	if (level != CT_LEVEL_COUNT)
		inproc_announce(t, f, false);
	if (timing.ns) {
		f->timed_ns = timing_end(&timing, f->start_ns);
		f->found_ns = timing.found_ns;
	}
	return 0;
}

static __always_inline bool frame_is(const struct ct_frame *f, __u64 sp, __u32 func_id,
				     __u32 lib_id)
{
	return f->sp == sp && f->func_id == func_id && f->lib_id == lib_id;
}

/* Finds the frame of a call below the top one and drops those above it. Returns its depth, or -1 if
 * there is none. */
__noinline int call_find(struct ct_thread *t, __u64 sp, __u32 func_id, __u32 lib_id, __u64 now)
{
	__u32 depth;
	int i;

	if (!t)
		return -1;
	depth = t->depth;
	for (i = CT_MAX_DEPTH - 1; i >= 0; i--)
		if (i < depth && frame_is(&t->frames[i], sp, func_id, lib_id))
			break;
	if (i < 0)
		return -1;
	for (int j = CT_MAX_DEPTH - 1; j > 0; j--)
		if (j > i && j < depth)
			call_drop_frame(t, j, now, CT_CALL_F_ABANDONED);
	return i;
}

/* Finds the frame of the returning call and drops those above it. Returns NULL if the call began
 * before attaching, or is not expected (its entry left no frame, but two of the mechanisms see the
 * return anyway). */
static __always_inline struct ct_frame *call_match(struct ct_thread *t, __u64 sp, __u32 func_id,
						   __u32 lib_id, __u64 now,
						   const struct ct_spec *spec)
{
	__u32 depth = t->depth, top = depth - 1;
	struct ct_frame *f;
	int i;

	/* The usual case. */
	if (top < CT_MAX_DEPTH) {
		/* Without this, the verifier of 6.1 checks one register and indexes by another. */
		barrier_var(top);
		f = &t->frames[top & (CT_MAX_DEPTH - 1)];
		if (frame_is(f, sp, func_id, lib_id)) {
			t->depth = top;
			return f;
		}
	}
	i = call_find(t, sp, func_id, lib_id, now);
	if (i < 0) {
		/* A call within a known call began after attaching, so it found no space for a
		 * frame. With in-process libraries, another attachment may have seen it. */
		if (!cfg.inproc && !(spec->flags & CT_SPEC_F_NO_RETURN) &&
		    spec->level != CT_LEVEL_OFF && t->proc_level != CT_PROC_OFF &&
		    (!depth || sp > t->frames[0].sp))
			t->stats[CT_STAT_ORPHANS]++;
		return NULL;
	}
	t->depth = i;
	return &t->frames[i & (CT_MAX_DEPTH - 1)];
}

/* Ends a call that has returned. f is its frame, no longer part of the thread. */
static __always_inline void call_end(struct pt_regs *ctx, struct ct_thread *t, struct ct_frame *f,
				     const struct ct_spec *spec, __u64 now)
{
	__s32 result = PT_REGS_RC(ctx);
	__u32 func_id = f->func_id, size;
	bool ok, sampled = cfg.profile && f->flags & CT_FRAME_F_SAMPLED;
	__u64 bytes = 0;

	if (f->flags & CT_FRAME_F_COUNTED) {
		bool failed = ct_result_is_error(spec, result);

		t->stats[CT_STAT_COUNTED]++;
		if (spec->bytes_word)
			bytes = f->words[(spec->bytes_word - 1) & (CT_MAX_WORDS - 1)];
		if (count_returned(t, func_id, now - f->start_ns, failed, bytes))
			t->drops[CT_DROP_COUNT]++;
		if (failed && cfg.rows_max[CT_TABLE_ERRORS] && count_error(t, func_id, result))
			t->drops[CT_DROP_ERRORS]++;
		if (spec->flags & CT_SPEC_F_UNLOADS)
			names_forget(t->pid);
		return;
	}
	if (now - f->start_ns < cfg.min_duration_ns && !(spec->flags & CT_SPEC_F_KEEP)) {
		t->stats[CT_STAT_FILTERED]++;
		inproc_announce(t, f, true);
		return;
	}
	ok = ct_result_is_ok(spec, result);
	name_of_call(t, f, spec, ok);
	size = call_begin(t, f, t->depth, spec, now, sampled ? CT_CALL_F_SAMPLED : 0);
	((struct ct_call *)t->out)->result = result;
	size = call_capture(t, f, spec, ok, size);
	if (spec->flags & CT_SPEC_F_STACK && stack_is_wanted(sampled))
		size += stack_of_return(ctx, t, size);
	if (spec->flags & CT_SPEC_F_PYTHON && stack_is_wanted(sampled))
		size += python_of(t, size);
	thread_send(t, size);
	if (sampled)
		t->stats[CT_STAT_SAMPLE_NS] += sample_sent(now);
	/* Must come after the record, because names sent from here on must follow it. */
	if (spec->flags & CT_SPEC_F_UNLOADS)
		names_forget(t->pid);
}

static __always_inline void return_cost(struct ct_thread *t, const struct ct_frame *f,
					const struct timer *timing, __u64 cookie)
{
	__u32 ns = timing_end(timing, bpf_ktime_get_ns());

	if (ns)
		cost_add(t, f->func_id, f->timed_ns + ns, f->found_ns,
			 cost_kind(cookie, false, f->flags & CT_FRAME_F_COUNTED));
}

static __always_inline int call_return(struct pt_regs *ctx, __u64 cookie)
{
	__u64 now = bpf_ktime_get_ns(), sp = PT_REGS_SP(ctx) - RETURN_SP_OFF;
	__u32 func_id = CT_COOKIE_FUNC(cookie), lib_id = CT_COOKIE_LIB(cookie);
	__u32 tid = current_id();
	struct timer timing;
	struct ct_spec *spec;
	struct ct_thread *t;
	struct ct_frame *f;

	t = bpf_map_lookup_elem(&threads, &tid);
	if (!t)
		return 0;
	spec = bpf_map_lookup_elem(&specs, &func_id);
	if (!spec || spec->level == CT_LEVEL_GONE)
		return 0;
	f = call_match(t, sp, func_id, lib_id, now, spec);
	if (!f)
		return 0;
	if (f->ioctl_cnt && t->depth && t->depth < CT_MAX_DEPTH)
		recorder_add_ioctls(&t->frames[t->depth - 1], f);
	if (f->timed_ns)
		timing = (struct timer){.ns = now, .switches = task_switches()};
	call_end(ctx, t, f, spec, now);
	if (f->timed_ns)
		return_cost(t, f, &timing, cookie);
	return 0;
}

/* The thread ends or its process runs another program: its calls stay unfinished. */
static __always_inline void thread_end(__u32 tid)
{
	struct ct_thread *t = bpf_map_lookup_elem(&threads, &tid);
	struct ct_totals *sum = get_totals();
	__u32 pid, uid;
	__u64 now;

	operators_end(tid);
	if (!t || !sum)
		return;
	if (t->depth) {
		now = bpf_ktime_get_ns();
		for (int n = 1; n <= CT_MAX_DEPTH; n++) {
			__u32 i = CT_MAX_DEPTH - n;

			/* Without this, the compiler counts from 0 down to a negative offset, which
			 * 7.3 rejects. */
			barrier_var(i);
			if (i < t->depth)
				call_drop_frame(t, i, now, CT_CALL_F_UNFINISHED);
		}
		t->depth = 0;
	}
	for (int i = 0; i < CT_STAT_CNT; i++)
		__sync_fetch_and_add(&sum->stats[i], t->stats[i]);
	for (int i = 0; i < CT_DROP_CNT; i++)
		__sync_fetch_and_add(&sum->drops[i], t->drops[i]);
	cost_sum(sum, t);
	pid = t->pid;
	uid = t->uid;
	if (!bpf_map_delete_elem(&threads, &tid))
		thread_uncharge(pid, uid, CT_TABLE_THREADS);
}

#endif /* CT_CALL_BPF_H */
