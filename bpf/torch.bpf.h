/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * --torch: PyTorch operators that a thread is in. Each operator calls one function when it begins
 * (at::getStepCallbacksUnlessEmpty). One function runs each node of autograd
 * (Engine::evaluate_function). Only their entries are probed: C++ exceptions pass through them,
 * which a return probe breaks.
 *
 * So the end is detected when another operator begins in the thread. An operator's return address
 * stays in place while the operator runs. After its end, the next call from the same place
 * overwrites it or begins above it. Calls of outer functions overwrite it, too, unless those
 * functions have an unused variable there. In that case the ended operator counts as running until
 * one of its words changes or an enclosing one has ended.
 *
 * The position of an operator's return address, relative to the frame of the function it calls when
 * it begins, is a property of the library file (attach/find/torch.c). For unknown operators (custom
 * ones, called by other libraries), only the stack pointer is available.
 */
#ifndef CT_TORCH_BPF_H
#define CT_TORCH_BPF_H

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1); /* set before load */
	__type(key, __u32);
	__type(value, struct ct_operators);
} operators SEC(".maps");

/* Initial value for a thread: too large for the BPF stack. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct ct_operators);
} zero_operators SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1); /* set before load */
	__type(key, struct ct_site_key);
	__type(value, struct ct_site);
} torch_sites SEC(".maps");

/* at::RecordScope::FUNCTION: other scopes are not operators. */
#define TORCH_SCOPE_FUNCTION 0
/* Words that are read of a Node: its vtable comes first; its sequence number is included. */
#define TORCH_NODE_WORDS 4
#define TORCH_NODE_SEQ	 3

/* Lowest address of code that can be called. */
#define TORCH_CODE_MIN 0x10000ull
/* Maximum distance of libraries that call each other: 32-bit calls, at most through a stub. */
#define TORCH_NEAR (8ull << 30)
/* Maximum size of a calling function: from its start to a return address in it. */
#define TORCH_FUNCTION_MAX 0x10000

static __always_inline __u64 code_rel32(__u64 at, __u64 code)
{
	return at + (__s64)(__s32)(code & 0xffffffff);
}

/* Returns the target of a stub of the procedure linkage table, or `at` if it is not a stub. */
__noinline __u64 stub_target(__u64 at)
{
	__u64 code = user_word(at);

	/* endbr64 */
	if ((__u32)code == 0xfa1e0ff3) {
		at += 4;
		code = user_word(at);
	}
	/* bnd */
	if ((code & 0xff) == 0xf2) {
		at++;
		code >>= 8;
	}
	/* jmp *disp32(%rip) */
	return (code & 0xffff) == 0x25ff ? user_word(code_rel32(at + 6, code >> 16)) : at;
}

/* Returns the target of the call in front of a return address, through a stub or not; 0: not a
 * call. */
__noinline __u64 callee_of(__u64 ret)
{
	__u64 code = user_word(ret - 5);

	return (code & 0xff) == 0xe8 ? stub_target(code_rel32(ret, code >> 8)) : 0;
}

/*
 * Returns whether word is the return address of a call to the function that contains `in`. The call
 * target is cached: operators come from the same places repeatedly, and reading code takes longer
 * than all the rest. If code is replaced, a caller may be missed.
 */
__noinline int is_caller(struct ct_operators *o, __u64 word, __u64 in)
{
	__u32 ret = word, i = ret * 0x9e3779b1u >> (33 - CT_CALLEES_BITS), to;
	struct ct_callee *known;

	if (!o)
		return 0;
	barrier_var(i);
	known = o->callees[i & ((1 << (CT_CALLEES_BITS - 1)) - 1)];
	if (known[0].ret == ret) {
		to = known[0].to;
	} else if (known[1].ret == ret) {
		to = known[1].to;
	} else {
		to = callee_of(word);
		known[1] = known[0];
		known[0] = (struct ct_callee){ret, to};
	}
	return to && (__u32)in - to - 1 < TORCH_FUNCTION_MAX;
}

/* Reads the words from a return address on; nothing lies above the end of a stack. */
static __always_inline void operator_read(struct ct_operators *o, __u64 place)
{
	struct ct_operator_words *w = &o->words;

	if (!bpf_probe_read_user(w, 8 * (1 + CT_OPERATOR_ABOVE), (void *)place))
		return;
	__builtin_memset(w, 0, sizeof(*w));
	w->at[0] = user_word(place);
}

/* Finds the callers of the operator whose words were read. First stores the word above its
 * arguments: other calls by the same caller put their return addresses there. */
__noinline int operator_callers(struct ct_operators *o, struct ct_operator *x, __u32 arg_words)
{
	__u32 cnt = 0;
	__u64 in, word;

	if (!o || !x)
		return 0;
	in = x->ret;
	for (int i = 0; i < CT_OPERATOR_CALLERS; i++)
		x->callers[i] = 0;
	if (!x->ret)
		return 0;
	if (arg_words) {
		x->callers[0] = user_word(x->place + 8 * arg_words);
		x->caller_at[0] = arg_words;
		cnt = x->callers[0] != 0;
	}
	for (__u32 i = 1; i <= CT_OPERATOR_ABOVE; i++) {
		word = o->words.at[i];
		/* Most words are not code addresses. */
		if (word < TORCH_CODE_MIN || word - in + TORCH_NEAR > 2 * TORCH_NEAR ||
		    !is_caller(o, word, in))
			continue;
		in = word;
		x->callers[cnt & (CT_OPERATOR_CALLERS - 1)] = in;
		x->caller_at[cnt & (CT_OPERATOR_CALLERS - 1)] = i;
		if (++cnt == CT_OPERATOR_CALLERS)
			break;
	}
	return cnt;
}

/* Returns whether the return addresses are still in place. */
__noinline int operator_runs(struct ct_operators *o, struct ct_operator *x)
{
	__u64 now;

	if (!o || !x)
		return 0;
	if (!x->ret)
		return 1;
	operator_read(o, x->place);
	if (o->words.at[0] != x->ret)
		return 0;
	for (int i = 0; i < CT_OPERATOR_CALLERS && x->callers[i]; i++) {
		__u32 at = x->caller_at[i];

		if (at > CT_OPERATOR_ABOVE) {
			now = user_word(x->place + 8 * at);
		} else {
			/* Without this, the compiler drops the mask, as in call_nest(). */
			barrier_var(at);
			now = o->words.at[at & (2 * CT_OPERATOR_ABOVE - 1)];
		}
		if (now != x->callers[i])
			return 0;
	}
	return 1;
}

/* Removes operators that have ended. Returns how many are left. */
__noinline int operators_settle(struct ct_operators *o, __u64 sp)
{
	if (!o)
		return 0;
	for (int i = 0; i < CT_OPERATORS_MAX; i++) {
		__u32 depth = o->depth;
		struct ct_operator *top;

		if (!depth || depth > CT_OPERATORS_MAX)
			break;
		top = &o->at[(depth - 1) & (CT_OPERATORS_MAX - 1)];
		if (top->place > sp && operator_runs(o, top))
			break;
		o->depth = depth - 1;
	}
	/* An ended operator ends all operators within it. The innermost was checked above. */
	for (__u32 i = 0; i < CT_OPERATORS_MAX && i + 1 < o->depth; i++) {
		const struct ct_operator *x = &o->at[i];

		if (x->ret && user_word(x->place) != x->ret)
			o->depth = i;
	}
	return o->depth;
}

/* Returns the innermost of `depth` operators; 0: none. */
static __always_inline __u64 operator_at(struct ct_operators *o, __u32 depth)
{
	__u32 i = depth - 1;

	barrier_var(i);
	return depth && depth <= CT_OPERATORS_MAX ? o->at[i & (CT_OPERATORS_MAX - 1)].id : 0;
}

/* Returns the innermost operator that runs when a call begins with this stack pointer; 0: none.
 * settled: ended operators are already removed. */
__noinline __u64 operator_in(__u32 tid, __u64 sp, bool settled)
{
	struct ct_operators *o = bpf_map_lookup_elem(&operators, &tid);

	if (!o)
		return 0;
	return operator_at(o, settled ? o->depth : operators_settle(o, sp));
}

/* Returns whether one of the thread's operators has ended. */
static __always_inline bool operator_ended(__u32 tid, __u64 sp)
{
	struct ct_operators *o = bpf_map_lookup_elem(&operators, &tid);
	__u32 depth = o ? o->depth : 0;

	return depth && operators_settle(o, sp) != depth;
}

/* Returns whether the call needs a record. */
static __always_inline bool torch_is_news(struct pt_regs *ctx, __u32 tid, __u32 flags, __u64 sp)
{
	if (flags & CT_SPEC_F_OPERATOR)
		return (__u32)PT_REGS_PARM2(ctx) == TORCH_SCOPE_FUNCTION;
	return !(flags & CT_SPEC_F_AFTER) || operator_ended(tid, sp);
}

static __always_inline struct ct_operators *operators_of(__u32 tid)
{
	struct ct_operators *o = bpf_map_lookup_elem(&operators, &tid), *zero;
	__u32 key = 0;

	if (o)
		return o;
	zero = bpf_map_lookup_elem(&zero_operators, &key);
	if (!zero)
		return NULL;
	bpf_map_update_elem(&operators, &tid, zero, BPF_NOEXIST);
	return bpf_map_lookup_elem(&operators, &tid);
}

/*
 * Begins the operator whose frame is the thread's next one. Its words are replaced for the model.
 * The first becomes the distance of its return address from the probed instruction; for a node,
 * that of its vtable. The second is a node's sequence number. words[0] was the Node, or 0. Returns
 * the enclosing operator.
 */
__noinline __u64 operator_begin(struct ct_thread *t, __u64 sp, __u64 fp, __u64 ip, __u32 lib_id)
{
	struct ct_site_key key = {.lib_id = CT_LIB_ID(lib_id)};
	__u64 node[TORCH_NODE_WORDS] = {}, place = sp, in;
	bool place_known = true;
	struct ct_operators *o;
	struct ct_operator *x;
	struct ct_site *site;
	struct ct_frame *f;
	__u32 i, arg_words = 0;

	if (!t)
		return 0;
	i = t->depth;
	barrier_var(i);
	f = &t->frames[i & (CT_MAX_DEPTH - 1)];
	if (f->words[0]) {
		/* Arguments are not read when redacted. */
		if (cfg.redact != CT_REDACT_ARGS)
			bpf_probe_read_user(node, sizeof(node), (void *)f->words[0]);
		key.distance = node[0] ? node[0] - ip : 0;
	} else {
		key.distance = user_word(sp) - ip;
		site = bpf_map_lookup_elem(&torch_sites, &key);
		place_known = site;
		if (site) {
			place = site->off ? sp + site->off : fp + 8;
			arg_words = site->arg_words & 0xff;
		}
	}
	f->words[0] = key.distance;
	f->words[1] = node[TORCH_NODE_SEQ];
	o = operators_of(t->tid);
	if (!o) {
		t->drops[CT_DROP_THREADS]++;
		return 0;
	}
	i = operators_settle(o, place);
	in = operator_at(o, i);
	barrier_var(i);
	if (i >= CT_OPERATORS_MAX) {
		t->drops[CT_DROP_DEPTH]++;
		return in;
	}
	x = &o->at[i & (CT_OPERATORS_MAX - 1)];
	operator_read(o, place);
	x->place = place;
	x->ret = place_known ? o->words.at[0] : 0;
	x->id = f->call_id;
	operator_callers(o, x, arg_words);
	o->depth = i + 1;
	return in;
}

/* Returns the operator that encloses the call at f. */
static __always_inline __u64 torch_enter(struct pt_regs *ctx, struct ct_thread *t,
					 struct ct_frame *f, const struct ct_spec *spec, __u64 sp)
{
	__u32 lib_id = f->lib_id;

	if (!cfg.torch)
		return 0;
	if (!(spec->flags & (CT_SPEC_F_OPERATOR | CT_SPEC_F_NODE)))
		return operator_in(t->tid, sp, spec->flags & CT_SPEC_F_AFTER);
	f->words[0] = spec->flags & CT_SPEC_F_NODE ? PT_REGS_PARM3(ctx) : 0;
	return operator_begin(t, sp, PT_REGS_FP(ctx), PT_REGS_IP(ctx), lib_id);
}

static __always_inline void operators_end(__u32 tid)
{
	if (cfg.torch)
		bpf_map_delete_elem(&operators, &tid);
}

#endif /* CT_TORCH_BPF_H */
