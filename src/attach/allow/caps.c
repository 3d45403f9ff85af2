/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "caps_priv.h"

#include <bpf/libbpf.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#define RUN_AS "run it with sudo, or see the end of `cudatrace check`"

/* The first is a reason why nothing works, so it precedes its consequences. */
static struct cap caps[CAP_CNT] = {
	[CAP_KERNEL] =
		{
			"kernel",
			"Linux 5.15 or later",
			"Nothing can be traced: probes have no cookies on older kernels.",
			"run a newer kernel",
			CAP_NEEDED,
			.probe = cap_probe_kernel,
		},
	[CAP_PRIV_BPF] =
		{
			"cap_bpf",
			"privilege CAP_BPF",
			"Nothing can be traced: BPF programs may not be loaded.",
			RUN_AS,
			CAP_NEEDED,
			.probe = cap_probe_priv_bpf,
		},
	[CAP_PRIV_PERFMON] =
		{
			"cap_perfmon",
			"privilege CAP_PERFMON",
			"Nothing can be traced: probes may not be attached.",
			RUN_AS,
			CAP_NEEDED,
			.probe = cap_probe_priv_perfmon,
		},
	[CAP_LOCKDOWN] =
		{
			"no_confidentiality_lockdown",
			"kernel not locked down for confidentiality",
			"Nothing can be traced: BPF programs may not read kernel memory.",
			"boot without lockdown=confidentiality (integrity does no harm)",
			CAP_NEEDED,
			.probe = cap_probe_lockdown,
		},
	[CAP_BPF_LOAD] =
		{
			"bpf",
			"BPF programs for tracing",
			"Nothing can be traced.",
			"use a kernel with CONFIG_BPF_SYSCALL and CONFIG_BPF_EVENTS; in a "
			"container, one whose seccomp profile allows bpf()",
			CAP_NEEDED,
			.probe = cap_probe_bpf_load,
		},
	[CAP_BTF] =
		{
			"btf",
			"type information of the kernel (BTF)",
			"Nothing can be traced: the layout of kernel structures is unknown.",
			"use a kernel with CONFIG_DEBUG_INFO_BTF; in a container, mount /sys",
			CAP_NEEDED,
			.probe = cap_probe_btf,
		},
	[CAP_RINGBUF] =
		{
			"ringbuf",
			"BPF ring buffer",
			"Nothing can be traced: records cannot be sent to cudatrace.",
			"run Linux 5.8 or later",
			CAP_NEEDED,
			.probe = cap_probe_ringbuf,
		},
	[CAP_COOKIE] =
		{
			"cookie",
			"probe cookies",
			"Nothing can be traced: a probe cannot identify its function.",
			"run Linux 5.15 or later",
			CAP_NEEDED,
			.probe = cap_probe_cookie,
		},
	[CAP_UPROBE] =
		{
			"uprobe",
			"uprobes",
			"Nothing can be traced: calls into libcuda cannot be probed.",
			"use a kernel with CONFIG_UPROBES and CONFIG_UPROBE_EVENTS",
			CAP_NEEDED,
			.probe = cap_probe_uprobe,
		},
	[CAP_TP_PROCESS] =
		{
			"tp_process",
			"tracepoints of process start and end",
			"Nothing can be traced: new and ending processes are not reported.",
			"use a kernel with CONFIG_TRACEPOINTS",
			CAP_NEEDED,
			.probe = cap_probe_tp_process,
		},
	[CAP_UPROBE_MULTI] =
		{
			"uprobe_multi",
			"uprobe.multi (Linux 6.6)",
			"Attaching and detaching take seconds: each function needs a probe of its "
			"own.",
			"run Linux 6.6 or later",
			CAP_BETTER,
			.probe = cap_probe_multi,
		},
	[CAP_UPROBE_SESSION] =
		{
			"uprobe_session",
			"uprobe.session (Linux 6.13)",
			"A traced call has more overhead: entry and return are separate probes. A "
			"program that calls CUDA on another, higher stack during a call "
			"(coroutines) is killed by SIGILL, except with --entry-only.",
			"run Linux 6.13 or later",
			CAP_BETTER,
			.probe = cap_probe_session,
			.look_closer = cap_session_kfunc,
		},
	[CAP_TP_UNMAPPED_AREA] =
		{
			"tp_vm_unmapped_area",
			"tracepoint mmap:vm_unmapped_area",
			"A libcuda file in an unusual place is not detected when a process loads it "
			"for the first time: name it with --libcuda.",
			"run Linux 5.8 or later",
			CAP_BETTER,
			.probe = cap_probe_tp_unmapped_area,
		},
	[CAP_MAP_FILES] =
		{
			"map_files",
			"opening mapped files (/proc/PID/map_files)",
			"A libcuda that was deleted or replaced on disk while a program uses it "
			"cannot be traced.",
			"run it with sudo, or give it cap_checkpoint_restore",
			CAP_BETTER,
			.probe = cap_probe_map_files,
		},
	[CAP_PRIV_PTRACE] =
		{
			"cap_sys_ptrace",
			"privilege CAP_SYS_PTRACE",
			"Other users' processes cannot be inspected: their libcuda is unknown, and "
			"kernels loaded before have no names.",
			RUN_AS,
			CAP_BETTER,
			.probe = cap_probe_priv_ptrace,
		},
	[CAP_PIDNS] =
		{
			"initial_pid_namespace",
			"all processes of the machine",
			"Only processes of this container, and of containers in it, can be traced.",
			"run it in the host's PID namespace (docker run --pid=host)",
			CAP_BETTER,
			.probe = cap_probe_pidns,
		},
	[CAP_KPROBE_MULTI] =
		{
			"kprobe_multi",
			"kprobe.multi (Linux 5.18)",
			"--kernel uses a mechanism that may drop events when many threads are in "
			"the driver at once.",
			"use a kernel with CONFIG_FPROBE, and kernel.ftrace_enabled=1",
			CAP_INFO,
			.probe = cap_probe_kprobe_multi,
		},
	[CAP_FENTRY] =
		{
			"fentry",
			"fentry",
			"--kernel can only use kprobes, or a tracepoint of all system calls.",
			"use a kernel with CONFIG_DYNAMIC_FTRACE_WITH_DIRECT_CALLS, and "
			"kernel.ftrace_enabled=1",
			CAP_INFO,
			.probe = cap_probe_fentry,
		},
	[CAP_KPROBE] =
		{
			"kprobe",
			"kprobes",
			"--kernel can only use fentry, or a tracepoint of all system calls.",
			"use a kernel with CONFIG_KPROBES, and kernel.ftrace_enabled=1",
			CAP_INFO,
			.probe = cap_probe_kprobe,
		},
	[CAP_TP_BTF] =
		{
			"tp_btf",
			"typed tracepoints (tp_btf)",
			"Nothing: cudatrace uses raw tracepoints.",
			"run Linux 5.5 or later with BTF",
			CAP_INFO,
			.probe = cap_probe_tp_btf,
		},
	[CAP_TRACEFS] =
		{
			"tracefs",
			"tracefs is mounted",
			"Nothing: probes are created without it.",
			"mount -t tracefs tracefs /sys/kernel/tracing",
			CAP_INFO,
			.probe = cap_probe_tracefs,
		},
	[CAP_PARANOID] =
		{
			"perf_event_paranoid",
			"kernel.perf_event_paranoid",
			"Nothing: CAP_PERFMON overrides it.",
			"leave it as it is",
			CAP_INFO,
			.probe = cap_probe_paranoid,
		},
	[CAP_YAMA] =
		{
			"yama_ptrace_scope",
			"kernel.yama.ptrace_scope",
			"Without CAP_SYS_PTRACE, memory of processes that cudatrace did not start "
			"cannot be read: kernels loaded before have no names.",
			RUN_AS,
			CAP_INFO,
			.probe = cap_probe_yama,
		},
	[CAP_SECCOMP] =
		{
			"no_seccomp",
			"no seccomp filter",
			"The filter may refuse bpf() and perf_event_open().",
			"in a container: --security-opt seccomp=unconfined, or --privileged",
			CAP_INFO,
			.probe = cap_probe_seccomp,
		},
	[CAP_SHSTK] =
		{
			"shadow_stack",
			"return probes and shadow stacks (Linux 6.11)",
			"A program that has a shadow stack is killed when a traced call returns.",
			"run Linux 6.11 or later, or trace with --entry-only=all",
			CAP_INFO,
			.probe = cap_probe_shstk,
		},
	[CAP_MEMLOCK] =
		{
			"memlock",
			"limit of locked memory",
			"Nothing from Linux 5.11 on: BPF memory is charged to the cgroup.",
			"ulimit -l unlimited",
			CAP_INFO,
			.probe = cap_probe_memlock,
		},
	[CAP_NOFILE] =
		{
			"nofile",
			"limit of open files",
			"Without uprobe.multi each function needs four descriptors: not all can be "
			"probed.",
			"ulimit -Hn 8192",
			CAP_INFO,
			.probe = cap_probe_nofile,
		},
	[CAP_NV_DRIVER] =
		{
			"nvidia_driver",
			"NVIDIA kernel driver",
			"CUDA programs find no GPU here.",
			"load the NVIDIA driver, or trace where there is one",
			CAP_INFO,
			.probe = cap_probe_nv_driver,
		},
	[CAP_NV_DEVICES] =
		{
			"nvidia_devices",
			"GPU device files",
			"CUDA programs started from here find no GPU.",
			"in a container: --gpus all; else: nvidia-modprobe -u -c=0",
			CAP_INFO,
			.probe = cap_probe_nv_devices,
		},
};

void cap_set_detail(struct cap *c, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(c->detail, sizeof(c->detail), fmt, ap);
	va_end(ap);
}

/* libbpf's messages go into the row's detail. */
static void find_out(struct cap *c, enum cap_state (*how)(struct cap *c))
{
	libbpf_print_fn_t print = libbpf_set_print(NULL);

	c->state = how(c);
	libbpf_set_print(print);
}

const struct cap *caps__get(enum cap_id id)
{
	struct cap *c = &caps[id];

	if (c->state == CAP_UNPROBED)
		find_out(c, c->probe);
	return c;
}

bool caps__has(enum cap_id id)
{
	return caps__get(id)->state == CAP_YES;
}

const struct cap *caps__all(unsigned *cnt)
{
	for (int id = 0; id < CAP_CNT; id++) {
		struct cap *c = &caps[id];

		if (caps__has(id) && c->look_closer)
			find_out(c, c->look_closer);
	}
	*cnt = CAP_CNT;
	return caps;
}

bool caps__can_trace(void)
{
	for (int id = 0; id < CAP_CNT; id++) {
		if (caps[id].need == CAP_NEEDED && !caps__has(id))
			return false;
	}
	return true;
}

const char *caps__refused(void)
{
	static const enum cap_id calls[] = {CAP_BPF_LOAD, CAP_UPROBE};

	if (caps__missing_privilege())
		return "uprobes need root";
	for (unsigned i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		if (!caps__has(calls[i]) && !caps__has(CAP_SECCOMP))
			return "a seccomp filter refuses bpf() or perf_event_open(), which uprobes need";
	return NULL;
}

const char *caps__missing_privilege(void)
{
	bool bpf = caps__has(CAP_PRIV_BPF), perfmon = caps__has(CAP_PRIV_PERFMON);

	if ((!bpf || !perfmon) && caps__in_user_namespace())
		return "needs CAP_BPF and CAP_PERFMON of the machine, not those of a user namespace "
		       "(rootless container): run it on the host";
	if (!bpf && !perfmon)
		return "needs CAP_BPF and CAP_PERFMON: run it with sudo";
	if (!bpf)
		return "needs CAP_BPF: run it with sudo";
	if (!perfmon)
		return "needs CAP_PERFMON: run it with sudo";
	if (!caps__has(CAP_UPROBE_MULTI) && !cap_is_admin())
		return "needs CAP_SYS_ADMIN on a kernel without uprobe.multi: run it with sudo";
	return NULL;
}

unsigned caps__degraded(const char *out[], unsigned max)
{
	unsigned n = 0;

	for (int id = 0; id < CAP_CNT && n < max; id++) {
		if (caps[id].need == CAP_BETTER && caps__get(id)->state == CAP_NO)
			out[n++] = caps[id].lost;
	}
	return n;
}

enum mechanism caps__best_mechanism(void)
{
	if (caps__has(CAP_UPROBE_SESSION))
		return MECH_SESSION;
	return caps__has(CAP_UPROBE_MULTI) ? MECH_MULTI : MECH_PERF;
}

unsigned caps__nv_probes(enum nv_probe out[NV_PROBE_CNT])
{
	unsigned cnt = 0;

	if (caps__has(CAP_KPROBE_MULTI))
		out[cnt++] = NV_PROBE_KPROBE_MULTI;
	/* If the driver is not loaded, the BTF of its modules is unknown. */
	if (caps__has(CAP_FENTRY) &&
	    (access("/sys/module/nvidia", F_OK) || !access("/sys/kernel/btf/nvidia", F_OK)))
		out[cnt++] = NV_PROBE_FENTRY;
	if (caps__has(CAP_KPROBE))
		out[cnt++] = NV_PROBE_KPROBE;
	out[cnt++] = NV_PROBE_TRACEPOINT;
	return cnt;
}
