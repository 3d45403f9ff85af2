/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Probes that try features with programs of two or three instructions. A version number means
 * little for a distribution's kernel, and nothing for a container's permissions.
 */
#include "caps_priv.h"
#include "attach/probe/probes.h"

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <inttypes.h>
#include <linux/perf_event.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define INSN_EXIT                                                                                  \
	{                                                                                          \
		.code = BPF_JMP | BPF_EXIT                                                         \
	}
#define INSN_RET_0                                                                                 \
	{                                                                                          \
		.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0                          \
	}
#define INSN_CALL(id)                                                                              \
	{                                                                                          \
		.code = BPF_JMP | BPF_CALL, .imm = (id)                                            \
	}

#define HELPER_PROBE_READ_KERNEL 113 /* Linux 5.5 */
#define HELPER_GET_ATTACH_COOKIE 174 /* Linux 5.15 */
#define CMD_LINK_CREATE		 28

static const struct bpf_insn nothing[] = {INSN_RET_0, INSN_EXIT};
#define NOTHING nothing, sizeof(nothing) / sizeof(nothing[0])

/* Stores the reason. EPERM without the privileges has no other meaning. */
static enum cap_state no(struct cap *c, int ret)
{
	bool may = caps__has(CAP_PRIV_BPF) && caps__has(CAP_PRIV_PERFMON);

	if (!may && (ret == -EPERM || ret == -EACCES)) {
		cap_set_detail(c, "the privileges are missing");
		return CAP_UNKNOWN;
	}
	cap_set_detail(c, "%s", strerror(-ret));
	return CAP_NO;
}

static enum cap_state done(struct cap *c, int fd)
{
	if (fd < 0)
		return no(c, fd);
	close(fd);
	return CAP_YES;
}

static int load(enum bpf_prog_type type, uint32_t attach_type)
{
	LIBBPF_OPTS(bpf_prog_load_opts, opts, .expected_attach_type = attach_type);

	return bpf_prog_load(type, "ct_probe", "GPL", NOTHING, &opts);
}

enum cap_state cap_probe_bpf_load(struct cap *c)
{
	return done(c, load(BPF_PROG_TYPE_KPROBE, 0));
}

/* Tries whether a program may read kernel memory. Refused (EINVAL) if the kernel is locked down. */
enum cap_state cap_try_read_kernel(struct cap *c)
{
	static const struct bpf_insn insns[] = {
		/* bpf_probe_read_kernel(r10 - 8, 8, NULL) */
		{.code = BPF_ALU64 | BPF_MOV | BPF_X, .dst_reg = BPF_REG_1, .src_reg = BPF_REG_10},
		{.code = BPF_ALU64 | BPF_ADD | BPF_K, .dst_reg = BPF_REG_1, .imm = -8},
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_2, .imm = 8},
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_3},
		INSN_CALL(HELPER_PROBE_READ_KERNEL),
		INSN_RET_0,
		INSN_EXIT,
	};
	int fd;

	if (!caps__has(CAP_BPF_LOAD)) {
		cap_set_detail(c, "none, or cannot be read");
		return CAP_YES;
	}
	fd = bpf_prog_load(BPF_PROG_TYPE_KPROBE, "ct_probe", "GPL", insns,
			   sizeof(insns) / sizeof(insns[0]), NULL);
	if (fd < 0) {
		cap_set_detail(c, "BPF programs may not read kernel memory");
		return CAP_NO;
	}
	close(fd);
	cap_set_detail(c, "none, or cannot be read");
	return CAP_YES;
}

enum cap_state cap_probe_ringbuf(struct cap *c)
{
	return done(c, bpf_map_create(BPF_MAP_TYPE_RINGBUF, "ct_probe", 0, 0,
				      (uint32_t)sysconf(_SC_PAGESIZE), NULL));
}

enum cap_state cap_probe_cookie(struct cap *c)
{
	static const struct bpf_insn insns[] = {INSN_CALL(HELPER_GET_ATTACH_COOKIE), INSN_RET_0,
						INSN_EXIT};

	return done(c, bpf_prog_load(BPF_PROG_TYPE_KPROBE, "ct_probe", "GPL", insns,
				     sizeof(insns) / sizeof(insns[0]), NULL));
}

/* Tries to attach a link to a directory, which always fails. A kernel that has the attach type
 * returns EBADF; one without it fails earlier (EINVAL). Nothing is attached, so nothing has to be
 * detached, which would take up to 0.1 s. */
static enum cap_state try_link(struct cap *c, enum mechanism mech)
{
	uint64_t offset = 0;
	struct {
		uint32_t prog_fd, target_fd, attach_type, flags;
		uint64_t path, offsets, ref_ctr_offsets, cookies;
		uint32_t cnt, link_flags, pid;
		uint8_t rest[32];
	} attr = {
		.attach_type = (uint32_t)probes_attach_type(mech),
		.path = (uintptr_t) "/",
		.offsets = (uintptr_t)&offset,
		.cnt = 1,
	};
	int prog = load(BPF_PROG_TYPE_KPROBE, attr.attach_type), fd, ret;

	if (prog < 0)
		return no(c, prog);
	attr.prog_fd = (uint32_t)prog;
	fd = (int)syscall(SYS_bpf, CMD_LINK_CREATE, &attr, sizeof(attr));
	ret = -errno;
	close(prog);
	if (fd >= 0) {
		close(fd);
		return CAP_NO;
	}
	if (ret == -EBADF)
		return CAP_YES;
	if (ret != -EINVAL)
		return no(c, ret);
	cap_set_detail(c, "not supported by this kernel");
	return CAP_NO;
}

enum cap_state cap_probe_multi(struct cap *c)
{
	return try_link(c, MECH_MULTI);
}

enum cap_state cap_probe_session(struct cap *c)
{
	return try_link(c, MECH_SESSION);
}

/* bool bpf_session_is_return(void); from kernel 7.0 on with a pointer to the context. The program
 * handles both: bpf/cudatrace.bpf.c. */
static bool session_kfunc_fits(struct cap *c, const struct btf *btf)
{
	int id = btf__find_by_name_kind(btf, "bpf_session_is_return", BTF_KIND_FUNC);
	const struct btf_type *proto, *arg;

	if (id < 0) {
		cap_set_detail(c, "this kernel has no bpf_session_is_return()");
		return false;
	}
	proto = btf__type_by_id(btf, btf__type_by_id(btf, (uint32_t)id)->type);
	if (!btf_vlen(proto))
		return true;
	arg = btf__type_by_id(btf, btf_params(proto)[0].type);
	if (btf_vlen(proto) == 1 && arg && btf_is_ptr(arg))
		return true;
	cap_set_detail(c, "this kernel's bpf_session_is_return() has unknown arguments");
	return false;
}

/* Reading all of the kernel's types takes 20 ms. */
enum cap_state cap_session_kfunc(struct cap *c)
{
	struct btf *btf = btf__load_vmlinux_btf();
	enum cap_state state;

	if (!btf) {
		cap_set_detail(c, "no BTF of the kernel");
		return CAP_UNKNOWN;
	}
	state = session_kfunc_fits(c, btf) ? CAP_YES : CAP_NO;
	btf__free(btf);
	return state;
}

/* A function of our own to probe. */
__attribute__((noinline, used)) static void probe_me(void)
{
	__asm__ volatile("nop");
}

/* Returns its offset in our executable, or 0 if not found. */
static uint64_t own_offset(void)
{
	uint64_t at = (uintptr_t)probe_me, start, end, off, found = 0;
	FILE *f = fopen("/proc/self/maps", "re");
	char line[512];

	while (f && !found && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %*s %" SCNx64, &start, &end, &off) == 3 &&
		    at >= start && at < end)
			found = at - start + off;
	}
	if (f)
		fclose(f);
	return found;
}

/* A perf event for one uprobe needs CAP_SYS_ADMIN (kernel 6.18; CAP_PERFMON is not enough), and
 * closing it takes 0.1 s. So it is tried only if nothing better exists. */
enum cap_state cap_probe_uprobe(struct cap *c)
{
	struct perf_event_attr attr = {
		.size = sizeof(attr),
		.config1 = (uintptr_t) "/proc/self/exe",
		.config2 = own_offset(),
	};
	int fd, type = 0;
	FILE *f;

	if (caps__has(CAP_UPROBE_MULTI))
		return CAP_YES;
	f = fopen("/sys/bus/event_source/devices/uprobe/type", "re");
	if (f) {
		if (fscanf(f, "%d", &type) != 1)
			type = 0;
		fclose(f);
	}
	if (type <= 0) {
		cap_set_detail(c, "this kernel has none, or /sys is not mounted");
		return CAP_NO;
	}
	attr.type = (uint32_t)type;
	fd = (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
	if (fd < 0 && errno == EACCES && caps__has(CAP_PRIV_PERFMON)) {
		cap_set_detail(c, "without uprobe.multi they need CAP_SYS_ADMIN: run it with sudo");
		return CAP_NO;
	}
	return done(c, fd < 0 ? -errno : fd);
}

static enum cap_state try_raw_tp(struct cap *c, const char *name)
{
	int prog = load(BPF_PROG_TYPE_RAW_TRACEPOINT, 0), fd;

	if (prog < 0)
		return no(c, prog);
	fd = bpf_raw_tracepoint_open(name, prog);
	close(prog);
	if (fd == -ENOENT) {
		cap_set_detail(c, "this kernel has no %s", name);
		return CAP_NO;
	}
	return done(c, fd);
}

enum cap_state cap_probe_tp_process(struct cap *c)
{
	static const char *const names[] = {"sched_process_fork", "sched_process_exec",
					    "sched_process_exit", "task_rename"};
	enum cap_state state = CAP_YES;

	for (unsigned i = 0; state == CAP_YES && i < sizeof(names) / sizeof(names[0]); i++)
		state = try_raw_tp(c, names[i]);
	return state;
}

enum cap_state cap_probe_tp_unmapped_area(struct cap *c)
{
	return try_raw_tp(c, "vm_unmapped_area");
}

/* Loading proves nothing: kernel 6.18 without kprobes loads fentry and refuses to attach. */
static enum cap_state try_tracing(struct cap *c, enum bpf_attach_type type, const char *func)
{
	LIBBPF_OPTS(bpf_prog_load_opts, opts, .expected_attach_type = type);
	int id = libbpf_find_vmlinux_btf_id(func, type), prog, fd;

	if (id < 0) {
		cap_set_detail(c, "no BTF of %s", func);
		return caps__has(CAP_BTF) ? CAP_NO : CAP_UNKNOWN;
	}
	opts.attach_btf_id = (uint32_t)id;
	prog = bpf_prog_load(BPF_PROG_TYPE_TRACING, "ct_probe", "GPL", NOTHING, &opts);
	if (prog < 0)
		return no(c, prog);
	fd = bpf_raw_tracepoint_open(NULL, prog);
	close(prog);
	/* ENOTSUPP is internal to the kernel: strerror() has no text for it. */
	if (fd == -524 || fd == -EBUSY) {
		cap_set_detail(c, "this kernel refuses to attach");
		return CAP_NO;
	}
	return done(c, fd);
}

enum cap_state cap_probe_kprobe_multi(struct cap *c)
{
	const char *func = "bpf_fentry_test1"; /* see cap_probe_fentry() */
	LIBBPF_OPTS(bpf_link_create_opts, opts, .kprobe_multi.cnt = 1, .kprobe_multi.syms = &func);
	int prog, fd;

	if (!cap_ftrace_on(c))
		return CAP_NO;
	prog = load(BPF_PROG_TYPE_KPROBE, BPF_TRACE_KPROBE_MULTI);
	if (prog < 0)
		return no(c, prog);
	fd = bpf_link_create(prog, 0, BPF_TRACE_KPROBE_MULTI, &opts);
	close(prog);
	if (fd == -EINVAL || fd == -EOPNOTSUPP) {
		cap_set_detail(c, "not supported by this kernel");
		return CAP_NO;
	}
	return done(c, fd);
}

enum cap_state cap_probe_fentry(struct cap *c)
{
	if (!cap_ftrace_on(c))
		return CAP_NO;
	/* Called rarely, and exists since 5.5. */
	return try_tracing(c, BPF_TRACE_FENTRY, "bpf_fentry_test1");
}

enum cap_state cap_probe_tp_btf(struct cap *c)
{
	return try_tracing(c, BPF_TRACE_RAW_TP, "sched_process_exit");
}
