/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Maps and settings that all BPF programs share. */
#ifndef CT_MAPS_BPF_H
#define CT_MAPS_BPF_H

const volatile struct ct_cfg cfg;

struct ct_cpu cpus[CT_CPUS];

/* Next call id that no thread has taken. 0 is "no call". */
__u64 next_id = 1;

/* Incremented when a process's level has changed: threads then look their level up again. */
volatile __u32 level_gen = 1;
/* enum ct_proc_level of processes without a level of their own. */
volatile __u32 default_level = CT_PROC_TRACE;

/* Rows in use, per table and per user: see memlimit.bpf.h. */
__u32 rows_used[CT_TABLE_CNT];
__u32 rows_of_user[CT_TABLE_CNT][CT_USERS];

struct ring_map {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries,
	       1 << 16); /* placeholder: user space creates the rings and sets their size */
};

/* One ring per processor. A ring has a lock: on 28 processors, programs waiting for one lock turn
 * calls of 1 us into calls of 11 us. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 1); /* set before load */
	__type(key, __u32);
	__array(values, struct ring_map);
} rings SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, CT_MAX_FUNCS);
	__type(key, __u32);
	__type(value, struct ct_spec);
} specs SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	/* A thread's state is 5 KB, for which the kernel allocates 8: only for threads that call
	 * CUDA. */
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1); /* set before load */
	__type(key, __u32);
	__type(value, struct ct_thread);
} threads SEC(".maps");

/* Initial state of a new thread: too large for the BPF stack. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct ct_thread);
} zero_thread SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct ct_totals);
} totals SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1); /* set before load */
	__type(key, __u32);
	__type(value, struct ct_pid);
} pids SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1); /* set before load */
	__type(key, __u32);
	__type(value, struct ct_inproc);
} inproc SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1); /* set before load */
	__type(key, __u32);
	__type(value, struct ct_usage);
} usage SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 4096);
	__type(key, struct ct_lib_key);
	__type(value, __u32); /* lib_id */
} known_libs SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, CT_COMM_LAYOUTS);
	__type(key, __u32); /* lib_id */
	__type(value, struct ct_comm_layout);
} comm_layouts SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1); /* set before load: a row is 1 KB */
	__type(key, struct ct_count_key);
	__type(value, struct ct_count);
} counts SEC(".maps");

/* Failures are rare, so struct ct_count has no space for their codes. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1); /* set before load */
	__type(key, struct ct_error_key);
	__type(value, __u64);
} errors SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, CT_SHARES_MAX);
	__type(key, struct ct_owner);
	__type(value, struct ct_share);
} shares SEC(".maps");

/* Too large for the BPF stack. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct ct_count);
} zero_count SEC(".maps");

/* bpf_strncmp() exists only since 5.17. */
static __always_inline bool starts_with(const char *s, const char *want, int len)
{
	for (int i = 0; i < len; i++)
		if (s[i] != want[i])
			return false;
	return true;
}

static __always_inline struct ct_totals *get_totals(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&totals, &zero);
}

static __always_inline void total_drop(enum ct_drop kind)
{
	struct ct_totals *t = get_totals();

	if (t)
		__sync_fetch_and_add(&t->drops[kind], 1);
}

/* See ct_generation. */
static __always_inline __u64 task_generation(struct task_struct *task)
{
	return BPF_CORE_READ(task, group_leader, start_boottime) +
	       BPF_CORE_READ(task, group_leader, self_exec_id);
}

static __always_inline struct ct_cpu *this_cpu(void)
{
	return &cpus[bpf_get_smp_processor_id() & (CT_CPUS - 1)];
}

/*
 * Flags that wake the reader once per amount of data, because waking costs 2.5 us; the reader's
 * timer covers the rest. The amount sent is used, not the amount pending: querying the ring costs
 * more. A program preempted in between overwrites what others have added, which delays the next
 * wakeup once.
 */
static __always_inline __u64 wake_flags(__u32 size)
{
	struct ct_cpu *cpu = this_cpu();
	__u64 before = cpu->sent, after = before + ((size + 15) & ~7u);

	cpu->sent = after;
	return before >> cfg.wake_shift != after >> cfg.wake_shift ? BPF_RB_FORCE_WAKEUP
								   : BPF_RB_NO_WAKEUP;
}

static __always_inline void *this_ring(void)
{
	__u32 i = bpf_get_smp_processor_id();

	/* Processors added later share rings. */
	if (i >= cfg.ring_cnt)
		i = cfg.ring_cnt ? i % cfg.ring_cnt : 0;
	return bpf_map_lookup_elem(&rings, &i);
}

/* Fills in the common start of a record, except its flags. size 0: set when it is sent. */
static __always_inline void rec_begin_at(struct ct_rec *rec, __u16 kind, __u32 size, __u32 pid,
					 __u32 tid, __u64 ts_ns)
{
	rec->size = size;
	rec->kind = kind;
	rec->ts_ns = ts_ns;
	rec->pid = pid;
	rec->tid = tid;
}

/* As rec_begin_at(), with the present time: see rec_send(). */
static __always_inline void rec_begin(struct ct_rec *rec, __u16 kind, __u32 size, __u32 pid,
				      __u32 tid)
{
	rec_begin_at(rec, kind, size, pid, tid, bpf_ktime_get_ns());
}

/*
 * Sends a record. at_once: wake the reader for it. Returns false if there was no space. The reader
 * merges the records of all rings by time (src/record/ring.h): take the time in the same program
 * run.
 */
static __always_inline bool rec_send(void *rec, __u32 size, bool at_once)
{
	void *ring = this_ring();

	return ring && !bpf_ringbuf_output(ring, rec, size,
					   at_once ? BPF_RB_FORCE_WAKEUP : wake_flags(size));
}

#endif /* CT_MAPS_BPF_H */
