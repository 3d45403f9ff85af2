/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "deadman.h"
#include "tracer.h"

#include "model/gpu.h"
#include "model/stalls.h"

#include "attach/allow/caps.h"
#include "attach/find/python.h"
#include "attach/nv_devs.h"
#include "util/clock.h"
#include "util/log.h"
#include "util/profile_budget.h"
#include "util/reader.h"
#include "version.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

/* Limit of warnings; the trace contains all of them. */
#define GPU_WARNINGS_MAX 16
/* Records between checks for more. */
#define DRAIN_BATCH 16384

#define SOURCE(ID, name) extern const struct source_ops name##_source_ops;
#include "sources.def"
#undef SOURCE

static const struct source_ops *const sources[SOURCE_CNT] = {
#define SOURCE(ID, name) &name##_source_ops,
#include "sources.def"
#undef SOURCE
};

/* Number of unknown Pythons that are reported. */
#define UNKNOWN_PYTHON_MAX 4

void tracer__find_python(struct tracer *t, pid_t pid)
{
	struct python_location place;
	struct work w;
	char why[sizeof(t->unknown_python)];
	int ret, file = -1;

	if (!t->att || !model__wants_python(t->model, pid) || reader__begin(&w, pid, WORK_SYMBOLS))
		return;
	profile_budget__begin();
	ret = python__find(pid, &place, &file, why, sizeof(why));
	if (!ret) {
		ret = attach__python_file(t->att, file, place.free_off);
		close(file);
		if (ret) {
			snprintf(why, sizeof(why), "cannot trace when its code is freed: %s",
				 strerror(-ret));
			ret = -EINVAL;
		}
	}
	profile_budget__end();
	time_budget__end(&w);
	t->has_python |= !ret;
	if (ret == -EINVAL && strcmp(why, t->unknown_python) &&
	    t->unknown_python_cnt < UNKNOWN_PYTHON_MAX) {
		t->unknown_python_cnt++;
		strcpy(t->unknown_python, why);
		warn("--python: process %d: %s: its calls have no Python frames", pid, why);
	}
	if (ret)
		memset(&place, 0, sizeof(place));
	model__set_python(t->model, pid, ret ? NULL : &place);
	attach__set_python(t->att, pid, &place.layout.bpf);
}

static void on_map(struct tracer *t, const struct ct_lib_map *rec)
{
	/* The process may be stopped until its library is attached. */
	tracer__find_python(t, rec->rec.pid);
	if (t->o.on_use)
		t->o.on_use(t->o.ctx, rec->rec.pid, rec->comm);
	libs__on_map(&t->libs, rec);
}

/* false: the call is recorded twice. */
static bool on_both(struct tracer *t, struct raw *raw, struct ct_call *placed)
{
	const struct ct_rec *rec = raw->rec;

	/* First end the calls of the process's previous program. */
	if (rec->kind == CT_REC_EXEC || rec->kind == CT_REC_EXIT)
		sources__left(&t->sources, rec->pid, arbiter__left(rec), rec->ts_ns);
	return arbiter__record(t->arbiter, raw, placed);
}

static void on_record(void *ctx, const struct raw *raw)
{
	const struct ct_rec *rec = raw->rec;
	struct tracer *t = ctx;
	struct ct_call placed;
	struct raw seen;

	if (t->arbiter) {
		seen = *raw;
		if (!on_both(t, &seen, &placed))
			return;
		raw = &seen;
	}
	if (t->o.on_use && rec->kind == CT_REC_THREAD)
		t->o.on_use(t->o.ctx, rec->pid, ((const struct ct_task *)rec)->comm);
	if (rec->kind == CT_REC_LIB)
		on_map(t, (const void *)rec);
	else
		model__record(t->model, raw);
	if (rec->kind == CT_REC_THREAD)
		tracer__find_python(t, rec->pid);
}

/* Files that a small trace opens in addition to those open already (Linux 6.18, 2 processors): with
 * the library only, and with BPF programs, which also have one ring per processor. */
#define FILES_INJECT 8
#define FILES_BPF    62

static unsigned open_files(const struct rlimit *max)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned cnt = dir || errno != EMFILE ? 0 : (unsigned)max->rlim_max;

	while (dir && readdir(dir))
		cnt++;
	if (dir)
		closedir(dir);
	return cnt;
}

/* Before 5.11 BPF memory counted as locked; one perf event per probe needs many descriptors. */
static int raise_limits(bool bpf)
{
	unsigned need = bpf ? FILES_BPF + (unsigned)sysconf(_SC_NPROCESSORS_CONF) : FILES_INJECT;
	struct rlimit inf = {RLIM_INFINITY, RLIM_INFINITY}, nofile;

	setrlimit(RLIMIT_MEMLOCK, &inf);
	if (getrlimit(RLIMIT_NOFILE, &nofile))
		return 0;
	nofile.rlim_cur = nofile.rlim_max;
	setrlimit(RLIMIT_NOFILE, &nofile);
	need += open_files(&nofile);
	if (nofile.rlim_max >= need)
		return 0;
	err("the hard limit of open files (RLIMIT_NOFILE, ulimit -Hn) is %llu, but a "
	    "trace needs at least %u: raise it as root by ulimit -n, LimitNOFILE= of "
	    "systemd, or --ulimit nofile= of docker",
	    (unsigned long long)nofile.rlim_max, need);
	return -EMFILE;
}

/* The driver's version selects the layouts of its ioctls. */
static void read_driver(struct tracer *t)
{
	struct nv_version v;
	const char *caveat;

	hostinfo__read(&t->hostinfo);
	nv_abi_init(&t->abi, nv_version_parse(t->hostinfo.driver, &v) ? &v : NULL);
	caveat = nv_abi_caveat(&t->abi);
	if (t->o.attach.kernel && t->hostinfo.driver[0] && caveat)
		warn("--kernel: %s", caveat);
}

static const struct torch_lib *torch_lib_of(void *ctx, unsigned lib_id)
{
	const struct tracer *t = ctx;

	return attach__torch(t->att, lib_id);
}

static enum ct_gpu_time gpu_mode(const struct tracer *t)
{
	return t->o.gpu_time ? t->o.gpu_time : t->o.gpu_burst;
}

static int open_model(struct tracer *t)
{
	struct model_opts mo = {
		.fns = t->fns,
		.fn = t->o.fn,
		.ctx = t->o.ctx,
		.on_range = t->o.on_range,
		.stub_func_id = ATTACH_STUB_FUNC,
		.live = true,
		.kernel_args = t->o.kernel_args && t->o.probe != PROBE_UPROBE,
		.kernel = t->o.attach.kernel,
		.sched = t->o.attach.sched,
		.stacks = t->o.attach.stacks,
		.python = t->o.attach.python,
		.profile = t->o.attach.profile,
		.python_check = {attach__is_code, &t->att},
		.torch_lib = torch_lib_of,
		.torch_ctx = t,
		.gpu_time = gpu_mode(t),
		.stalls = t->o.stalls,
		.cupti_late = t->o.late || t->o.gpu_burst,
		.redact = t->o.attach.redact,
		.abi = &t->abi,
		.quotas = &t->quotas,
		.min_duration_ns = t->o.attach.min_duration_ns,
	};

	t->model = model__new(&mo);
	return t->model ? 0 : -ENOMEM;
}

static int open_attach(struct tracer *t)
{
	t->att = attach__open(&t->o.attach);
	if (!t->att)
		return -EPERM;
	t->libs.att = t->att;
	return 0;
}

static int open_both(struct tracer *t)
{
	t->arbiter = arbiter__new(t->att, &t->sources, t->fns, t->o.inject_folder);
	t->libs.arbiter = t->arbiter;
	return t->arbiter ? 0 : -ENOMEM;
}

static int open_sources(struct tracer *t)
{
	int ret = 0;

	for (unsigned i = 0; i < SOURCE_CNT && !ret; i++)
		ret = sources__open(&t->sources, sources[i], i, t, on_record, t);
	/* The library records nearly all calls. */
	if (t->o.attach.inproc == CT_INPROC_ALL)
		t->cost = (struct attach_cost){0};
	t->info.probe_cost_ns = t->cost.record;
	return ret;
}

static void on_reuse(void *ctx, unsigned func_id)
{
	struct tracer *t = ctx;

	model__forget_fn(t->model, func_id);
	if (t->o.on_reuse)
		t->o.on_reuse(t->o.ctx, func_id);
}

/* A helper leaves this folder. */
static void absolute_path(const char *path, char out[PATH_MAX])
{
	char folder[PATH_MAX];

	if (*path && *path != '/' && getcwd(folder, sizeof(folder)) &&
	    snprintf(out, PATH_MAX, "%s/%s", folder, path) < PATH_MAX)
		return;
	snprintf(out, PATH_MAX, "%s", path);
}

static void start_helpers(struct tracer *t)
{
	char number[16], cupti[PATH_MAX], program[PATH_MAX];

	if (t->o.gpu_stats_ms) {
		snprintf(number, sizeof(number), "%u", t->o.gpu_stats_ms);
		helper__start(&t->nvml, HELPER_NVML, (const char *[]){number, NULL});
	}
	if (t->o.gpu_metrics_hz) {
		snprintf(number, sizeof(number), "%u", t->o.gpu_metrics_hz);
		absolute_path(t->o.cupti ?: "", cupti);
		/* A name without a slash is not a path. */
		if (t->o.program && strchr(t->o.program, '/'))
			absolute_path(t->o.program, program);
		else
			snprintf(program, sizeof(program), "%s", t->o.program ?: "");
		helper__start(&t->pm, HELPER_PM, (const char *[]){number, cupti, program, NULL});
	}
}

int tracer__open(struct tracer *t, const struct tracer_opts *o)
{
	int ret;

	t->o = *o;
	start_helpers(t);
	t->o.attach.fns = t->fns;
	if (o->probe == PROBE_BOTH)
		t->o.attach.inproc = o->inject_folder ? CT_INPROC_SOME : CT_INPROC_ALL;
	/* Children count too, until their library reports to us. */
	t->o.attach.inproc_max = o->inject_folder ? 2 * INJECT_OPEN_MAX : 0;
	t->o.attach.abi = &t->abi;
	t->o.attach.quotas = &t->quotas;
	quotas__init(&t->quotas, o->attach.stacks || o->attach.python, o->attach.kernel);
	if (fnset__wants_api(t->fns, api_at(API_NVTX)))
		quotas__with(&t->quotas, QUOTA_NVTX);
	if (fnset__wants_api(t->fns, api_at(API_CUDNN)))
		quotas__with(&t->quotas, QUOTA_DESCRIPTORS);
	if (o->attach.python || fnset__wants_api(t->fns, api_at(API_TORCH)))
		quotas__with(&t->quotas, QUOTA_SAMPLES);
	if (t->o.stalls)
		quotas__with(&t->quotas, QUOTA_STALLS);
	fnset__on_reuse(t->fns, on_reuse, t);
	t->libs = (struct libs){
		.fns = t->fns,
		.fn = o->fn,
		.ctx = o->ctx,
		.wait = o->wait,
	};
	ret = raise_limits(o->probe != PROBE_INJECT);
	read_driver(t);
	ret = ret ?: open_model(t);
	if (!ret && o->probe != PROBE_INJECT)
		ret = hostinfo__check_caps(o->attach.mech);
	if (!ret && o->probe != PROBE_INJECT)
		ret = open_attach(t);
	if (!ret && o->probe == PROBE_BOTH)
		ret = open_both(t);
	return ret ? ret : open_sources(t);
}

void tracer__fill_libs(struct tracer *t)
{
	unsigned cnt = attach__lib_cnt(t->att);

	free(t->info_libs);
	t->info.lib_cnt = 0;
	t->info_libs = calloc(cnt + 1, sizeof(*t->info_libs));
	for (unsigned i = 0; t->info_libs && i < cnt; i++) {
		const struct attach_lib *lib = attach__lib_at(t->att, i);

		if (lib->ignored || !lib->attached_cnt)
			continue;
		t->info_libs[t->info.lib_cnt++] = (struct trace_lib){
			.path = lib->path,
			.build_id = lib->build_id,
			.lib_id = lib->id,
			.attached_cnt = lib->attached_cnt,
		};
	}
	t->info.libs = t->info_libs;
}

bool tracer__sees_driver(const struct tracer *t)
{
	return t->att ? attach__kernel_probe(t->att) != NV_PROBE_AUTO
		      : t->o.attach.kernel && nv_devs__loaded();
}

static const char *kernel_probe(const struct tracer *t)
{
	if (!tracer__sees_driver(t))
		return NULL;
	return t->att ? nv_probe_name(attach__kernel_probe(t->att)) : "inject";
}

static void describe_selection(struct tracer *t)
{
	struct trace_info *info = &t->info;

	fnset__describe(t->fns, t->traced, sizeof(t->traced), t->not_traced, sizeof(t->not_traced));
	fnset__describe_mark(t->fns, FNSET_COUNT, t->counted, sizeof(t->counted));
	fnset__describe_mark(t->fns, FNSET_NO_RETURN, t->entry_only, sizeof(t->entry_only));
	fnset__describe_mark(t->fns, FNSET_STACK, t->stacks, sizeof(t->stacks));
	fnset__describe_mark(t->fns, FNSET_PYTHON, t->python, sizeof(t->python));
	info->traced = t->traced;
	info->not_traced = t->not_traced;
	info->counted = t->counted;
	info->entry_only = t->entry_only;
	info->min_duration_ns = t->o.attach.min_duration_ns;
	info->stacks = t->stacks;
	info->python = t->python;
}

void tracer__fill_info(struct tracer *t)
{
	struct trace_info *info = &t->info;

	describe_selection(t);
	info->version = CUDATRACE_VERSION;
	info->hostname = t->hostinfo.uts.nodename;
	info->kernel = t->hostinfo.uts.release;
	info->machine = t->hostinfo.uts.machine;
	info->driver_version = t->hostinfo.driver;
	info->cuda_version = t->hostinfo.cuda_version;
	info->mechanism = t->att && t->o.attach.inproc != CT_INPROC_ALL
				  ? mechanism_name(attach__mechanism(t->att))
				  : "inject";
	info->redacted = api_redact_name(t->o.attach.redact);
	info->kernel_probe = kernel_probe(t);
	info->gpu_time = gpu_time_name(gpu_mode(t));
	info->stalls = t->o.stalls ? 1ull << t->o.stalls : 0;
	info->gpu_ctxsw = t->gpu_ctxsw[0] ? t->gpu_ctxsw : NULL;
	info->degraded = t->degraded;
	info->degraded_cnt =
		t->att ? caps__degraded(t->degraded, sizeof(t->degraded) / sizeof(t->degraded[0]))
		       : 0;
	tracer__fill_libs(t);
	info->boot_id = t->hostinfo.boot_id;
	info->base_ns = now_ns();
	info->wall_ns = info->base_ns + epoch_ns();
}

void tracer__drain(struct tracer *t)
{
	while (sources__drain(&t->sources, DRAIN_BATCH) == DRAIN_BATCH)
		deadman__beat();
}

void tracer__drain_for(struct tracer *t, uint64_t max_ns)
{
	uint64_t begin = now_ns();

	while (sources__drain(&t->sources, DRAIN_BATCH) == DRAIN_BATCH && now_ns() - begin < max_ns)
		;
}

static void lost_of(struct tracer *t, uint32_t pid)
{
	model__calls_lost(t->model, pid);
	if (fnset__wants_api(t->fns, api_at(API_CUDNN)))
		model__handles_lost(t->model, pid);
}

static void on_drop_owner(void *ctx, uint32_t pid)
{
	lost_of(ctx, pid);
}

uint64_t tracer__look_for_losses(struct tracer *t, struct source *s)
{
	uint64_t cnt = source__newly_lost(s);

	if (cnt && !source__drop_owners(s, cnt, on_drop_owner, t))
		lost_of(t, 0);
	return cnt;
}

void tracer__finish(struct tracer *t)
{
	const struct timespec ms = {0, 1000000};

	for (;;) {
		bool over = sources__are_over(&t->sources);

		tracer__drain(t);
		if (over)
			break;
		nanosleep(&ms, NULL);
	}
	sources__unfinished(&t->sources);
	model__flush(t->model);
}

struct trace_event tracer_event(const char *op, const char *name, uint64_t now)
{
	return (struct trace_event){
		.kind = EVENT_TRACER,
		.type = TYPE_TRACER,
		.op = op,
		.name = name,
		.pid = getpid(),
		.tid = getpid(),
		.comm = "cudatrace",
		.start_ns = now,
		.end_ns = now,
	};
}

void tracer__gpu_state(struct tracer *t, pid_t pid, const char *comm, const struct ct_shm_gpu *gpu)
{
	struct trace_event ev =
		tracer_event("gpu-time", gpu->state == CT_CUPTI_ON ? "on" : "off", now_ns());
	struct ct_shm_gpu shown = *gpu;
	char what[400], why[512];

	/* Redacted texts, as in the program's records. */
	if (t->o.attach.redact) {
		strcpy(shown.path, shown.path[0] ? "[file]" : "");
		shown.who[0] = 0;
	}
	gpu_state_text(&shown, what, sizeof(what));
	snprintf(why, sizeof(why), "process %d (%s): %s", pid, comm, what);
	ev.tracer.why = why;
	/* Without CUPTI, all are missing. */
	model__gpu_since(t->model, pid,
			 gpu->state == CT_CUPTI_ON && gpu->since_ns ? gpu->since_ns : 1);
	if (gpu->state == CT_CUPTI_ON)
		dbg("--gpu-time: %s", why);
	else if (t->gpu_warned_cnt++ < GPU_WARNINGS_MAX)
		warn("--gpu-time: %s: everything else is traced%s", why,
		     t->gpu_warned_cnt < GPU_WARNINGS_MAX ? ""
							  : "; further processes are not reported");
	t->o.fn(t->o.ctx, &ev);
}

static void stalls_event(struct tracer *t, const char *op, pid_t pid, const char *comm,
			 const char *what, bool is_good)
{
	struct trace_event ev = tracer_event("stalls", op, now_ns());
	char why[512];

	snprintf(why, sizeof(why), "process %d (%s): %s", pid, comm, what);
	ev.tracer.why = why;
	if (is_good)
		dbg("--stalls: %s", why);
	else if (t->stalls_warned_cnt++ < GPU_WARNINGS_MAX)
		warn("--stalls: %s%s", why,
		     t->stalls_warned_cnt < GPU_WARNINGS_MAX ? ""
							     : "; further ones are not reported");
	t->o.fn(t->o.ctx, &ev);
}

void tracer__stalls_state(struct tracer *t, pid_t pid, const char *comm,
			  const struct ct_shm_stalls *st, const struct ct_shm_gpu *cupti)
{
	struct ct_shm_gpu shown = *cupti;
	char what[400];

	if (t->o.attach.redact) {
		strcpy(shown.path, shown.path[0] ? "[file]" : "");
		shown.who[0] = 0;
	}
	if (st->state == CT_STALLS_NO_CUPTI)
		gpu_state_text(&shown, what, sizeof(what));
	else
		stalls_state_text(st, what, sizeof(what));
	if (st->state != CT_STALLS_NONE)
		stalls_event(t, st->state == CT_STALLS_ON ? "on" : "off", pid, comm, what,
			     st->state == CT_STALLS_ON);
	for (unsigned i = 0; stalls_flag_text(st, i, what, sizeof(what)); i++)
		if (what[0])
			stalls_event(t, "incomplete", pid, comm, what, false);
}

void tracer__fill_end(struct tracer *t, struct trace_end *end)
{
	struct ct_totals sum;

	sources__totals(&t->sources, &sum);
	memcpy(end->drops, sum.drops, sizeof(end->drops));
	memcpy(end->stats, sum.stats, sizeof(end->stats));
	end->cost_ns = sum.cost_ns;
	end->max_thread_overhead = (sum.busiest >> 32) / 1e6;
	end->max_overhead_tid = (uint32_t)sum.busiest;
	end->stats[CT_STAT_FILTERED] += model__filtered(t->model);
	if (t->arbiter)
		end->stats[CT_STAT_DUPLICATES] += arbiter__duplicates(t->arbiter);
	end->bad_record_cnt = sources__bad_records(&t->sources) + model__bad_records(t->model);
	model__objects(t->model, end);
	model__python(t->model, end);
	end->python.on = t->o.attach.python;
	end->gpu.on = gpu_mode(t);
	end->stalls.on = t->o.stalls;
	model__gpu(t->model, end);
	model__nvtx(t->model, end);
	model__torch(t->model, end);
	sources__fill_end(&t->sources, end);
	for (int i = 0; i < QUOTA_CNT; i++)
		end->full[i] = t->quotas.of[i].full_cnt;
	end->not_traced = t->not_traced;
	end->buffer_sz = t->o.attach.ring_sz;
}

void tracer__close(struct tracer *t)
{
	sources__close(&t->sources);
	helper__end(&t->nvml);
	helper__end(&t->pm);
	attach__free(t->att);
	arbiter__free(t->arbiter);
	model__free(t->model);
	fnset__free(t->fns);
	free(t->info_libs);
	free(t->libs.later);
}

/*
 * The kernel finds pending returns by their position on the stack, and without sessions a return
 * cannot be skipped: bpf/stack_class.bpf.h.
 */
void tracer__exited(struct tracer *t, const struct trace_event *ev)
{
	if (!t->att || t->warned_sigill || ev->process.signal != SIGILL ||
	    attach__mechanism(t->att) == MECH_SESSION)
		return;
	t->warned_sigill = true;
	warn("process %u (%s) was ended by SIGILL, which %s causes in programs that call "
	     "CUDA on another stack in the middle of a call: use --entry-only FUNCTIONS, "
	     "or Linux 6.13",
	     ev->pid, ev->comm, mechanism_name(attach__mechanism(t->att)));
}
