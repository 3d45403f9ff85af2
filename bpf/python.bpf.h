/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * --python: the frames of Python code that a call was made from, innermost first: of each its code
 * object and the instruction. They are put behind the record's stack. What they are called is found
 * by user space, once for each code object (model/python.c).
 *
 * A thread's frames hang on its thread state, which is one of a list in the runtime: the one that
 * has the thread's pthread_self(), or where registers do not tell that, its number in its own PID
 * namespace. Nothing here is believed: a list may be a ring, so all loops end by count; and a read
 * fetches no page, so what is swapped out or made up ends them, too.
 */
#ifndef CT_PYTHON_BPF_H
#define CT_PYTHON_BPF_H

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1); /* set before load */
	__type(key, __u32);
	__type(value, struct ct_python);
} pythons SEC(".maps");

/* A power of two. */
#define PYTHON_TOLD_LOG 12

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1 << PYTHON_TOLD_LOG);
	__type(key, __u32);
	__type(value, __u64);
} python_told SEC(".maps");

/* Thread states and interpreters that are looked at for one thread, before it is given up. */
#define PYTHON_LOOK_MAX 512
/* Frames that are no code, besides those that are. */
#define PYTHON_NO_CODE_MAX 64
/* A thread without a state is looked for again when one was added, and at one of so many calls. */
#define PYTHON_RETRY 64

/* Not static, with numbers for arguments: verified once, and what it returns is any number. */
__noinline __u64 user_word(__u64 addr)
{
	__u64 word = 0;

	bpf_probe_read_user(&word, sizeof(word), (void *)addr);
	return word;
}

/* What thread states know this thread by. */
static __always_inline __u64 python_self(void)
{
#if defined(__TARGET_ARCH_x86)
	return bpf_get_current_task_btf()->thread.fsbase;
#else
	struct pid *pid = bpf_get_current_task_btf()->thread_pid;
	const void *numbers = (const void *)pid + bpf_core_field_offset(struct pid, numbers);
	const struct upid *in =
		numbers + BPF_CORE_READ(pid, level) * bpf_core_type_size(struct upid);

	return BPF_CORE_READ(in, nr);
#endif
}

/* The innermost frame of a thread state; 0: it runs no Python. */
static __always_inline __u64 python_top(const struct ct_python *p, __u64 state)
{
	__u64 frame = user_word(state + p->thread_frame);

	if (frame && p->cframe_frame != CT_PYTHON_NONE)
		frame = user_word(frame + p->cframe_frame);
	return frame;
}

/* Looks for the thread's state that runs something. Returns 0 when the list was too long. */
__noinline int python_search(struct ct_thread *t, struct ct_python *p, __u64 self)
{
	__u64 interpreter, state;

	if (!t || !p)
		return 0;
	interpreter = user_word(p->runtime + p->interpreters);
	state = user_word(interpreter + p->threads);
	t->python = 0;
	t->python_head = state;
	for (int i = 0; i < PYTHON_LOOK_MAX; i++) {
		if (!interpreter)
			return 1;
		if (!state) {
			interpreter = user_word(interpreter + p->interpreter_next);
			state = user_word(interpreter + p->threads);
			continue;
		}
		if (user_word(state + p->thread_id) == self && python_top(p, state)) {
			t->python = state;
			return 1;
		}
		state = user_word(state + p->thread_next);
	}
	return 0;
}

/* States are added in front: with the same one there, none has come since the last search. */
static __always_inline bool python_is_news(const struct ct_thread *t, const struct ct_python *p)
{
	__u64 interpreter = user_word(p->runtime + p->interpreters);

	return !t->python_head || t->stats[CT_STAT_ENTRIES] % PYTHON_RETRY == 0 ||
	       (interpreter && user_word(interpreter + p->threads) != t->python_head);
}

/* The frame that the thread runs; 0: none. The state of last time is looked at first: one that was
 * freed runs nothing, or is another thread's. */
static __always_inline __u64 python_frame(struct ct_thread *t, struct ct_python *p,
					  struct ct_call *c)
{
	__u64 self = python_self(), frame;

	if (t->python && user_word(t->python + p->thread_id) == self) {
		frame = python_top(p, t->python);
		if (frame)
			return frame;
	}
	if (!python_is_news(t, p))
		return 0;
	if (!python_search(t, p, self))
		c->python |= CT_PYTHON_F_BROKEN;
	return t->python ? python_top(p, t->python) : 0;
}

#define WINDOW(t)	   ((t)->out + CT_OUT_SZ - CT_PYTHON_WINDOW_SZ)
#define FRAME_WORD(f, off) (*(__u64 *)((f) + ((off) & (CT_PYTHON_FRAME_SZ_MAX - 8))))

/* Has the wanted part of a frame, from lo on, in the window. 0: it cannot be read. */
static __always_inline int python_fill(struct ct_thread *t, const struct ct_python *p, __u64 lo)
{
	__u64 hi = lo + (p->frame_sz & (CT_PYTHON_FRAME_SZ_MAX - 1)), page = lo & ~4095ull, len;

	if (lo >= t->python_lo && hi <= t->python_hi)
		return 1;
	/* Not from another page: that may not be there. */
	if (p->side_by_side)
		lo = hi - page > CT_PYTHON_WINDOW ? hi - CT_PYTHON_WINDOW : page;
	len = hi - lo;
	barrier_var(len);
	if (len > CT_PYTHON_WINDOW || bpf_probe_read_user(WINDOW(t), len, (void *)lo))
		return 0;
	t->python_lo = lo;
	t->python_hi = hi;
	return 1;
}

/* Adds a frame to the record's; they begin at out + off. Returns the one that it was called from, 0
 * after the last. Their number is in the record, for the verifier would try all that it may be. */
__noinline __u64 python_step(struct ct_thread *t, struct ct_python *p, __u64 frame, __u32 off)
{
	struct ct_python_frame *to;
	struct ct_call *c;
	__u8 *from;
	__u64 in;
	__u32 at;

	if (!t || !p)
		return 0;
	c = (struct ct_call *)t->out;
	at = off + c->python_cnt * sizeof(*to);
	barrier_var(at);
	if (c->python_cnt >= CT_PYTHON_MAX || at > CT_OUT_SZ - CT_PYTHON_WINDOW_SZ - sizeof(*to)) {
		c->python |= CT_PYTHON_F_CUT;
		return 0;
	}
	if (!python_fill(t, p, frame + p->frame_off)) {
		c->python |= CT_PYTHON_F_BROKEN;
		return 0;
	}
	in = frame + p->frame_off - t->python_lo;
	barrier_var(in);
	from = WINDOW(t) + (in & (CT_PYTHON_WINDOW - 1));
	if (from[p->frame_owner & (CT_PYTHON_FRAME_SZ_MAX - 1)] >= p->owner_min)
		return FRAME_WORD(from, p->frame_back);
	to = (struct ct_python_frame *)(t->out + at);
	/* From 3.14 on the last bits say how it is referred to. */
	to->code = FRAME_WORD(from, p->frame_code) & ~7ull;
	to->ip = FRAME_WORD(from, p->frame_ip);
	t->python_key = (t->python_key + to->code + to->ip) * cfg.name_secret[0];
	c->python_cnt++;
	return FRAME_WORD(from, p->frame_back);
}

/* Reads the frames to out + off; how many. */
__noinline int python_read(struct ct_thread *t, __u32 off)
{
	struct ct_python *p;
	struct ct_call *c;
	__u64 frame;
	__u32 pid;

	if (!t || !cfg.python)
		return 0;
	c = (struct ct_call *)t->out;
	pid = t->pid;
	p = bpf_map_lookup_elem(&pythons, &pid);
	if (!p)
		return 0;
	c->python = CT_PYTHON_F_KNOWN;
	if (!p->runtime)
		return 0;
	t->python_key = pid;
	t->python_lo = t->python_hi = 0;
	frame = python_frame(t, p, c);
	for (int i = 0; i < CT_PYTHON_MAX + PYTHON_NO_CODE_MAX && frame; i++)
		frame = python_step(t, p, frame, off);
	if (frame)
		c->python |= CT_PYTHON_F_CUT;
	return c->python_cnt;
}

/* The reader is woken for frames that this processor has not sent lately: what they are called is
 * read from the process, which may not live long. */
static __always_inline void python_tell(struct ct_thread *t)
{
	__u64 key = t->python_key, *told;
	__u32 i = key >> (64 - PYTHON_TOLD_LOG);

	told = bpf_map_lookup_elem(&python_told, &i);
	if (!told || *told == key)
		return;
	*told = key;
	t->wake = 1;
}

/* Bytes of frames. */
static __always_inline __u32 python_of(struct ct_thread *t, __u32 off)
{
	__u32 cnt;

	if (off > CT_OUT_PYTHON_OFF_MAX)
		return 0;
	cnt = python_read(t, off);
	if (!cnt || cnt > CT_PYTHON_MAX)
		return 0;
	python_tell(t);
	return cnt * sizeof(struct ct_python_frame);
}

/* The child has its parent's memory. */
static __always_inline void python_fork(__u32 ppid, __u32 pid)
{
	struct ct_python *p;

	if (!cfg.python)
		return;
	bpf_map_delete_elem(&pythons, &pid);
	p = bpf_map_lookup_elem(&pythons, &ppid);
	if (p)
		bpf_map_update_elem(&pythons, &pid, p, BPF_ANY);
}

/* Or not wanted. */
static __always_inline bool python_is_known(__u32 pid)
{
	return !cfg.python || bpf_map_lookup_elem(&pythons, &pid);
}

static __always_inline void python_end(__u32 pid)
{
	if (cfg.python)
		bpf_map_delete_elem(&pythons, &pid);
}

#endif /* CT_PYTHON_BPF_H */
