/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "nv.h"

#include "attach/allow/caps.h"
#include "nv_devs.h"
#include "uvm_btf.h"

#include "util/log.h"

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define UVM_NOTIFY "uvm_perf_event_notify"

/* is_here: this driver has it; set again by each attempt. */
static struct {
	const char *name;
	enum ct_nv_op op;
	bool is_here;
	uint64_t addr; /* 0: unknown */
} funcs[] = {
#define NV_FENTRY(func, operation, arg_cnt) {#func, operation, false, 0},
#include "ct_nv_funcs.def"
#undef NV_FENTRY
};
#define FUNC_CNT (sizeof(funcs) / sizeof(funcs[0]))
static uint64_t uvm_notify_addr;

unsigned nv__candidates(enum nv_probe want, enum nv_probe out[NV_PROBE_CNT])
{
	if (want == NV_PROBE_AUTO && !nv_devs__by_name())
		return caps__nv_probes(out);
	out[0] = want == NV_PROBE_AUTO ? NV_PROBE_TRACEPOINT : want;
	return 1;
}

/* Hides one of two: an outer function (up to branch 535) calls the inner one. */
static void hide_inner(void)
{
	static const char outer[] = "nvidia_frontend_";

	for (unsigned i = 0; i < FUNC_CNT; i++) {
		char inner[64];

		if (!funcs[i].is_here || strncmp(funcs[i].name, outer, sizeof(outer) - 1))
			continue;
		snprintf(inner, sizeof(inner), "nvidia_%s", funcs[i].name + sizeof(outer) - 1);
		for (unsigned j = 0; j < FUNC_CNT; j++)
			if (!strcmp(funcs[j].name, inner))
				funcs[j].is_here = false;
	}
}

static void find_symbol(const char *name, uint64_t addr)
{
	if (!strcmp(name, UVM_NOTIFY))
		uvm_notify_addr = addr;
	for (unsigned i = 0; i < FUNC_CNT; i++) {
		if (strcmp(funcs[i].name, name))
			continue;
		funcs[i].is_here = true;
		funcs[i].addr = addr;
	}
}

/* Parses "ffffffffc0a81230 t nvidia_open\t[nvidia]". Addresses are 0 for users who may not see
 * them. */
static void find_symbols(void)
{
	FILE *f = fopen("/proc/kallsyms", "re");
	char line[512], name[128], module[64];
	unsigned long long addr;

	for (unsigned i = 0; i < FUNC_CNT; i++)
		funcs[i].is_here = false;
	uvm_notify_addr = 0;
	while (f && fgets(line, sizeof(line), f)) {
		if (strstr(line, "[nvidia") &&
		    sscanf(line, "%llx %*c %127s [%63[^]]]", &addr, name, module) == 3)
			find_symbol(name, addr);
	}
	if (f)
		fclose(f);
	hide_inner();
}

static void load_fentry(struct cudatrace_bpf *skel)
{
	for (unsigned i = 0; i < FUNC_CNT; i++) {
		char name[80];

		if (!funcs[i].is_here)
			continue;
		snprintf(name, sizeof(name), "ct_nv_in_%s", funcs[i].name);
		bpf_program__set_autoload(bpf_object__find_program_by_name(skel->obj, name), true);
		snprintf(name, sizeof(name), "ct_nv_out_%s", funcs[i].name);
		bpf_program__set_autoload(bpf_object__find_program_by_name(skel->obj, name), true);
	}
}

/* libbpf rejects the whole object if one fentry program's function is in no BTF. */
static void find_in_btf(void)
{
	static const char *const modules[] = {"nvidia", "nvidia_uvm", "nvidia_modeset"};
	struct btf *vmlinux = btf__load_vmlinux_btf(), *btf[3] = {NULL};

	for (int i = 0; i < 3 && vmlinux; i++)
		btf[i] = btf__load_module_btf(modules[i], vmlinux);
	for (unsigned i = 0; i < FUNC_CNT; i++) {
		funcs[i].is_here = false;
		for (int j = 0; j < 3; j++)
			funcs[i].is_here |= btf[j] && btf__find_by_name_kind(btf[j], funcs[i].name,
									     BTF_KIND_FUNC) > 0;
	}
	for (int i = 0; i < 3; i++)
		btf__free(btf[i]);
	btf__free(vmlinux);
	hide_inner();
}

/* Parses "field:u32 error_code; offset:12; size:4; signed:0;". */
static bool read_field(const char *line, const char *name, __u32 *off)
{
	const char *p = strstr(line, name), *at = strstr(line, "offset:");

	return p && at && p[strlen(name)] == ';' && sscanf(at, "offset:%u", off) == 1;
}

/* Returns whether the driver has a tracepoint for Xids with the expected fields. */
static bool find_xid(struct ct_cfg *cfg)
{
	FILE *f = fopen("/sys/kernel/tracing/events/nvidia/nvidia_dev_xid/format", "re");
	unsigned found = 0;
	char line[256];

	while (f && fgets(line, sizeof(line), f)) {
		found += read_field(line, " dev", &cfg->xid_dev_off);
		found += read_field(line, " error_code", &cfg->xid_code_off);
		found += read_field(line, " msg", &cfg->xid_msg_off);
	}
	if (f)
		fclose(f);
	return found == 3;
}

/* Faults and migrations need a probe on a function of nvidia-uvm, not on system calls. */
static void prepare_uvm(struct cudatrace_bpf *skel, struct ct_cfg *cfg, const struct nv_abi *abi,
			enum nv_probe how)
{
	/* uvm_perf_event_id_t; one lower in branches 515 to 525 */
	unsigned older = abi->known == NV_KNOWN && nv_abi_branch(abi) < 530;

	if (how == NV_PROBE_TRACEPOINT)
		return;
	if (!uvm_btf_read(cfg->uvm_off)) {
		info("--kernel: page faults and migrations of managed memory are not traced: "
		     "nvidia-uvm is not loaded or has no type information (BTF)");
		return;
	}
	cfg->uvm_fault_id = 6 - older;
	cfg->uvm_migration_id = 7 - older;
	bpf_program__set_autoload(skel->progs.ct_uvm_fentry, how == NV_PROBE_FENTRY);
	bpf_program__set_autoload(skel->progs.ct_uvm_kprobe, how != NV_PROBE_FENTRY);
}

static void prepare_kprobes(struct cudatrace_bpf *skel, enum nv_probe how)
{
	struct bpf_program *progs[] = {skel->progs.ct_nv_kprobe, skel->progs.ct_nv_kretprobe,
				       skel->progs.ct_uvm_kprobe};

	find_symbols();
	bpf_program__set_autoload(skel->progs.ct_nv_kprobe, true);
	bpf_program__set_autoload(skel->progs.ct_nv_kretprobe, true);
	for (int i = 0; i < 3 && how == NV_PROBE_KPROBE_MULTI; i++)
		bpf_program__set_expected_attach_type(progs[i], BPF_TRACE_KPROBE_MULTI);
}

void nv__prepare(struct cudatrace_bpf *skel, struct ct_cfg *cfg, const struct attach_opts *o,
		 enum nv_probe how)
{
	nv_devs__read(&cfg->nv);
	if (how == NV_PROBE_KPROBE || how == NV_PROBE_KPROBE_MULTI)
		prepare_kprobes(skel, how);
	bpf_program__set_autoload(skel->progs.ct_nv_sys_enter, how == NV_PROBE_TRACEPOINT);
	bpf_program__set_autoload(skel->progs.ct_nv_sys_exit, how == NV_PROBE_TRACEPOINT);
	if (how == NV_PROBE_FENTRY) {
		find_in_btf();
		load_fentry(skel);
	}
	if (how != NV_PROBE_AUTO) {
		bpf_program__set_autoload(skel->progs.ct_xid, find_xid(cfg));
		prepare_uvm(skel, cfg, o->abi, how);
	}
	bpf_program__set_autoload(skel->progs.ct_sched_switch, o->sched);
	bpf_program__set_autoload(skel->progs.ct_irq_entry, o->sched);
}

int nv__fill_plans(struct cudatrace_bpf *skel, const struct nv_abi *abi, enum ct_redact redact)
{
	struct ct_nv_row rows[CT_NV_PLANS_MAX];
	struct ct_nv_params params[CT_NV_PARAMS_MAX];
	unsigned cnt = nv_plan_rows(abi, redact, rows, CT_NV_PLANS_MAX),
		 param_cnt = nv_plan_param_rows(abi, redact, params, CT_NV_PARAMS_MAX);
	int ret = 0;

	for (unsigned i = 0; i < cnt && i < CT_NV_PLANS_MAX && !ret; i++)
		ret = bpf_map__update_elem(skel->maps.nv_plans, &rows[i].key, sizeof(rows[i].key),
					   &rows[i].plan, sizeof(rows[i].plan), BPF_ANY);
	for (unsigned i = 0; i < param_cnt && i < CT_NV_PARAMS_MAX && !ret; i++)
		ret = bpf_map__update_elem(skel->maps.nv_params, &params[i].control,
					   sizeof(params[i].control), &params[i].len,
					   sizeof(params[i].len), BPF_ANY);
	if (ret)
		err("cannot fill the BPF maps of driver commands: %s", strerror(-ret));
	return ret;
}

static struct bpf_link *kprobe(struct bpf_program *prog, const char *func, enum ct_nv_op op,
			       bool ret)
{
	LIBBPF_OPTS(bpf_kprobe_opts, opts, .bpf_cookie = op, .retprobe = ret);

	return bpf_program__attach_kprobe_opts(prog, func, &opts);
}

static struct bpf_link *kprobe_multi(struct bpf_program *prog, const unsigned long *addrs,
				     const __u64 *cookies, size_t cnt, bool ret)
{
	LIBBPF_OPTS(bpf_kprobe_multi_opts, opts, .addrs = addrs, .cookies = cookies, .cnt = cnt,
		    .retprobe = ret);

	return bpf_program__attach_kprobe_multi_opts(prog, NULL, &opts);
}

/* By address: until 6.2, names are searched only in the kernel itself, not in modules. The skeleton
 * owns the links. */
static int attach_kprobe_multi(struct cudatrace_bpf *skel)
{
	unsigned long addrs[FUNC_CNT], uvm = uvm_notify_addr;
	__u64 cookies[FUNC_CNT];
	int cnt = 0;

	for (unsigned i = 0; i < FUNC_CNT; i++) {
		if (!funcs[i].is_here || !funcs[i].addr)
			continue;
		addrs[cnt] = funcs[i].addr;
		cookies[cnt++] = funcs[i].op;
	}
	if (!cnt)
		return -ENOENT;
	/* Return probes first: an entry without its return would count as dropped. */
	skel->links.ct_nv_kretprobe =
		kprobe_multi(skel->progs.ct_nv_kretprobe, addrs, cookies, cnt, true);
	if (!skel->links.ct_nv_kretprobe)
		return -errno;
	skel->links.ct_nv_kprobe =
		kprobe_multi(skel->progs.ct_nv_kprobe, addrs, cookies, cnt, false);
	if (!skel->links.ct_nv_kprobe)
		return -errno;
	if (!bpf_program__autoload(skel->progs.ct_uvm_kprobe))
		return cnt;
	skel->links.ct_uvm_kprobe = kprobe_multi(skel->progs.ct_uvm_kprobe, &uvm, NULL, 1, false);
	if (!skel->links.ct_uvm_kprobe)
		dbg("cannot trace page faults and migrations: %s", strerror(errno));
	return cnt;
}

/* Links live as long as the process: closing them takes seconds. */
static int attach_kprobes(struct cudatrace_bpf *skel)
{
	int cnt = 0, last = -ENOENT;

	for (unsigned i = 0; i < FUNC_CNT; i++) {
		struct bpf_link *exit, *entry;

		if (!funcs[i].is_here)
			continue;
		exit = kprobe(skel->progs.ct_nv_kretprobe, funcs[i].name, funcs[i].op, true);
		if (!exit) {
			last = -errno;
			continue;
		}
		entry = kprobe(skel->progs.ct_nv_kprobe, funcs[i].name, funcs[i].op, false);
		if (!entry) {
			last = -errno;
			bpf_link__destroy(exit);
			continue;
		}
		cnt++;
	}
	if (bpf_program__autoload(skel->progs.ct_uvm_kprobe) &&
	    !kprobe(skel->progs.ct_uvm_kprobe, UVM_NOTIFY, 0, false))
		dbg("cannot trace page faults and migrations: %s", strerror(errno));
	return cnt ? cnt : last;
}

/* The skeleton has attached the loaded programs: count them. */
static int count_fentries(struct cudatrace_bpf *skel)
{
	int cnt = 0;

	for (unsigned i = 0; i < FUNC_CNT; i++)
		cnt += funcs[i].is_here;
	return cnt ? cnt : -ENOENT;
}

int nv__attach(struct cudatrace_bpf *skel, enum nv_probe how)
{
	switch (how) {
	case NV_PROBE_KPROBE_MULTI:
		return attach_kprobe_multi(skel);
	case NV_PROBE_KPROBE:
		return attach_kprobes(skel);
	case NV_PROBE_FENTRY:
		return count_fentries(skel);
	default:
		return 1;
	}
}

void nv__report(enum nv_probe want, enum nv_probe got, int error)
{
	enum nv_probe how[NV_PROBE_CNT];

	nv__candidates(want, how);
	if (!nv_devs__loaded())
		nv_devs__warn_none();
	else if (got == NV_PROBE_AUTO)
		warn("--kernel: cannot probe the driver here (%s): only CUDA calls are traced",
		     strerror(-error));
	else if (got != how[0])
		warn("--kernel: %s does not work here (%s): the driver is probed by %s",
		     nv_probe_name(how[0]), strerror(-error), nv_probe_name(got));
}
