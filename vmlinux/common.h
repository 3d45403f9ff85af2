/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Kernel types that the BPF side reads, and constants of its helpers: what is the same on every
 * machine. Included by x86/vmlinux.h and arm64/vmlinux.h. See README.md for how to add a field.
 */
#ifndef VMLINUX_COMMON_H
#define VMLINUX_COMMON_H

typedef signed char __s8;
typedef unsigned char __u8;
typedef short __s16;
typedef unsigned short __u16;
typedef int __s32;
typedef unsigned int __u32;
typedef long long __s64;
typedef unsigned long long __u64;
typedef __s8 s8;
typedef __u8 u8;
typedef __s16 s16;
typedef __u16 u16;
typedef __s32 s32;
typedef __u32 u32;
typedef __s64 s64;
typedef __u64 u64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u64 __be64;
typedef __u32 __wsum;
typedef __u64 __addrpair;

typedef _Bool bool;
enum {
	false = 0,
	true = 1,
};
#ifndef NULL
#define NULL ((void *)0)
#endif

typedef unsigned long size_t;
typedef long ssize_t;
typedef unsigned long uintptr_t;
typedef __u8 uint8_t;
typedef __u16 uint16_t;
typedef __u32 uint32_t;
typedef __u64 uint64_t;
typedef __s32 int32_t;
typedef __s64 int64_t;
typedef int pid_t;
typedef __u32 dev_t; /* the kernel's: 12 bits major, 20 bits minor */
typedef unsigned short umode_t;
typedef long long loff_t;
typedef struct {
	int counter;
} atomic_t;

#define TASK_COMM_LEN 16

#define MAJOR(dev) ((unsigned)((dev) >> 20))
#define MINOR(dev) ((unsigned)((dev)&0xfffff))

#define PROT_EXEC 0x4
#define VM_EXEC	  0x00000004

#ifndef BPF_NO_PRESERVE_ACCESS_INDEX
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
#endif

struct task_struct;
struct dentry;
struct vfsmount;

/* Files. */

struct qstr {
	union {
		struct {
			u32 hash;
			u32 len;
		};
		u64 hash_len;
	};
	const unsigned char *name;
};

struct path {
	struct vfsmount *mnt;
	struct dentry *dentry;
};

struct super_block {
	dev_t s_dev;
	unsigned long s_magic;
	struct dentry *s_root;
};

struct vfsmount {
	struct dentry *mnt_root;
	struct super_block *mnt_sb;
};

struct inode {
	umode_t i_mode;
	struct super_block *i_sb;
	unsigned long i_ino;
	dev_t i_rdev;
	loff_t i_size;
};
#define S_IFMT	 00170000
#define S_IFCHR	 0020000
#define S_IFREG	 0100000

struct dentry {
	struct dentry *d_parent;
	struct qstr d_name;
	struct inode *d_inode;
	struct super_block *d_sb;
};

struct file_operations;

struct file {
	struct path f_path; /* since 6.18 in a union with __f_path: CO-RE looks into unions */
	struct inode *f_inode;
	const struct file_operations *f_op;
	void *private_data;
	unsigned int f_flags;
};

/* How often a file is referred to: until 6.12, and from 6.13 on, where 0 is one reference. */
struct file___pre_6_13 {
	struct {
		long counter;
	} f_count;
};

struct file___ref {
	struct {
		struct {
			long counter;
		} refcnt;
	} f_ref;
};

struct fdtable {
	unsigned int max_fds;
	struct file **fd;
};

struct files_struct {
	struct fdtable *fdt;
};

/* Processes. */

struct xol_area {
	unsigned long vaddr;
};

struct uprobes_state {
	struct xol_area *xol_area;
};

struct mm_struct {
	mm_context_t context;
	struct uprobes_state uprobes_state;
	struct file *exe_file;
	unsigned long start_code;
	unsigned long end_code;
	unsigned long arg_start;
	unsigned long arg_end;
};

struct irqaction {
	const char *name;
};

struct vm_area_struct {
	unsigned long vm_start;
	unsigned long vm_end;
	struct mm_struct *vm_mm;
	unsigned long vm_flags;
	unsigned long vm_pgoff;
	struct file *vm_file;
};

struct ns_common {
	unsigned int inum;
};

struct mnt_namespace {
	struct ns_common ns;
};

struct pid_namespace {
	unsigned int level;
	struct ns_common ns;
};

struct upid {
	int nr;
	struct pid_namespace *ns;
};

struct pid {
	unsigned int level;
	struct upid numbers[1];
};

struct nsproxy {
	struct mnt_namespace *mnt_ns;
	struct pid_namespace *pid_ns_for_children;
};

struct list_head {
	struct list_head *next;
};

struct wait_queue_head {
	struct list_head head; /* of wait_queue_entry.entry */
};

struct wait_queue_entry {
	struct list_head entry;
};

/* A thread in wait4() or waitid(). */
struct wait_opts {
	int wo_flags;
	struct wait_queue_entry child_wait; /* in signal_struct.wait_chldexit */
};
#define WUNTRACED 2

typedef struct {
	unsigned long sig[1];
} sigset_t;

struct sigpending {
	sigset_t signal;
};

struct signal_struct {
	struct sigpending shared_pending;
	atomic_t live; /* threads left; 0 in the last one's exit */
	int nr_threads;
	int group_exit_code;
	unsigned int flags;
	struct wait_queue_head wait_chldexit;
	struct pid *pids[4];
};
#define SIGNAL_GROUP_EXIT 0x00000004
#define PIDTYPE_PGID	  2
#define PIDTYPE_SID	  3

struct sigaction {
	void (*sa_handler)(int);
	unsigned long sa_flags;
};

struct k_sigaction {
	struct sigaction sa;
};

struct sighand_struct {
	struct k_sigaction action[64]; /* by signal - 1 */
};
#define SA_NOCLDSTOP 1


/* A call that a return probe waits for. */
struct return_instance {
	unsigned long stack; /* where its return address lies (x86), or lay */
	unsigned long orig_ret_vaddr;
	struct return_instance *next;
};

struct uprobe_task {
	struct return_instance *return_instances; /* the innermost first */
};

/* As the program had it; NULL without CONFIG_CHECKPOINT_RESTORE. */
struct sock_fprog_kern {
	u16 len;
	void *filter;
};

struct bpf_prog {
	struct sock_fprog_kern *orig_prog;
};

struct seccomp_filter {
	struct seccomp_filter *prev;
	struct bpf_prog *prog;
};

struct seccomp {
	struct seccomp_filter *filter;
};

struct task_struct {
	struct thread_info thread_info;
	struct thread_struct thread;
	unsigned int flags;
	unsigned int __state; /* since 5.14 */
	struct mm_struct *mm;
	int exit_code;
	pid_t pid;
	pid_t tgid;
	unsigned int ptrace;
	struct task_struct *real_parent;
	struct task_struct *group_leader;
	struct pid *thread_pid;
	u64 start_time;
	u64 start_boottime; /* since 5.5; real_start_time before */
	char comm[TASK_COMM_LEN];
	struct files_struct *files;
	struct nsproxy *nsproxy;
	struct signal_struct *signal;
	struct sighand_struct *sighand;
	sigset_t blocked;
	unsigned long sas_ss_sp; /* of sigaltstack() */
	size_t sas_ss_size;
	u64 self_exec_id;
	unsigned long nvcsw, nivcsw;
	struct uprobe_task *utask;
	struct seccomp seccomp;
};
#define PF_EXITING 0x00000004
#define PF_KTHREAD 0x00200000

struct linux_binprm {
	struct mm_struct *mm;
	struct file *file;
	int argc;
	int envc;
	const char *filename;
	const char *interp;
};

struct vm_unmapped_area_info {
	unsigned long flags;
	unsigned long length;
	unsigned long low_limit;
	unsigned long high_limit;
};

/* Contexts. */

struct trace_entry {
	unsigned short type;
	unsigned char flags;
	unsigned char preempt_count;
	int pid;
};

struct trace_event_raw_sys_enter {
	struct trace_entry ent;
	long id;
	unsigned long args[6];
};

struct trace_event_raw_sys_exit {
	struct trace_entry ent;
	long id;
	long ret;
};

struct trace_event_raw_sched_process_fork {
	struct trace_entry ent;
	pid_t parent_pid;
	pid_t child_pid;
};

struct trace_event_raw_sched_process_exec {
	struct trace_entry ent;
	u32 __data_loc_filename;
	pid_t pid;
	pid_t old_pid;
};

/* sched_process_exit, which has a class of its own (with one more field at the end) since 6.16. */
struct trace_event_raw_sched_process_template {
	struct trace_entry ent;
	char comm[TASK_COMM_LEN];
	pid_t pid;
	int prio;
};

struct seq_file;

struct bpf_iter_meta {
	struct seq_file *seq;
	u64 session_id;
	u64 seq_num;
};

struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
};

struct bpf_iter__task_vma {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
	struct vm_area_struct *vma;
};

struct bpf_iter__task_file {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
	u32 fd;
	struct file *file;
};

#ifndef BPF_NO_PRESERVE_ACCESS_INDEX
#pragma clang attribute pop
#endif

/* From <linux/bpf.h>, which cannot be included beside the types above: as they are on every kernel,
 * so outside the attribute (libbpf takes 2 ms to find a struct in the kernel's BTF). */
struct bpf_raw_tracepoint_args {
	__u64 args[0];
};


struct bpf_pidns_info {
	__u32 pid;
	__u32 tgid;
};

struct bpf_spin_lock {
	__u32 val;
};

enum bpf_map_type {
	BPF_MAP_TYPE_UNSPEC = 0,
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PROG_ARRAY = 3,
	BPF_MAP_TYPE_PERF_EVENT_ARRAY = 4,
	BPF_MAP_TYPE_PERCPU_HASH = 5,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_STACK_TRACE = 7,
	BPF_MAP_TYPE_CGROUP_ARRAY = 8,
	BPF_MAP_TYPE_LRU_HASH = 9,
	BPF_MAP_TYPE_LRU_PERCPU_HASH = 10,
	BPF_MAP_TYPE_LPM_TRIE = 11,
	BPF_MAP_TYPE_ARRAY_OF_MAPS = 12,
	BPF_MAP_TYPE_HASH_OF_MAPS = 13,
	BPF_MAP_TYPE_QUEUE = 22,
	BPF_MAP_TYPE_STACK = 23,
	BPF_MAP_TYPE_RINGBUF = 27,
	BPF_MAP_TYPE_TASK_STORAGE = 29,
	BPF_MAP_TYPE_BLOOM_FILTER = 30,
	BPF_MAP_TYPE_USER_RINGBUF = 31,
};

/* Values for bpf_core_enum_value_exists(): what a kernel's helpers can do. */
enum bpf_func_id {
	BPF_FUNC_ringbuf_output = 130,
	BPF_FUNC_task_storage_get = 156,
	BPF_FUNC_get_func_ip = 173,
	BPF_FUNC_get_attach_cookie = 174,
	BPF_FUNC_loop = 181,
	BPF_FUNC_copy_from_user_task = 191,
};

enum {
	BPF_ANY = 0,
	BPF_NOEXIST = 1,
	BPF_EXIST = 2,
	BPF_F_LOCK = 4,
};

enum {
	BPF_F_NO_PREALLOC = 1U << 0,
	BPF_F_NO_COMMON_LRU = 1U << 1,
	BPF_F_NUMA_NODE = 1U << 2,
	BPF_F_RDONLY = 1U << 3,
	BPF_F_WRONLY = 1U << 4,
	BPF_F_ZERO_SEED = 1U << 6,
	BPF_F_RDONLY_PROG = 1U << 7,
	BPF_F_WRONLY_PROG = 1U << 8,
	BPF_F_MMAPABLE = 1U << 10,
};

enum {
	BPF_RB_NO_WAKEUP = 1U << 0,
	BPF_RB_FORCE_WAKEUP = 1U << 1,
};

enum {
	BPF_RB_AVAIL_DATA = 0,
	BPF_RB_RING_SIZE = 1,
	BPF_RB_CONS_POS = 2,
	BPF_RB_PROD_POS = 3,
};

enum {
	BPF_F_SKIP_FIELD_MASK = 0xffULL,
	BPF_F_USER_STACK = 1ULL << 8,
	BPF_F_FAST_STACK_CMP = 1ULL << 9,
	BPF_F_REUSE_STACKID = 1ULL << 10,
	BPF_F_USER_BUILD_ID = 1ULL << 11,
};

#define BPF_F_INDEX_MASK  0xffffffffULL
#define BPF_F_CURRENT_CPU BPF_F_INDEX_MASK

enum {
	BPF_LOCAL_STORAGE_GET_F_CREATE = 1ULL << 0,
};

#endif /* VMLINUX_COMMON_H */
