/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Counters of summary.c, shown by summary_print.c, and by the rows in summary.section. */
#ifndef SINK_SUMMARY_SUMMARY_PRIV_H
#define SINK_SUMMARY_SUMMARY_PRIV_H

#include "summary.h"

#include "model/gpu_busy.h"
#include "model/losses.h"

#include "report/gpu/residency.h"
#include "report/gpu/gpu_sums.h"
#include "report/layers/allocator_sums.h"
#include "report/layers/range_sums.h"
#include "report/section.h"
#include "report/time/stage.h"

#include <string.h>

#include "util/hash_table.h"

/* From this width on there is space for more columns and longer lists. */
#define SUMMARY_WIDE 100

#define SUMMARY_FN_BITS	     12
#define SUMMARY_FN_SLOTS     (1 << SUMMARY_FN_BITS)
#define SUMMARY_KERNEL_BITS  17
#define SUMMARY_KERNEL_SLOTS (1 << SUMMARY_KERNEL_BITS)
#define SUMMARY_KERNELS_MAX  65536
#define SUMMARY_NAME_MAX     1024
#define SUMMARY_PROCS_MAX    65536
#define SUMMARY_STREAMS_MAX  4096
#define SUMMARY_ERRORS_MAX   64
#define SUMMARY_CMDS_MAX     4096
#define SUMMARY_SLOWEST	     5
#define SUMMARY_OPS_MAX	     64
#define SUMMARY_XIDS_MAX     32
#define SUMMARY_THREADS_MAX  65536
#define SUMMARY_THREAD_BITS  8

struct fn_stat {
	const struct api_fn *fn; /* NULL: free */
	uint64_t cnt, total_ns, max_ns, error_cnt;
	uint64_t top_ns;	      /* as class_stat.top_ns */
	uint64_t max_at_ns;	      /* start of the longest call */
	uint64_t blocked_ns;	      /* as summary.blocked_ns */
	uint64_t untimed_cnt;	      /* of cnt, probed at their entry only */
	uint64_t wait_cnt, wait_ns;   /* of calls that wait for the GPU */
	uint64_t off_cpu_ns;	      /* --sched: part of wait_ns in which the thread did not run */
	uint64_t ioctl_cnt, ioctl_ns; /* --kernel: ioctls of the driver, in all calls */
};

struct kernel_stat {
	struct hash_link link;
	uint64_t cnt, total_ns, max_ns; /* direct launches */
	uint64_t node_cnt;		/* launches into a graph */
	uint64_t untimed_cnt;		/* of cnt, probed at their entry only */
	uint64_t gpu_cnt, gpu_ns;	/* --gpu-time: executions, including nodes of graphs */
	const char *name;		/* cut to SUMMARY_NAME_MAX */
};
HASH_TABLE_TYPE(kernel_stat);
HASH_TABLE_BYTES(kernel_stat, name);

struct kernel_slot {
	const char *ptr; /* NULL: free */
	struct kernel_stat *kernel;
};

struct class_stat {
	uint64_t cnt;
	uint64_t total_ns; /* of calls outside other calls of their family */
	uint64_t top_ns;   /* part outside driver calls: shares add up to the whole */
};

struct mem_stat {
	uint64_t alloc_cnt, free_cnt, alloc_bytes;
	uint64_t live, peak;
	uint64_t kept; /* live when processes ended */
};

/* Changes by a call of the counts of its kind of memory. */
struct mem_call {
	uint64_t parent_id; /* 0: called by the program itself */
	enum mem_kind kind;
	int sign; /* 1: allocation, -1: free */
	uint64_t bytes;
};

/* A thread that has waited. */
#define SUMMARY_WAIT_THREADS 65536
struct wait_thread {
	struct hash_link link;
	uint64_t key; /* pid, tid */
};
HASH_TABLE(wait_thread, key);

/* A thread that made a driver call. */
struct thread_stat {
	struct hash_link link;
	uint64_t key;			   /* pid, tid */
	uint64_t submit_cnt, submit_bytes; /* since its last wait */
};
HASH_TABLE(thread_stat, key);

struct proc_stat {
	struct hash_link link;
	uint32_t pid;
	uint64_t ended_ns; /* 0: it runs. Records of its unfinished calls may come later */
	bool has_rank;
	uint64_t mem[MEM_KIND_CNT];
	struct mem_call inner; /* the last one made within another call */
};
HASH_TABLE(proc_stat, pid);

/* The copies, and other operations that move bytes, each in its own row. */
enum transfer_kind {
	TRANSFER_UNKNOWN = COPY_NONE,
	TRANSFER_MEMSET = COPY_DIR_PEER + 1,
	TRANSFER_PREFETCH,
	TRANSFER_KIND_CNT
};

struct transfer_stat {
	uint64_t cnt, bytes, total_ns;
	uint64_t sync_cnt, sync_bytes, sync_ns; /* part for which the caller waited */
};

struct error_stat {
	int32_t code;
	uint64_t cnt;
	const struct api_fn *first; /* first function that returned it */
};

/* A call that failed with this result, and is to be shown (failure_matters()). */
struct failure {
	const struct api_fn *fn;
	int32_t code;
	bool has_size;
	uint64_t cnt;
	uint64_t first_ns, size; /* of the first one */
};

/* A command of the driver: names of unknown ones are made per event, so they are copied. */
struct cmd_stat {
	struct hash_link link;
	uint64_t cnt, total_ns, max_ns, error_cnt;
	const char *name;
	const char *first_error; /* status or errno; NULL: no name */
};
HASH_TABLE_TYPE(cmd_stat);
HASH_TABLE_BYTES(cmd_stat, name);

struct slow_ioctl {
	uint64_t ns;
	char name[64];
	const char *class; /* NULL: not known */
	const char *call;  /* NULL: outside calls */
};

struct op_stat {
	const char *op;
	uint64_t cnt, bytes;
};

struct xid_stat {
	uint32_t number;
	uint64_t cnt;
	char gpu[32], message[160]; /* of the first Xid */
};

enum driver_op { DRV_IOCTL, DRV_OPEN, DRV_MMAP, DRV_CLOSE, DRV_POLL, DRV_OP_CNT };

/* --kernel and --sched: everything except calls. */
struct driver_stat {
	uint64_t op_cnt[DRV_OP_CNT], op_errors[DRV_OP_CNT];
	uint64_t ioctl_ns, unfinished_cnt;
	uint64_t outside_cnt, outside_ns; /* ioctls outside CUDA calls */
	uint64_t irq_cnt, xid_cnt;
	struct cmd_stat_table cmds;
	struct cmd_stat other_cmds;
	struct slow_ioctl slowest[SUMMARY_SLOWEST]; /* slowest first */
	unsigned slow_cnt;
	struct op_stat sched[SUMMARY_OPS_MAX], uvm[SUMMARY_OPS_MAX];
	unsigned sched_kinds, uvm_kinds;
	struct xid_stat xids[SUMMARY_XIDS_MAX]; /* more kinds: in xid_cnt only */
	unsigned xid_kinds;
};

struct stream_id {
	uint64_t handle;
	uint32_t pid;
	bool used;
};

/* Host time until at_ns: in driver calls by part, bytes copied, waits after the first launch. */
struct host_time {
	uint64_t at_ns, bytes, waits;
	uint64_t ns[PART_OUTSIDE];
};

/* Host time of the run, and of its parts that the verdict needs. */
#define HOST_GAPS 512
struct host_clock {
	uint64_t first_ns, context_ns; /* 0: none */
	struct host_time now;
	struct host_time loaded;	/* when the data before the first launch was copied */
	struct host_time first, second; /* when the number of waits had doubled last */
	struct host_time waited;	/* after the last wait */
	struct host_time worked;	/* after the last work, if in_tail */
	bool has_launch, in_tail;
	uint64_t turn_cnt;
	unsigned gap_cnt;
	struct stage_gap gaps[HOST_GAPS];
};
/* A driver call that is not in another one, and took time. */
void host_clock__call(struct host_clock *c, const struct trace_event *ev);

struct summary {
	struct losses lost; /* losses, from events */
	uint64_t event_cnt, call_cnt;
	uint64_t call_ns;     /* as class_stat.top_ns */
	uint64_t untimed_cnt; /* calls of which only the start was recorded */
	uint64_t error_cnt;
	uint64_t failure_cnt; /* failures among error_cnt */
	uint64_t unfinished_cnt, abandoned_cnt;
	uint64_t longest_unfinished_ns;
	uint64_t longest_wait_ns; /* of unfinished calls that wait for the GPU */
	struct host_clock host;
	const char *longest_unfinished;

	uint64_t launch_cnt, launch_ns, launch_node_cnt, launch_unnamed_cnt;
	uint64_t graph_launch_cnt, graph_launch_ns, instantiate_cnt;
	unsigned stream_cnt;
	uint64_t wait_cnt, wait_ns;
	/* Driver calls that wait by their nature, not in other driver calls: at most the time of
	 * the threads. */
	uint64_t blocked_cnt, blocked_ns;
	uint64_t small_wait_cnt,
		work_wait_cnt;	  /* of blocked_cnt, after little and after any work */
	uint64_t first_launch_ns; /* 0: none */

	bool has_off_cpu;	     /* --sched */
	struct gpu_devices run_gpus; /* --gpu-time */
	struct driver_stat driver;
	struct residency residency;   /* --gpu-ctxsw */
	struct gpu_sums *gpus;	      /* --gpu-stats; NULL: none */
	struct range_sums *ranges;    /* --nvtx; NULL: none */
	struct range_sums *operators; /* --torch; NULL: none */
	struct allocator_sums *allocator;

	struct class_stat classes[CLASS_CNT];
	struct mem_stat mem[MEM_KIND_CNT];
	struct transfer_stat transfers[TRANSFER_KIND_CNT];
	struct error_stat errors[SUMMARY_ERRORS_MAX];
	unsigned error_kinds;
	struct failure failures[SUMMARY_ERRORS_MAX];
	unsigned failure_kinds;

	struct proc_stat_table procs;
	struct proc_stat *cur_proc;
	uint64_t proc_cnt, rank_cnt; /* processes so far, and those that use a communicator */
	struct wait_thread_table wait_threads;
	struct thread_stat_table threads;
	struct thread_stat *recent_threads[1 << SUMMARY_THREAD_BITS];
	bool threads_full;

	struct kernel_stat_table kernels;
	struct kernel_stat other_kernels;
	unsigned kernel_ptr_cnt;
	unsigned fn_cnt;
	struct fn_stat other_fns;

	struct fn_stat fns[SUMMARY_FN_SLOTS];
	struct stream_id streams[SUMMARY_STREAMS_MAX];
	struct kernel_slot kernel_slots[SUMMARY_KERNEL_SLOTS];
};

static inline unsigned hash_bits(uint64_t x, unsigned bits)
{
	return hash_word(x) >> (64 - bits);
}

/* summary_threads.c: a driver call that is not in another one, of ns, and its function. */
void summary_top_call(struct summary *s, struct fn_stat *st, const struct trace_event *ev,
		      uint64_t ns);
/* summary_failures.c */
void summary_error(struct summary *s, struct fn_stat *st, const struct trace_event *ev);

/* summary_gpu.c: --gpu-time. k: of the event's kernel, or NULL. */
void summary_gpu_event(struct summary *s, const struct trace_event *ev, struct kernel_stat *k);
extern const char *const mem_shown_name[MEM_KIND_CNT];
const char *transfer_kind_name(unsigned kind);

/* A function by its public name: all its exported versions together. */
struct fn_row {
	const char *name;
	struct fn_stat st;
};

int fn_row_by_time(const void *a, const void *b);
int fn_row_by_top(const void *a, const void *b);
int fn_row_by_count(const void *a, const void *b);
int fn_row_by_wait(const void *a, const void *b);
int fn_row_by_driver(const void *a, const void *b);

/* All called functions, unordered; to be freed. NULL, *cnt 0: no memory or none. */
struct fn_row *summary_fns(const struct summary *s, size_t *cnt);
/* Pointers to all kernels, most launched first; to be freed. */
const struct kernel_stat **summary_kernels(const struct summary *s, size_t *cnt);

/* Counts driver events. */
void summary_driver_event(struct summary *s, const struct trace_event *ev);
/* Pointers to all commands, most time first; to be freed. */
const struct cmd_stat **summary_cmds(const struct summary *s, size_t *cnt);

/* --no-args: values derived from arguments are omitted, not shown as 0. */
static inline bool summary_redacts_args(const struct trace_info *info)
{
	return info->redacted && !strcmp(info->redacted, "arguments");
}

/* All losses. */
struct losses summary_losses(const struct summary *s, const struct trace_end *end);
/* The number of rows shown of a long table. */
int summary_top(const struct term *term);

/* Sorted rows for the printers. Between init and free, the summary does not change. */
struct summary_view {
	struct summary *sum;
	const struct trace_info *info;
	const struct trace_end *end;
	struct losses lost;
	struct fn_row *fns, *driver_fns; /* by time; by time in ioctls */
	size_t fn_cnt, kernel_cnt, cmd_cnt;
	size_t driver_max; /* rows of driver_fns in a table for a terminal */
	const struct kernel_stat **kernels;
	const struct cmd_stat **cmds;
	unsigned class_order[CLASS_CNT]; /* by time */
	struct class_stat all;
	struct class_stat rest;	      /* all but the first part_cnt of timed_cnt classes */
	unsigned part_cnt, timed_cnt; /* summary_view__parts() */
	struct fn_row outside;	      /* ioctls outside CUDA calls */
	bool is_waits;		      /* the table of functions is of waits */
};
void summary_view__init(struct summary_view *v, struct summary *s, const struct trace_info *info,
			const struct trace_end *end);
/* Sorts classes and functions by their time in no other driver call; at most max are not of the
 * rest. */
void summary_view__parts(struct summary_view *v, unsigned max);
void summary_view__free(struct summary_view *v);

static inline uint64_t summary_wall_ns(const struct summary_view *v)
{
	return v->end->end_ns > v->info->base_ns ? v->end->end_ns - v->info->base_ns : 0;
}

/* Sentences of both summaries. */
#define SUMMARY_UNFINISHED "%s had not returned: %s after %s"
#define SUMMARY_ABANDONED  "%s left by longjmp, exception or cancellation"
#define SUMMARY_NOT_TRACED "%s; --all traces everything"
void summary_xid_text(char *text, size_t size, const struct xid_stat *x);

extern const struct section_table summary_table, summary_launches_table, summary_driver_table;
/* section_print() of a list of at most max rows. */
unsigned summary_print_table(const struct summary_view *v, const struct section_table *of,
			     const char *list, unsigned max, const struct term *term);
/* The same, with at most TABLE_ROWS rows, and an empty line in front if there are any. */
void summary_print_after_line(const struct summary_view *v, const struct section_table *of,
			      const char *list, const struct term *term);

/* summary_counted.c: calls that were counted only, and level changes. */
void summary_print_counted(const struct summary_view *v, const struct term *term);
/* The parts for --kernel and --sched. */
void summary_print_driver(struct summary_view *v, const struct term *term);
void summary_print_gpu(const struct summary_view *v, const struct term *term);

#endif /* SINK_SUMMARY_SUMMARY_PRIV_H */
