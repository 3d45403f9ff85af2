/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * --python: the frames of Python code that made a call, innermost first: the code object and the
 * instruction of each. They follow the record's stack. The names of a code object are sent when it
 * is first seen, while it runs, because the process may end at once. A code object may be freed and
 * another allocated there: a probe on CPython's free function detects this (model/python.c).
 *
 * A thread's frames start at its thread state, in a list of the runtime. The state is found by the
 * thread's pthread_self(), or, where registers do not contain that, by its number in its own PID
 * namespace. All data is validated. A list may be circular, so every loop has a maximum count. A
 * read faults no page in, so swapped-out or invalid addresses end the loops, too.
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

/* Number of freed code objects per hash slot: ct_python_slot(). */
__u32 python_freed[1 << CT_PYTHON_PLACES_LOG];

/* Code objects whose names this processor has sent lately, two per four slots. The lowest bit is 1
 * where the names could not be read, else 0. */
#define PYTHON_SENT_LOG (CT_PYTHON_PLACES_LOG - 2)
struct python_sent {
	__u64 newer, older;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1); /* set before load */
	__type(key, __u32);
	__type(value, struct python_sent);
} python_sent SEC(".maps");

/* Names that could not be read are retried once in this many calls. */
#define PYTHON_SEND_RETRY 256
/* Maximum frames above the one on the interpreter's own stack. */
#define PYTHON_PLACE_MAX 64
/* Maximum thread states and interpreters examined for one thread. */
#define PYTHON_LOOK_MAX 512
/* Maximum frames that are not code, in addition to those that are. */
#define PYTHON_NO_CODE_MAX 64
/* A thread's missing state is searched again when one was added, and once in this many calls. */
#define PYTHON_RETRY 64

/* The kernel verifies a function once, instead of at each call, if it is not static and all its
 * parameters are numbers. The result may be any number. */
__noinline __u64 user_word(__u64 addr)
{
	__u64 word = 0;

	bpf_probe_read_user(&word, sizeof(word), (void *)addr);
	return word;
}

/* Returns the id of this thread that thread states contain. */
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

/* Returns the innermost frame of a thread state; 0: it runs no Python. */
static __always_inline __u64 python_top(const struct ct_python *p, __u64 state)
{
	__u64 frame = user_word(state + p->thread_frame);

	if (frame && p->cframe_frame != CT_PYTHON_NONE)
		frame = user_word(frame + p->cframe_frame);
	return frame;
}

/* Returns the stack address where the innermost frames of a state run; 0: unknown. From 3.13 on,
 * the last of them is there. */
__noinline __u64 python_location(struct ct_python *p, __u64 state)
{
	__u64 frame;

	if (!p)
		return 0;
	if (p->thread_place != CT_PYTHON_NONE)
		return user_word(state + p->thread_place);
	if (!p->side_by_side)
		return 0;
	frame = python_top(p, state);
	for (int i = 0; i < PYTHON_PLACE_MAX && frame; i++) {
		__u64 at = frame + p->frame_off;

		if ((user_word(at + p->frame_owner) & 255) >= p->owner_min)
			return frame;
		frame = user_word(at + p->frame_back);
	}
	return 0;
}

/* State of a search, stored where the window will be, which is still empty. It is in memory,
 * because the verifier would otherwise explore all values after each state. */
struct python_search {
	__u64 self, sp;	    /* pthread_self(), stack pointer */
	__u64 alone;	    /* there is one interpreter: a thread has one state */
	__u64 state, place; /* the innermost so far, and its stack address */
	__u64 near, near_place;
	__u64 unsure; /* the thread has several states, and the position of one is unknown */
};
#define PYTHON_SEARCH(t) ((struct python_search *)((t)->out + CT_OUT_SZ - CT_PYTHON_WINDOW_SZ))

/*
 * A thread in several interpreters has a state in each and runs the innermost: the one lowest on
 * its stack, which grows down. Up to 3.11 a state holds the thread that created it, not the one
 * that runs it. So another thread's state counts if it lies between there and the stack pointer.
 * Returns whether the search is over.
 */
__noinline int python_consider(struct ct_thread *t, struct ct_python *p, __u64 state)
{
	struct python_search *s;
	__u64 place;
	bool own;

	if (!t || !p)
		return true;
	s = PYTHON_SEARCH(t);
	own = user_word(state + p->thread_id) == s->self;
	if ((!own && (s->alone || p->thread_place == CT_PYTHON_NONE)) || !python_top(p, state))
		return false;
	if (s->alone) {
		s->state = state;
		return true;
	}
	place = python_location(p, state);
	if (own && s->state && (!place || !s->place))
		s->unsure = 1;
	if (own && (!s->state || place < s->place)) {
		s->state = state;
		s->place = place;
	}
	if (place > s->sp && place < s->near_place) {
		s->near = state;
		s->near_place = place;
	}
	return false;
}

/* Stores the state that the thread runs in t->python; 0: none. Returns 0 if it cannot be
 * determined. */
__noinline int python_search(struct ct_thread *t, struct ct_python *p, __u64 self, bool alone)
{
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(bpf_get_current_task_btf());
	struct python_search *s;
	__u64 interpreter, state;
	int i;

	if (!t || !p)
		return 0;
	s = PYTHON_SEARCH(t);
	*s = (struct python_search){
		.self = self, .sp = PT_REGS_SP(regs), .alone = alone, .near_place = ~0ull};
	interpreter = user_word(p->runtime + p->interpreters);
	state = user_word(interpreter + p->threads);
	t->python = 0;
	t->python_head = state;
	for (i = 0; i < PYTHON_LOOK_MAX && interpreter; i++) {
		if (!state) {
			interpreter = user_word(interpreter + p->interpreter_next);
			state = user_word(interpreter + p->threads);
			continue;
		}
		if (python_consider(t, p, state))
			break;
		state = user_word(state + p->thread_next);
	}
	if (s->state && s->place && s->near_place < s->place)
		s->state = s->near;
	if (s->unsure) {
		/* The thread released the lock for this call, and no other has taken it since. */
		state = p->holder ? user_word(p->runtime + p->holder) : 0;
		if (!state || user_word(state + p->thread_id) != self || !python_top(p, state))
			return 0;
		s->state = state;
	}
	t->python = s->state;
	return s->state || i < PYTHON_LOOK_MAX;
}

/* States are added in front: an unchanged head means that none was added since the last search. */
static __always_inline bool python_is_news(const struct ct_thread *t, const struct ct_python *p,
					   __u64 interpreter)
{
	return !t->python_head || t->stats[CT_STAT_ENTRIES] % PYTHON_RETRY == 0 ||
	       (interpreter && user_word(interpreter + p->threads) != t->python_head);
}

/* Returns the frame that the thread runs; 0: none. The previous state is checked first: if it was
 * freed, it runs nothing or belongs to another thread. */
static __always_inline __u64 python_frame(struct ct_thread *t, struct ct_python *p,
					  struct ct_call *c)
{
	/* Order: the newest interpreter, then the first. */
	__u64 self = python_self(), frame, ends[2] = {};
	bool alone;

	bpf_probe_read_user(ends, sizeof(ends), (void *)(p->runtime + p->interpreters));
	alone = ends[0] == ends[1];
	if (alone && t->python && user_word(t->python + p->thread_id) == self) {
		frame = python_top(p, t->python);
		if (frame)
			return frame;
	}
	if (alone && !python_is_news(t, p, ends[0]))
		return 0;
	if (!python_search(t, p, self, alone))
		c->python |= CT_PYTHON_F_BROKEN;
	return t->python ? python_top(p, t->python) : 0;
}

/* Copies as much of a str as fits. Returns the number of bytes; 0: not a str, or unreadable.
 * *whole: all of it was copied. The text may change during the copy, so the object is checked
 * again. */
#define PYTHON_HEAD_SZ 40
static __always_inline __u32 python_copy_str(const struct ct_python *p, __u8 *to, __u32 max,
					     __u64 addr, bool *whole)
{
	__u64 len, size;
	__u32 state, kind;

	if (bpf_probe_read_user(to, PYTHON_HEAD_SZ, (void *)addr))
		return 0;
	len = *(__u64 *)(to + 16);
	state = *(__u32 *)(to + 32);
	/* As in python_str_read(). */
	state = state >> 2 & 7 ? state >> 2 : state >> 16;
	kind = state & 7;
	if (len > CT_PYTHON_TABLE_SZ)
		len = CT_PYTHON_TABLE_SZ;
	size = (state >> 4 & 1 ? p->str_ascii : p->str_other) + len * kind;
	if (size > max) {
		size = max;
		*whole = false;
	}
	barrier_var(size);
	if (size > max || bpf_probe_read_user(to, size, (void *)addr))
		return 0;
	return size;
}

static __always_inline __u32 python_copy_bytes(__u8 *to, __u32 max, __u64 addr, bool *whole)
{
	__u64 size;

	if (bpf_probe_read_user(to, PYTHON_HEAD_SZ - 8, (void *)addr))
		return 0;
	size = *(__u64 *)(to + 16) + PYTHON_HEAD_SZ - 8;
	if (size > max) {
		size = max;
		*whole = false;
	}
	barrier_var(size);
	if (size > max || bpf_probe_read_user(to, size, (void *)addr))
		return 0;
	return size;
}

/* Sends the names of a code object, which is alive because the thread runs it. Returns 1 on
 * success. Wakes the reader if it has to read more from the process, which may end soon. */
__noinline int python_send(struct ct_thread *t, struct ct_python *p, __u64 code, __u32 id)
{
	struct ct_python_code *rec;
	void *ring = this_ring();
	bool whole = true;

	if (!t || !p || !ring)
		return 0;
	rec = bpf_ringbuf_reserve(ring, sizeof(*rec), 0);
	if (!rec)
		return 0;
	rec_begin(&rec->rec, CT_REC_PYTHON, sizeof(*rec), t->pid, t->tid);
	rec->rec.flags = 0;
	rec->code = code;
	rec->id = id;
	rec->first_line = user_word(code + p->code_first_line);
	rec->reserved = 0;
	rec->file_at = user_word(code + p->code_file);
	rec->function_at = user_word(code + p->code_function);
	rec->table_at = user_word(code + p->code_table);
	rec->file_sz = rec->function_sz = 0;
	if (!cfg.redact) {
		rec->file_sz =
			python_copy_str(p, rec->file, sizeof(rec->file), rec->file_at, &whole);
		rec->function_sz = python_copy_str(p, rec->function, sizeof(rec->function),
						   rec->function_at, &whole);
	}
	rec->table_sz = python_copy_bytes(rec->table, sizeof(rec->table), rec->table_at, &whole);
	if (!rec->table_sz || (!cfg.redact && (!rec->file_sz || !rec->function_sz))) {
		bpf_ringbuf_discard(rec, BPF_RB_NO_WAKEUP);
		return 0;
	}
	bpf_ringbuf_submit(rec, whole ? wake_flags(sizeof(*rec)) : BPF_RB_FORCE_WAKEUP);
	return 1;
}

/* Returns the id of the code object now at this address. Sends its names unless they were sent. */
static __always_inline __u32 python_id(struct ct_thread *t, struct ct_python *p, __u64 code)
{
	__u32 slot = ct_python_slot(t->pid, code, cfg.name_secret), id;
	struct python_sent *sent;
	__u64 key;

	id = ct_python_id(
		*(volatile __u32 *)&python_freed[slot & ((1 << CT_PYTHON_PLACES_LOG) - 1)]);
	slot >>= CT_PYTHON_PLACES_LOG - PYTHON_SENT_LOG;
	sent = bpf_map_lookup_elem(&python_sent, &slot);
	key = ((code + id) * cfg.name_secret[0] + (t->generation + t->pid) * cfg.name_secret[1]) &
	      ~1ull;
	if (!sent || sent->newer == key || sent->older == key)
		return id;
	if (sent->newer == (key | 1) && t->stats[CT_STAT_ENTRIES] % PYTHON_SEND_RETRY)
		return id;
	if (!python_send(t, p, code, id)) {
		key |= 1;
		t->wake = 1;
	}
	if (sent->newer != key)
		sent->older = sent->newer;
	sent->newer = key;
	return id;
}

/* The process frees a code object: another may be allocated in its place. */
static __always_inline void python_free(__u64 code)
{
	__u32 pid = current_id() >> 32, slot;

	if (!bpf_map_lookup_elem(&pythons, &pid))
		return;
	slot = ct_python_slot(pid, code, cfg.name_secret);
	__sync_fetch_and_add(&python_freed[slot & ((1 << CT_PYTHON_PLACES_LOG) - 1)], 1);
}

#define WINDOW(t)	   ((t)->out + CT_OUT_SZ - CT_PYTHON_WINDOW_SZ)
#define FRAME_WORD(f, off) (*(__u64 *)((f) + ((off) & (CT_PYTHON_FRAME_SZ_MAX - 8))))

/* Reads the needed part of a frame, from lo on, into the window. Returns 0 if it cannot be read. */
static __always_inline int python_fill(struct ct_thread *t, const struct ct_python *p, __u64 lo)
{
	__u64 hi = lo + (p->frame_sz & (CT_PYTHON_FRAME_SZ_MAX - 1)), page = lo & ~4095ull, len;

	if (lo >= t->python_lo && hi <= t->python_hi)
		return 1;
	/* Stay on the same page: another may not be present. */
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

/* Adds a frame to the record; frames begin at out + off. Returns its caller's frame, or 0 after the
 * last. The number of frames is kept in the record, because the verifier would otherwise explore
 * all its values. */
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
	*to = ct_python_frame_of(p, FRAME_WORD(from, p->frame_code), FRAME_WORD(from, p->frame_ip));
	to->id = python_id(t, p, to->code);
	c->python_cnt++;
	return FRAME_WORD(from, p->frame_back);
}

/* Reads the frames to out + off. Returns their number. */
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
	t->python_lo = t->python_hi = 0;
	frame = python_frame(t, p, c);
	for (int i = 0; i < CT_PYTHON_MAX + PYTHON_NO_CODE_MAX && frame; i++)
		frame = python_step(t, p, frame, off);
	if (frame)
		c->python |= CT_PYTHON_F_CUT;
	return c->python_cnt;
}

/* Returns the bytes of frames. */
static __always_inline __u32 python_of(struct ct_thread *t, __u32 off)
{
	__u32 cnt;

	if (off > CT_OUT_PYTHON_OFF_MAX)
		return 0;
	cnt = python_read(t, off);
	if (!cnt || cnt > CT_PYTHON_MAX)
		return 0;
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

/* Returns true also if Python is not traced. */
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
