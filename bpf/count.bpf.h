/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Calls that are counted and not recorded. The function's level (`specs`) and the process's level
 * (`pids`) decide which.
 */
#ifndef CT_COUNT_BPF_H
#define CT_COUNT_BPF_H

/* These functions are not static, so each is verified once, not per call site. They return 1 when
 * the table has no space. */

static __always_inline struct ct_share *share_get(const struct ct_owner *who)
{
	struct ct_share *s = bpf_map_lookup_elem(&shares, who), zero = {.uid = current_uid()};

	if (s)
		return s;
	bpf_map_update_elem(&shares, who, &zero, BPF_NOEXIST);
	return bpf_map_lookup_elem(&shares, who);
}

/* Charges a row to a program. Called when there is something new to count, not at each call. */
__noinline int row_take(__u64 generation, __u32 pid, __u32 table)
{
	__u32 least = table == CT_TABLE_COUNTS ? CT_SHARE_COUNTS : CT_SHARE_ERRORS;
	struct ct_owner who = {.generation = generation, .pid = pid};
	struct ct_share *s = share_get(&who);

	if (!s || table > CT_TABLE_ERRORS)
		return 1;
	if (!ct_limit_more(s->rows[table], 1, least, rows_used[table], cfg.rows_max[table]))
		return 1;
	if (memlimit_charge(table, s->uid, 1))
		return 1;
	__sync_fetch_and_add(&s->rows[table], 1);
	return 0;
}

/* Returns an unused row: another thread was faster, or there was no memory. */
__noinline int row_give_back(__u64 generation, __u32 pid, __u32 table)
{
	struct ct_owner who = {.generation = generation, .pid = pid};
	struct ct_share *s = bpf_map_lookup_elem(&shares, &who);

	if (!s || table > CT_TABLE_ERRORS)
		return 0;
	__sync_fetch_and_sub(&s->rows[table], 1);
	return memlimit_uncharge(table, s->uid);
}

/* A thread's own row only improves speed. It must not take the last rows from other programs. */
__noinline int own_row_take(__u64 generation, __u32 pid)
{
	struct ct_owner who = {.generation = generation, .pid = pid};
	struct ct_share *s = share_get(&who);

	if (!s || rows_used[CT_TABLE_COUNTS] >= cfg.rows_max[CT_TABLE_COUNTS] / CT_OWN_ROWS_PART ||
	    memlimit_charge(CT_TABLE_COUNTS, s->uid, 1))
		return 1;
	__sync_fetch_and_add(&s->own_rows, 1);
	return 0;
}

static __always_inline void own_row_give_back(__u64 generation, __u32 pid)
{
	struct ct_owner who = {.generation = generation, .pid = pid};
	struct ct_share *s = bpf_map_lookup_elem(&shares, &who);

	if (!s)
		return;
	__sync_fetch_and_sub(&s->own_rows, 1);
	memlimit_uncharge(CT_TABLE_COUNTS, s->uid);
}

static __always_inline struct ct_count *row_get(const struct ct_count_key *key)
{
	struct ct_count *c = bpf_map_lookup_elem(&counts, key), *zero;
	__u32 none = 0;

	if (c)
		return c;
	zero = bpf_map_lookup_elem(&zero_count, &none);
	if (!zero || (key->thread ? own_row_take(key->generation, key->pid)
				  : row_take(key->generation, key->pid, CT_TABLE_COUNTS)))
		return NULL;
	if (bpf_map_update_elem(&counts, key, zero, BPF_NOEXIST)) {
		if (key->thread)
			own_row_give_back(key->generation, key->pid);
		else
			row_give_back(key->generation, key->pid, CT_TABLE_COUNTS);
	}
	return bpf_map_lookup_elem(&counts, key);
}

static __always_inline struct ct_count *count_get(struct ct_thread *t, __u32 func_id)
{
	struct ct_count_key key = {.generation = t->generation};
	struct ct_count *c;

	/* Write pid, func_id and thread at once: the kernel compares 8-byte words, and would stall
	 * on parts written one by one. */
	*(__u64 *)&key.pid = t->pid | (__u64)func_id << 32 | (__u64)t->own_rows << 48;
	c = row_get(&key);
	if (!c && key.thread) {
		key.thread = t->own_rows = 0;
		c = row_get(&key);
	}
	if (!c || c->last_tid == t->tid)
		return c;
	c->last_tid = t->tid;
	if (!t->own_rows && ++t->contended_cnt == CT_CONTENDED_MAX)
		t->own_rows = 1 + t->tid % CT_SPREAD;
	return c;
}

/* Counts the error code of a failed call. */
__noinline int count_error(struct ct_thread *t, __u32 func_id, __s32 result)
{
	struct ct_spec *spec = bpf_map_lookup_elem(&specs, &func_id);
	struct ct_error_key key = {.func_id = func_id};
	__u64 *n, zero = 0;

	if (!t || !spec)
		return 0;
	key.generation = t->generation;
	key.pid = t->pid;
	key.result = recorder_result(cfg.results[spec->api & (CT_APIS_MAX - 1)], result);
	n = bpf_map_lookup_elem(&errors, &key);
	if (!n) {
		if (row_take(key.generation, key.pid, CT_TABLE_ERRORS))
			return 1;
		if (bpf_map_update_elem(&errors, &key, &zero, BPF_NOEXIST))
			row_give_back(key.generation, key.pid, CT_TABLE_ERRORS);
		n = bpf_map_lookup_elem(&errors, &key);
		if (!n)
			return 1;
	}
	__sync_fetch_and_add(n, 1);
	return 0;
}

/* This function and the next run at each call and are inline. Returning from a BPF function costs
 * 10 ns where the kernel guards returns (Safe RET). */
static __always_inline int count_returned(struct ct_thread *t, __u32 func_id, __u64 ns, bool failed,
					  __u64 bytes)
{
	struct ct_count *c;
	__u64 max;
	__u32 i;

	c = count_get(t, func_id);
	if (!c)
		return 1;
	__sync_fetch_and_add(&c->total_ns, ns);
	if (failed)
		__sync_fetch_and_add(&c->errors, 1);
	else if (bytes)
		__sync_fetch_and_add(&c->bytes, bytes);
	max = c->max_ns;
	/* Another thread may win the race; four times in a row is unlikely. */
	for (int n = 0; n < 4 && ns > max; n++) {
		__u64 was = __sync_val_compare_and_swap(&c->max_ns, max, ns);

		if (was == max)
			break;
		max = was;
	}
	/* Must come last, because its branches are verified with all the code that follows. */
	i = ct_hist_index(ns);
	if (i < CT_HIST_CNT)
		__sync_fetch_and_add(&c->hist[i], 1);
	return 0;
}

static __always_inline int count_entered(struct ct_thread *t, __u32 func_id)
{
	struct ct_count *c = count_get(t, func_id);

	if (!c)
		return 1;
	__sync_fetch_and_add(&c->entered, 1);
	return 0;
}

/* flags: CT_CALL_F_ABANDONED or CT_CALL_F_UNFINISHED */
__noinline int count_given_up(struct ct_thread *t, __u32 func_id, __u32 flags)
{
	struct ct_count *c;

	if (!t)
		return 0;
	c = count_get(t, func_id);
	if (!c)
		return 1;
	if (flags & CT_CALL_F_ABANDONED)
		__sync_fetch_and_add(&c->abandoned, 1);
	else
		__sync_fetch_and_add(&c->unfinished, 1);
	return 0;
}

static __always_inline void thread_set_level(struct ct_thread *t)
{
	/* Before the lookup: a later change increments it again. */
	__u32 gen = level_gen, pid = t->pid;
	struct ct_pid *p = bpf_map_lookup_elem(&pids, &pid);

	t->proc_level = p && p->level != CT_PROC_DEFAULT ? p->level : default_level;
	t->level_gen = gen;
	/* Unloads during this time are not seen. */
	if (t->proc_level == CT_PROC_OFF)
		names_forget(pid);
}

static __always_inline __u32 call_level(struct ct_thread *t, const struct ct_spec *spec)
{
	__u32 level;

	if (t->level_gen != level_gen)
		thread_set_level(t);
	level = recorder_level(spec, t->proc_level);
	return level == CT_LEVEL_SAMPLE ? recorder_sample(spec, bpf_get_prandom_u32()) : level;
}

/* Returns whether this call is recorded for the profile. */
static __always_inline bool call_is_sampled(const struct ct_spec *spec)
{
	return cfg.profile && bpf_get_prandom_u32() < spec->sample_below &&
	       bpf_ktime_get_ns() >= this_cpu()->sample_ns;
}

#endif /* CT_COUNT_BPF_H */
