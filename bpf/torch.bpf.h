/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * --torch: which of PyTorch's operators a thread is in. Each operator calls one function when it
 * begins (at::getStepCallbacksUnlessEmpty), each node of autograd is run by one
 * (Engine::evaluate_function): their entries are seen, and nothing of their ends, for C++
 * exceptions pass through them, which a probe on the return breaks.
 *
 * So the end is looked for when something else begins in the thread. An operator's own return
 * address stays where it is as long as the operator runs. When it has ended, the next call from
 * where it was called puts another there, or begins above; what was called from farther out writes
 * over it, too, but where it has a variable in that place that it does not use: then a dead
 * operator is taken for one that still runs, until one of its words changes, or one of those
 * around it is over.
 *
 * Where the return address of an operator is, seen from what it calls when it begins, is a fact of
 * the library file (attach/find/torch.c). Of operators that it does not know (custom ones, called
 * by other libraries) the stack pointer alone is known.
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

/* Too large for the BPF stack: what a thread's begins with. */
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

/* at::RecordScope::FUNCTION: others are no operators. */
#define TORCH_SCOPE_FUNCTION 0
/* What of a Node is read: its vtable first, and its sequence number. */
#define TORCH_NODE_WORDS 4
#define TORCH_NODE_SEQ	 3

/* Nothing that is called lies lower. */
#define TORCH_CODE_MIN 0x10000ull
/* Libraries that call each other are no farther apart: one calls by 32 bits, through a stub at
 * most. */
#define TORCH_NEAR (8ull << 30)
/* A function that calls is not larger: between its beginning and a return address in it. */
#define TORCH_FUNCTION_MAX 0x10000

static __always_inline __u64 code_rel32(__u64 at, __u64 code)
{
	return at + (__s64)(__s32)(code & 0xffffffff);
}

/* Where a stub of the procedure linkage table leads to; at itself, when it is none. */
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

/* What the instruction in front of a return address calls, through a stub or not; 0: it is no call.
 */
__noinline __u64 callee_of(__u64 ret)
{
	__u64 code = user_word(ret - 5);

	return (code & 0xff) == 0xe8 ? stub_target(code_rel32(ret, code >> 8)) : 0;
}

/*
 * Is word the return address of a call of the function that the address in it lies in? What it
 * calls is kept: operators come from the same places again and again, and to read code takes longer
 * than all the rest. Where other code is put in its place a caller is not known.
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

/* Reads what lies from a return address on; nothing lies above the end of a stack. */
static __always_inline void operator_read(struct ct_operators *o, __u64 place)
{
	struct ct_operator_words *w = &o->words;

	if (!bpf_probe_read_user(w, 8 * (1 + CT_OPERATOR_ABOVE), (void *)place))
		return;
	__builtin_memset(w, 0, sizeof(*w));
	w->at[0] = user_word(place);
}

/* Fills in who called the operator whose words were read, and first what is above its arguments:
 * there others that its caller calls have their return addresses. */
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
		/* Most are no addresses of code. */
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

/* Are the return addresses still where they were? */
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
			/* Else the mask goes, as in call_nest(). */
			barrier_var(at);
			now = o->words.at[at & (2 * CT_OPERATOR_ABOVE - 1)];
		}
		if (now != x->callers[i])
			return 0;
	}
	return 1;
}

/* Those that are over go; how many are left. */
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
	/* One that is over has taken all with it that were called in it. The innermost is not. */
	for (__u32 i = 0; i < CT_OPERATORS_MAX && i + 1 < o->depth; i++) {
		const struct ct_operator *x = &o->at[i];

		if (x->ret && user_word(x->place) != x->ret)
			o->depth = i;
	}
	return o->depth;
}

/* The innermost of so many; 0: none. */
static __always_inline __u64 operator_at(struct ct_operators *o, __u32 depth)
{
	__u32 i = depth - 1;

	barrier_var(i);
	return depth && depth <= CT_OPERATORS_MAX ? o->at[i & (CT_OPERATORS_MAX - 1)].id : 0;
}

/* The innermost that runs when something begins with this stack pointer; 0: none. settled: those
 * that are over have gone. */
__noinline __u64 operator_in(__u32 tid, __u64 sp, bool settled)
{
	struct ct_operators *o = bpf_map_lookup_elem(&operators, &tid);

	if (!o)
		return 0;
	return operator_at(o, settled ? o->depth : operators_settle(o, sp));
}

/* Is one over, of those that were there? */
static __always_inline bool operator_ended(__u32 tid, __u64 sp)
{
	struct ct_operators *o = bpf_map_lookup_elem(&operators, &tid);
	__u32 depth = o ? o->depth : 0;

	return depth && operators_settle(o, sp) != depth;
}

/* Is there anything to be recorded of the call? */
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
 * The operator whose frame is the thread's next one begins. Its words become, for the model: the
 * distance of its return address from the instruction under the probe, of a node that of its
 * vtable; and a node's sequence number. words[0] is the Node, or 0. Returns in which operator it
 * is.
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
		/* Nothing of an argument is read where arguments are redacted. */
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

/* In which operator the call at f is. */
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
