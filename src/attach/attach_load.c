/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Selects the programs to load, and the best mechanism that works. */
#include "attach_priv.h"

#include "attach/allow/caps.h"
#include "nv.h"
#include "nv_devs.h"
#include "attach/find/target.h"

#include "util/clock.h"
#include "util/log.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

static void choose_programs(struct attach *a, const struct attach_opts *o)
{
	struct cudatrace_bpf *s = a->skel;
	struct bpf_program *used[2] = {s->progs.ct_entry, s->progs.ct_return};

	if (a->mech == MECH_SESSION)
		used[0] = used[1] = s->progs.ct_session;
	for (int i = 0; i < 2; i++) {
		bpf_program__set_autoload(used[i], true);
		bpf_program__set_expected_attach_type(used[i], probes_attach_type(a->mech));
	}
	bpf_program__set_autoload(s->progs.ct_mmap, caps__has(CAP_TP_UNMAPPED_AREA));
	/* Needed for stacks of waiting ranks. */
	bpf_program__set_autoload(s->progs.ct_regs, fnset__wants_api(a->fns, api_at(API_NCCL)));
	bpf_program__set_autoload(s->progs.ct_filters, o->filters);
	bpf_map__set_autocreate(s->maps.filter, o->filters);
}

void attach__load_error(int ret)
{
	bool denied = ret == -EPERM || ret == -EACCES;
	const char *missing = denied ? caps__missing_privilege() : NULL;

	if (missing)
		err("cannot load the BPF programs: %s", missing);
	else if (denied && caps__can_trace())
		err("the kernel refuses the BPF programs: run the command again with -v and "
		    "report the output");
	else
		err("cannot load the BPF programs: %s: run cudatrace check to see what this "
		    "kernel lacks",
		    strerror(-ret));
}

/* Wakes the reader eight times per ring, but at most once per 16 KiB. */
static uint32_t wake_shift(uint64_t ring_sz)
{
	uint32_t shift = 14;

	while ((ring_sz >> 3) >> (shift + 1))
		shift++;
	return shift;
}

/* For tests/bench/start.py. The number of verified instructions exists since Linux 5.16. */
static void report_loaded(const struct attach *a, uint64_t ns)
{
	struct bpf_program *p;

	dbg("programs loaded in %.1f ms", ns / 1e6);
	bpf_object__for_each_program(p, a->skel->obj)
	{
		int fd = log_level() >= LOG_DEBUG ? bpf_program__fd(p) : -1;
		struct bpf_prog_info info = {0};
		uint32_t len = sizeof(info);

		if (fd >= 0 && !bpf_prog_get_info_by_fd(fd, &info, &len))
			dbg("%s: %u instructions verified", bpf_program__name(p),
			    info.verified_insns);
	}
}

/* Tries one mechanism for the driver. Reports nothing, so that the next can be tried. */
static int load_with(struct attach *a, const struct attach_opts *o, enum nv_probe how)
{
	struct ct_cfg cfg = {
		.filter_mode = o->filter_pids ? CT_FILTER_PIDS : CT_FILTER_ALL,
		.follow_children = o->follow,
		.own_pid = getpid(),
		.links_pid = a->links.pid,
		.pidns = target_own_pidns(),
		.ring_cnt = a->ring_cnt,
		.wake_shift = wake_shift(a->ring_sz),
		.wake_on_thread = o->stacks || o->python,
		.python = o->python,
		.profile = o->profile,
		.torch = fnset__wants_api(o->fns, api_at(API_TORCH)),
		.filter_uid = o->filter_uid,
		.uid = o->uid,
		.min_duration_ns = o->min_duration_ns,
		.redact = o->redact,
		.inproc = o->inproc,
		.begins_func = fnset__find(o->fns, ATTACH_BEGINS),
	};
	uint64_t start_ns = now_ns();
	int ret;

	if (getrandom(cfg.name_secret, sizeof(cfg.name_secret), 0) != sizeof(cfg.name_secret) ||
	    getrandom(&cfg.user_secret, sizeof(cfg.user_secret), 0) != sizeof(cfg.user_secret))
		return -EIO;
	cfg.name_secret[0] |= 1;
	cfg.name_secret[1] |= 1;
	a->skel = cudatrace_bpf__open();
	if (!a->skel)
		return -errno;
	choose_programs(a, o);
	levels__prepare(&cfg, o->fns);
	memlimit__prepare(a->skel, &cfg, o);
	nv__prepare(a->skel, &cfg, o, how);
	a->skel->rodata->cfg = cfg;
	ret = bpf_map__reuse_fd(a->skel->maps.rings, a->rings_fd);
	if (!ret)
		ret = cudatrace_bpf__load(a->skel);
	if (!ret)
		report_loaded(a, now_ns() - start_ns);
	a->progs = (struct probe_progs){
		.session = bpf_program__fd(a->skel->progs.ct_session),
		.entry = bpf_program__fd(a->skel->progs.ct_entry),
		.ret = bpf_program__fd(a->skel->progs.ct_return),
	};
	if (!ret)
		ret = rings__end(a);
	if (!ret && how != NV_PROBE_AUTO)
		ret = nv__fill_plans(a->skel, o->abi, o->redact);
	if (how == NV_PROBE_TRACEPOINT)
		a->bare_syscall_ns = syscall__time();
	if (!ret)
		ret = cudatrace_bpf__attach(a->skel);
	if (!ret && how != NV_PROBE_AUTO) {
		ret = nv__attach(a->skel, how);
		if (ret >= 0)
			ret = 0;
	}
	if (ret) {
		dbg("%s, driver by %s: %s", mechanism_name(a->mech), nv_probe_name(how),
		    strerror(-ret));
		cudatrace_bpf__destroy(a->skel);
		a->skel = NULL;
		return ret;
	}
	a->kernel_probe = how;
	return 0;
}

/* Tries the mechanisms for the driver, best first; with AUTO also none. *first: why the best one
 * failed. */
static int load_kernel(struct attach *a, const struct attach_opts *o, int *first)
{
	enum nv_probe how[NV_PROBE_CNT];
	unsigned cnt = nv__candidates(o->kernel_probe, how);
	int ret = -ENOENT;

	for (unsigned i = 0; i < cnt && ret; i++) {
		ret = load_with(a, o, how[i]);
		*first = *first ? *first : ret;
	}
	if (ret && o->kernel_probe == NV_PROBE_AUTO)
		ret = load_with(a, o, NV_PROBE_AUTO);
	return ret;
}

/* Loading proves nothing: probes on functions of our own do. */
static int prove(struct attach *a)
{
	int ret = stubs__attach(a, false);

	/* Waiting for a lock holder proves nothing either way. */
	if (!ret || ret == -EINPROGRESS)
		return 0;
	dbg("%s: cannot attach: %s", mechanism_name(a->mech), strerror(-ret));
	cudatrace_bpf__destroy(a->skel);
	a->skel = NULL;
	return ret;
}

/* Tries the best mechanism, and with AUTO the others. *first: why the best one failed. */
static int load_from(struct attach *a, const struct attach_opts *o, bool proven, int *first,
		     int *first_kernel)
{
	bool kernel = o->kernel && nv_devs__loaded();
	bool forced = kernel && o->kernel_probe != NV_PROBE_AUTO;
	int ret;

	for (a->mech = o->mech == MECH_AUTO ? caps__best_mechanism() : o->mech;; a->mech++) {
		ret = kernel ? load_kernel(a, o, first_kernel) : load_with(a, o, NV_PROBE_AUTO);
		if (ret && forced)
			return ret;
		if (!ret && proven)
			ret = prove(a);
		*first = *first ? *first : ret;
		if (!ret || o->mech != MECH_AUTO || a->mech == MECH_PERF)
			return ret;
	}
}

static void report_load_error(const struct attach_opts *o, int first, int kernel)
{
	if (kernel && o->kernel_probe != NV_PROBE_AUTO)
		err("--kernel-probe=%s does not work here: %s: leave the option out, or run "
		    "cudatrace check",
		    nv_probe_name(o->kernel_probe), strerror(-kernel));
	else if (o->mech != MECH_AUTO && first != -EPERM && first != -EACCES)
		err("--mechanism: %s does not work here: %s: leave the option out to use the "
		    "best that does",
		    mechanism_name(o->mech), strerror(-first));
	else
		attach__load_error(first);
}

int attach__load(struct attach *a, const struct attach_opts *o)
{
	enum mechanism best = o->mech == MECH_AUTO ? caps__best_mechanism() : o->mech;
	int first = 0, first_kernel = 0, ret = load_from(a, o, true, &first, &first_kernel);

	/* On some file systems our own functions cannot be probed, while others can. */
	if (ret && o->mech == MECH_AUTO)
		ret = load_from(a, o, false, &first, &first_kernel);
	if (ret)
		report_load_error(o, first ? first : ret, first_kernel);
	if (ret)
		return ret;
	links__settle(&a->links, a->mech);
	if (a->mech != best)
		warn("%s does not work here (%s): functions are probed by %s", mechanism_name(best),
		     strerror(-first), mechanism_name(a->mech));
	if (o->kernel)
		nv__report(o->kernel_probe, a->kernel_probe, first_kernel);
	return 0;
}
