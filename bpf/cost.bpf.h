/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Tracing overhead, as measured by the programs: randomly chosen calls (CT_COST_SKIP) are timed.
 * This includes what a calibration loop cannot measure: cold caches, waits for a ring, stacks.
 */
#ifndef CT_COST_BPF_H
#define CT_COST_BPF_H

volatile struct ct_cost_cfg cost_cfg;

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, CT_MAX_FUNCS);
	__type(key, __u32);
	__type(value, struct ct_fn_cost);
} fn_costs SEC(".maps");

/* A started timing; ns 0: this call is not timed. */
struct timer {
	__u64 ns, switches;
	__u32 found_ns;
};

/* Time used by other threads meanwhile is not overhead. */
static __always_inline __u64 task_switches(void)
{
	struct task_struct *task = bpf_get_current_task_btf();

	return task->nvcsw + task->nivcsw;
}

/* Random: every Nth call would always be the same one in a program that repeats itself. */
static __always_inline struct timer timing_begin(__u32 *left)
{
	struct timer t = {};

	if (--*left)
		return t;
	*left = 1 + (bpf_get_prandom_u32() & cost_cfg.skip_mask);
	t.switches = task_switches();
	t.ns = bpf_ktime_get_ns();
	return t;
}

/* Returns the duration; 0: not timed, or not reliable. */
static __always_inline __u32 timing_end(const struct timer *t, __u64 now)
{
	__u64 took = now - t->ns;

	if (!t->ns || took > CT_COST_MAX_NS || task_switches() != t->switches)
		return 0;
	return took ? took : 1;
}

static __always_inline void cost_of_thread(struct ct_thread *t, __u32 ns, __u64 now)
{
	struct ct_cost *c = &t->cost;

	if (!c->mean_of) {
		c->mean_of = 1;
		c->since_ns = now;
	}
	if (c->mean_of < CT_COST_MEAN_OF)
		c->mean_of++;
	c->mean_16 = c->mean_16 - c->mean_16 / c->mean_of + ns * 16ull / c->mean_of;
	c->ns = ct_cost_ns(t);
	c->entries = t->stats[CT_STAT_ENTRIES];
	if (now - c->since_ns < 1000000000)
		return;
	c->busiest = ct_cost_busiest(t, t->tid, now);
	c->since_ns = now;
	c->ns_then = c->ns;
}

/* Added to the kind: counted without a record. */
#define COST_COUNTED CT_COST_KINDS

/* Adds a timed call: ns is the time of the programs. Always returns 0. */
__noinline int cost_add(struct ct_thread *t, __u32 func_id, __u32 ns, __u32 found_ns, __u32 kind)
{
	bool counted = kind & COST_COUNTED;
	struct ct_fn_cost *f;

	if (!t)
		return 0;
	ns += ct_cost_base(&cost_cfg, kind, found_ns);
	cost_of_thread(t, ns, bpf_ktime_get_ns());
	f = bpf_map_lookup_elem(&fn_costs, &func_id);
	if (!f)
		return 0;
	__sync_fetch_and_add(&f->ns[counted], ns);
	__sync_fetch_and_add(&f->timed[counted], 1);
	__sync_fetch_and_add(&f->found_ns, found_ns);
	return 0;
}

/*
 * --kernel, --sched and --torch: adds a timed run of a program without a call, multiplied for the
 * runs that are not timed. outside: what the kernel adds.
 */
static __always_inline void cost_of_no_call(const struct timer *timing, __u32 tid, __u32 outside)
{
	__u32 ns = timing->ns ? timing_end(timing, bpf_ktime_get_ns()) : 0;
	struct ct_thread *t = ns ? bpf_map_lookup_elem(&threads, &tid) : NULL;

	if (t)
		t->cost.ns += (ns + outside) * (cost_cfg.skip_mask + 2ull) / 2;
}

static __always_inline __u32 cost_kind(__u64 cookie, bool entry, bool counted)
{
	return (counted ? COST_COUNTED : 0) | (entry ? CT_COST_ENTRY : CT_COST_PAIR) |
	       (cookie & CT_COOKIE_F_STEPPED ? CT_COST_STEPPED : 0);
}

/* Adds a thread that ends. */
static __always_inline void cost_sum(struct ct_totals *sum, const struct ct_thread *t)
{
	__u64 busiest = ct_cost_busiest(t, t->tid, bpf_ktime_get_ns()), max = sum->busiest;

	__sync_fetch_and_add(&sum->cost_ns, ct_cost_ns(t));
	/* Another thread may win the race; four times in a row is unlikely. */
	for (int n = 0; n < 4 && busiest > max; n++) {
		__u64 was = __sync_val_compare_and_swap(&sum->busiest, max, busiest);

		if (was == max)
			break;
		max = was;
	}
}

#endif /* CT_COST_BPF_H */
