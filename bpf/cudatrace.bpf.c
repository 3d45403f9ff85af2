/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The BPF side: the programs and where they attach. Their code is in
 *   ids.bpf.h          ids of tasks
 *   memlimit.bpf.h     limits of table rows per owner
 *   thread.bpf.h       the state of a thread
 *   call.bpf.h         entry and return of CUDA functions
 *   inproc.bpf.h       calls that in-process libraries record
 *   stack_class.bpf.h  a call's position on the stack, and on which stack
 *   pointee.bpf.h      the memory that arguments point to
 *   name.bpf.h         kernel names, through their handles
 *   stack.bpf.h        --stack: callers of a call
 *   python.bpf.h       --python: Python frames of a call
 *   torch.bpf.h        --torch: PyTorch operators that enclose a call
 *   count.bpf.h        counted calls, levels of functions and processes
 *   cost.bpf.h         tracing overhead
 *   proc.bpf.h         start and end of processes, mapped libraries
 *   nv.bpf.h           --kernel: system calls into the NVIDIA driver, by probes on it
 *   nv_sys.bpf.h       the same by the tracepoints of all system calls
 *   uvm.bpf.h          page faults and migrations of managed memory
 *   sched.bpf.h        --sched: off-CPU time of calls, GPU interrupts
 *   regs.bpf.h         registers of waiting threads
 *   filter.bpf.h       system call filters of a process
 * Only some are loaded: either ct_session, or the pair ct_entry and ct_return; for --kernel the
 * kprobe pair, the fentry and fexit programs, or the pair on all system calls.
 */
#include "vmlinux.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "ct_bpf.h"
#include "ct_limit.h"
#include "ct_nv_bpf.h"

#define RECORDER_CALL				 const struct ct_frame *
#define recorder_word(call, i)			 ((call)->words[(i) & (CT_MAX_WORDS - 1)])
#define recorder_read(call, to, len, addr, used) bpf_probe_read_user(to, len, (void *)(addr))
#include "ct_pointee.h"

#include "maps.bpf.h"
#include "ids.bpf.h"
#include "memlimit.bpf.h"
#include "name.bpf.h"
#include "count.bpf.h"
#include "cost.bpf.h"
#include "pointee.bpf.h"
#include "stack.bpf.h"
#include "python.bpf.h"
#include "stack_class.bpf.h"
#include "inproc.bpf.h"
#include "thread.bpf.h"
#include "torch.bpf.h"
#include "call.bpf.h"
#include "nv.bpf.h"
#include "nv_sys.bpf.h"
#include "uvm.bpf.h"
#include "stop.bpf.h"
#include "proc.bpf.h"
#include "sched.bpf.h"
#include "regs.bpf.h"
#include "filter.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* The first exists in kernels 6.13 to 6.19, the second from 7.0 on. Weak: without them, other
 * mechanisms are used. */
extern bool bpf_session_is_return(void) __ksym __weak;
extern bool bpf_session_is_return___ctx(void *ctx) __ksym __weak;

/* uprobe.session (kernel 6.13): one link for entry and return. libbpf before 1.6 has no section
 * name for it; src/attach/attach.c sets the attach type. Returning 1 from the entry skips the
 * return probe. */
SEC("?uprobe")
int ct_session(struct pt_regs *ctx)
{
	__u64 cookie = bpf_get_attach_cookie(ctx);

	if (bpf_ksym_exists(bpf_session_is_return___ctx) ? bpf_session_is_return___ctx(ctx)
							 : bpf_session_is_return())
		return call_return(ctx, cookie);
	return call_enter(ctx, cookie, true);
}

/* uprobe.multi (6.6) and perf-event uprobes (cookies: 5.15). */
SEC("?uprobe")
int ct_entry(struct pt_regs *ctx)
{
	call_enter(ctx, bpf_get_attach_cookie(ctx), false);
	return 0;
}

SEC("?uprobe")
int ct_return(struct pt_regs *ctx)
{
	call_return(ctx, bpf_get_attach_cookie(ctx));
	return 0;
}

SEC("raw_tp/sched_process_fork")
int ct_fork(struct bpf_raw_tracepoint_args *ctx)
{
	return proc_fork((struct task_struct *)ctx->args[0], (struct task_struct *)ctx->args[1]);
}

SEC("raw_tp/sched_process_exec")
int ct_exec(struct bpf_raw_tracepoint_args *ctx)
{
	return proc_exec((struct task_struct *)ctx->args[0], (pid_t)ctx->args[1]);
}

SEC("raw_tp/sched_process_exit")
int ct_exit(struct bpf_raw_tracepoint_args *ctx)
{
	return proc_exit((struct task_struct *)ctx->args[0]);
}

SEC("raw_tp/task_rename")
int ct_rename(struct bpf_raw_tracepoint_args *ctx)
{
	return proc_rename((struct task_struct *)ctx->args[0], (const char *)ctx->args[1]);
}

/* Fires when mmap searches for free address space, which the dynamic linker requests once per
 * library. So loaded libraries are found without a probe on every system call. Since kernel 5.8. */
SEC("?raw_tp/vm_unmapped_area")
int ct_mmap(void *ctx)
{
	return proc_mmap();
}

/* --kernel, by kprobe.multi or kprobe: the cookie is the operation (enum ct_nv_op). */
SEC("?kprobe")
int ct_nv_kprobe(struct pt_regs *ctx)
{
	struct timer timing = timing_begin(&this_cpu()->kernel_left);

	nv_count_lost_return();
	nv_probe_enter(bpf_get_attach_cookie(ctx), PT_REGS_PARM1(ctx), PT_REGS_PARM2(ctx),
		       PT_REGS_PARM3(ctx));
	cost_of_no_call(&timing, current_id(), 0);
	return 0;
}

SEC("?kretprobe")
int ct_nv_kretprobe(struct pt_regs *ctx)
{
	struct timer timing = timing_begin(&this_cpu()->kernel_left);
	__u8 op = bpf_get_attach_cookie(ctx);
	__s64 ret = PT_REGS_RC(ctx);

	/* Only ioctl returns a long; for others, the upper half of the register is undefined. */
	nv_probe_exit(op, op == CT_NV_IOCTL ? ret : (int)ret);
	cost_of_no_call(&timing, current_id(), 0);
	return 0;
}

/* By fentry and fexit, where the module has BTF. One program per function, because the target
 * function is part of the program's type. */
#define NV_FENTRY(func, op, arg_cnt)                                                               \
	SEC("?fentry/" #func)                                                                      \
	int ct_nv_in_##func(__u64 *ctx)                                                            \
	{                                                                                          \
		struct timer timing = timing_begin(&this_cpu()->kernel_left);                      \
                                                                                                   \
		nv_probe_enter(op, ctx[0], ctx[1], arg_cnt > 2 ? ctx[2] : 0);                      \
		cost_of_no_call(&timing, current_id(), 0);                                         \
		return 0;                                                                          \
	}                                                                                          \
	SEC("?fexit/" #func)                                                                       \
	int ct_nv_out_##func(__u64 *ctx)                                                           \
	{                                                                                          \
		struct timer timing = timing_begin(&this_cpu()->kernel_left);                      \
                                                                                                   \
		nv_probe_exit(op, (__s64)(op == CT_NV_MMAP || op == CT_NV_OPEN ||                  \
							  op == CT_NV_CLOSE || op == CT_NV_IOCTL   \
						  ? (int)ctx[arg_cnt]                              \
						  : ctx[arg_cnt]));                                \
		cost_of_no_call(&timing, current_id(), 0);                                         \
		return 0;                                                                          \
	}
#include "ct_nv_funcs.def"
#undef NV_FENTRY

/* Most of these run in kernel threads: no process filter. */
SEC("?kprobe")
int ct_uvm_kprobe(struct pt_regs *ctx)
{
	return nv_uvm(PT_REGS_PARM2(ctx), (const void *)PT_REGS_PARM3(ctx));
}

SEC("?fentry/uvm_perf_event_notify")
int ct_uvm_fentry(__u64 *ctx)
{
	return nv_uvm(ctx[1], (const void *)ctx[2]);
}

/* By the tracepoints of all system calls. */
SEC("?raw_tp/sys_enter")
int ct_nv_sys_enter(struct bpf_raw_tracepoint_args *ctx)
{
	struct timer timing = timing_begin(&this_cpu()->kernel_left);

	nv_sys_enter((struct pt_regs *)ctx->args[0], ctx->args[1]);
	cost_of_no_call(&timing, current_id(), cost_cfg.syscall_ns);
	return 0;
}

SEC("?raw_tp/sys_exit")
int ct_nv_sys_exit(struct bpf_raw_tracepoint_args *ctx)
{
	struct timer timing = timing_begin(&this_cpu()->kernel_left);

	nv_sys_exit((struct pt_regs *)ctx->args[0], ctx->args[1]);
	cost_of_no_call(&timing, current_id(), cost_cfg.syscall_ns);
	return 0;
}

SEC("?tp/nvidia/nvidia_dev_xid")
int ct_xid(void *ctx)
{
	return nv_xid(ctx);
}

SEC("?raw_tp/sched_switch")
int ct_sched_switch(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_struct *prev = (struct task_struct *)ctx->args[1];
	struct task_struct *next = (struct task_struct *)ctx->args[2];
	struct timer timing = timing_begin(&this_cpu()->kernel_left);

	sched_switch(prev, next);
	/* The next thread waits for this. */
	if (timing.ns)
		cost_of_no_call(&timing, task_tid(next), 0);
	return 0;
}

SEC("?raw_tp/irq_handler_entry")
int ct_irq_entry(struct bpf_raw_tracepoint_args *ctx)
{
	return irq_entry(ctx->args[0], (struct irqaction *)ctx->args[1]);
}

/* Runs when the tracer reads from its link (attach__thread_regs()), for all threads of the tracer's
 * PID namespace. */
SEC("?iter/task")
int ct_regs(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;

	if (task)
		regs_read(task);
	return 0;
}

/* As ct_regs, for attach__filter(). */
SEC("?iter/task")
int ct_filters(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;

	if (task)
		filter_read(task);
	return 0;
}
