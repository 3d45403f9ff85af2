/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Limits of table rows per owner (enum ct_table), by the rules of ct_limit.h. They are checked when
 * a row is created or deleted, not at each call. Larger functions are not static and take numbers:
 * verified once each, not at every call site.
 */
#ifndef CT_MEMLIMIT_BPF_H
#define CT_MEMLIMIT_BPF_H

static __always_inline __u32 current_uid(void)
{
	return bpf_get_current_uid_gid();
}

static __always_inline __u32 user_slot(__u32 uid)
{
	return ct_user_slot(uid, cfg.user_secret) & (CT_USERS - 1);
}

static __always_inline __u32 rows_left(__u32 table)
{
	/* Compare the same register that is used: see read_words(). */
	barrier_var(table);
	if (table >= CT_TABLE_CNT)
		return 0;
	return ct_limit_left(cfg.rows_max[table], rows_used[table]);
}

#define CHARGED	   0
#define TABLE_FULL 1 /* no rows left */
#define OVER_SHARE 2 /* the user has reached its share */

/* Charges a row to a user. The user may have at most 1/parts of the rows that it leaves free. */
__noinline int memlimit_charge(__u32 table, __u32 uid, __u32 parts)
{
	__u32 i = user_slot(uid), left = rows_left(table);

	barrier_var(table);
	if (table >= CT_TABLE_CNT)
		return TABLE_FULL;
	if (!left)
		return TABLE_FULL;
	if (cfg.fair && !ct_limit_fits(rows_of_user[table][i], 1, CT_LIMIT_NO_SHARE, left / parts))
		return OVER_SHARE;
	__sync_fetch_and_add(&rows_of_user[table][i], 1);
	__sync_fetch_and_add(&rows_used[table], 1);
	return CHARGED;
}

__noinline int memlimit_uncharge(__u32 table, __u32 uid)
{
	__u32 i = user_slot(uid);

	barrier_var(table);
	if (table >= CT_TABLE_CNT)
		return 0;
	__sync_fetch_and_sub(&rows_of_user[table][i], 1);
	__sync_fetch_and_sub(&rows_used[table], 1);
	return 0;
}

/* The process's last thread may delete the row that was just added or found. */
#define USAGE_TRIES 4

static __always_inline struct ct_usage *usage_get(__u32 pid)
{
	struct ct_usage *h = bpf_map_lookup_elem(&usage, &pid), zero = {};

	for (int i = 0; i < USAGE_TRIES && !h; i++) {
		bpf_map_update_elem(&usage, &pid, &zero, BPF_NOEXIST);
		h = bpf_map_lookup_elem(&usage, &pid);
	}
	return h;
}

/* Charges a row of CT_TABLE_THREADS or CT_TABLE_DRIVER to a process, and so to its user. */
__noinline int thread_charge(__u32 pid, __u32 table)
{
	__u32 i = table - CT_TABLE_THREADS, uid = current_uid();
	__u32 left = rows_left(table), max;
	struct ct_usage *h;
	int ret;

	barrier_var(i);
	if (i > 1)
		return TABLE_FULL;
	max = cfg.rows_max[CT_TABLE_THREADS + i];
	/* Must come first, because a process without a row of the table needs none here. */
	ret = memlimit_charge(table, uid, 1);
	if (ret)
		return ret;
	h = usage_get(pid);
	if (h && ct_limit_fits(h->rows[i], 1, max / CT_SHARE_PARTS, left)) {
		__sync_fetch_and_add(&h->rows[i], 1);
		return CHARGED;
	}
	memlimit_uncharge(table, uid);
	return h ? OVER_SHARE : TABLE_FULL;
}

/* Its row in `usage` is deleted with the last one. If another thread takes a row at this moment,
 * that row is not counted here, but its user is still charged. */
__noinline int thread_uncharge(__u32 pid, __u32 uid, __u32 table)
{
	struct ct_usage *h = bpf_map_lookup_elem(&usage, &pid);
	__u32 i = table - CT_TABLE_THREADS;

	barrier_var(i);
	if (h && i <= 1 && h->rows[i] && __sync_fetch_and_sub(&h->rows[i], 1) == 1 && !h->rows[0] &&
	    !h->rows[1])
		bpf_map_delete_elem(&usage, &pid);
	return memlimit_uncharge(table, uid);
}

/* Adds a row for a process that has none. parts: as above. */
static __always_inline int process_add(__u32 pid, struct ct_pid *p, __u32 parts)
{
	int ret;

	p->uid = current_uid();
	ret = memlimit_charge(CT_TABLE_PROCESSES, p->uid, parts);
	if (ret || !bpf_map_update_elem(&pids, &pid, p, BPF_NOEXIST))
		return ret;
	memlimit_uncharge(CT_TABLE_PROCESSES, p->uid);
	/* Another thread was faster, or there was no memory. */
	return bpf_map_lookup_elem(&pids, &pid) ? CHARGED : TABLE_FULL;
}

/* Returns false if another thread has deleted it at the same time. */
static __always_inline bool process_drop(__u32 pid, __u32 uid)
{
	if (bpf_map_delete_elem(&pids, &pid))
		return false;
	memlimit_uncharge(CT_TABLE_PROCESSES, uid);
	return true;
}

#endif /* CT_MEMLIMIT_BPF_H */
