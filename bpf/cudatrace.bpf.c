// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The BPF side: which programs there are and where they hang. What they do is in
 *   call.bpf.h  entry and return of CUDA functions
 *   proc.bpf.h  processes that come and go, libcuda files that are mapped
 * Only some are loaded: one of ct_session or the pair ct_entry and ct_return.
 */
#include "vmlinux.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "ct_abi.h"
#include "maps.bpf.h"
#include "call.bpf.h"
#include "proc.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* Kernel 6.13 to 6.19. Weak: other mechanisms are used where it is missing. */
extern bool bpf_session_is_return(void) __ksym __weak;

/* uprobe.session (kernel 6.13): one link for entry and return. libbpf before 1.6 has no section
 * name for it; src/attach/bpf.c sets the attach type. Returning 1 from entry leaves the return
 * probe out. */
SEC("?uprobe")
int ct_session(struct pt_regs *ctx)
{
	__u64 cookie = bpf_get_attach_cookie(ctx);

	if (bpf_session_is_return())
		return call_return(ctx, cookie);
	return call_enter(ctx, cookie);
}

/* uprobe.multi (6.6) and perf-event uprobes (cookies: 5.15). */
SEC("?uprobe")
int ct_entry(struct pt_regs *ctx)
{
	call_enter(ctx, bpf_get_attach_cookie(ctx));
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

/* Fires when mmap looks for a free place, which the dynamic linker asks for once for each library:
 * that finds libcuda being loaded without a probe on every system call. Since kernel 5.8. */
SEC("?raw_tp/vm_unmapped_area")
int ct_mmap(void *ctx)
{
	return proc_mmap();
}
