/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Tracing, from start to end:
 *   what is wanted (-e), BPF side loaded, cost measured, command forked but waiting, libraries
 *   attached, outputs opened with their header, command let go, loop, detach, what is left in the
 *   ring, calls in flight, end lines, summary.
 */
#include "cmd.h"
#include "session.h"
#include "sandbox.h"

#include "attach/caps.h"
#include "event/check.h"
#include "report/live.h"
#include "util/log.h"
#include "util/safe_open.h"
#include "util/out.h"
#include "version.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

void session__event(void *session, const struct event *ev)
{
	struct session *s = session;

	if (ev->kind == EVENT_PROCESS && !strcmp(ev->op, "exit"))
		session__count_exit(s, ev->pid);
	if (s->budget && ev->kind == EVENT_CALL)
		budget__call(s->budget, ev);
	if (s->o->max_events && s->end.event_cnt >= s->o->max_events)
		return;
	s->end.event_cnt += ev->kind != EVENT_STACK; /* it is no happening */
	s->end.type_cnt[ev->type]++;
	s->end.call_cnt += ev->kind == EVENT_CALL;
	s->end.level_cnt += ev->kind == EVENT_TRACER && ev->level_from;
	if (!ev->unfinished && ev->end_ns > s->end.end_ns)
		s->end.end_ns = ev->end_ns;
	for (unsigned i = 0; i < s->sink_cnt; i++)
		sink__event(s->sinks[i], ev);
	if (s->summary)
		summary__event(s->summary, ev);
	if (s->end.event_cnt == s->o->max_events) {
		/* Also when the command has ended meanwhile: what it did later is left out. */
		s->end.reason = "max-events";
		s->stopping = true;
	}
}

static void on_record(void *ctx, const void *rec, size_t size)
{
	struct session *s = ctx;
	struct raw_call raw;

	if (s->measuring)
		return;
	if (((const struct ct_rec *)rec)->kind == CT_REC_LIB && raw_check(rec, size, &raw) > 0)
		session__on_lib(s, rec);
	else
		model__record(s->model, rec, size);
}

/* The driver's version chooses the layouts of its ioctls. */
static void read_driver(struct session *s)
{
	struct nv_version v;
	const char *caveat;

	facts__read(&s->facts);
	nv_abi_init(&s->abi, nv_version_parse(s->facts.driver, &v) ? &v : NULL);
	caveat = nv_abi_caveat(&s->abi);
	if (s->o->kernel && s->facts.driver[0] && caveat)
		warn("--kernel: %s", caveat);
}

static int check_targets(struct session *s)
{
	if ((s->o->pid_cnt || s->o->argv) && target_own_pidns()) {
		err("in a PID namespace of its own cudatrace cannot tell which process is meant: run "
		    "it outside of the container, or the container with --pid=host");
		return -EINVAL;
	}
	for (unsigned i = 0; i < s->o->pid_cnt; i++) {
		pid_t pid = s->o->pids[i];

		if (!target_exists(pid)) {
			err("there is no process %d: it has ended, or has another number outside "
			    "of its container: see ps -e",
			    pid);
			return -ESRCH;
		}
		if (target_is_64bit(pid) == 0) {
			err("process %d is a 32-bit program: NVIDIA's 64-bit driver API is all that "
			    "can be traced",
			    pid);
			return -EINVAL;
		}
	}
	return s->o->argv ? command__check(s->o->argv) : 0;
}

static int open_attach(struct session *s)
{
	const struct opts *o = s->o;
	struct attach_opts ao = {
		.mech = o->mechanism,
		.fns = s->fns,
		.ring_sz = o->buffer_sz,
		.min_duration_ns = o->min_duration_ns,
		.filter_pids = o->pid_cnt || o->argv,
		.follow = o->follow,
		.filter_uid = o->user && !o->argv,
		.uid = s->user.uid,
		.kernel = o->kernel,
		.sched = o->sched,
		.stacks = o->stack.cnt,
		.kernel_probe = o->kernel_probe,
		.abi = &s->abi,
		/* Children would need probes of their own before their first call. */
		.hide = o->hide,
		.only_pid = o->pid_cnt == 1 && !o->follow ? o->pids[0] : 0,
	};

	s->att = attach__open(&ao);
	if (!s->att)
		return -EPERM;
	s->ring = ring__open(attach__ring_fd(s->att), on_record, s);
	if (!s->ring)
		return -ENOMEM;
	s->measuring = true;
	attach__measure_cost(s->att, o->no_return.cnt || o->max_overhead, &s->cost);
	s->info.probe_cost_ns = s->cost.record;
	session__drain(s);
	s->measuring = false;
	return session__open_budget(s);
}

static int add_targets(struct session *s)
{
	int ret = 0;

	for (unsigned i = 0; i < s->o->pid_cnt && !ret; i++)
		ret = attach__add_pid(s->att, s->o->pids[i], 0);
	if (!s->o->argv || ret)
		return ret;
	ret = guard__start(&s->guard, s->att);
	if (!ret)
		ret = command__fork(&s->cmd, s->o->argv, &s->user);
	return ret ? ret : attach__add_pid(s->att, s->cmd.pid, CT_PID_F_STOP_ON_LIB);
}

static void fill_libs(struct session *s)
{
	unsigned cnt = attach__lib_cnt(s->att);

	s->info_libs = calloc(cnt + 1, sizeof(*s->info_libs));
	for (unsigned i = 0; s->info_libs && i < cnt; i++) {
		const struct attach_lib *lib = attach__lib_at(s->att, i);

		if (lib->ignored || !lib->attached_cnt)
			continue;
		s->info_libs[s->info.lib_cnt++] = (struct trace_lib){
			.path = lib->path,
			.build_id = lib->build_id,
			.lib_id = lib->id,
			.attached_cnt = lib->attached_cnt,
		};
	}
	s->info.libs = s->info_libs;
}

static void fill_info(struct session *s)
{
	struct trace_info *info = &s->info;
	struct timespec wall;

	session__describe_selection(s);
	info->version = CUDATRACE_VERSION;
	info->argv = (const char *const *)s->o->argv;
	info->argc = s->o->argc;
	info->pids = (const uint32_t *)s->o->pids;
	info->pid_cnt = s->o->pid_cnt;
	info->hostname = s->facts.uts.nodename;
	info->kernel = s->facts.uts.release;
	info->machine = s->facts.uts.machine;
	info->driver_version = s->facts.driver;
	info->cuda_version = s->facts.cuda_version;
	info->mechanism = mechanism_name(attach__mechanism(s->att));
	info->kernel_probe = attach__kernel_probe(s->att) == KERNEL_PROBE_AUTO
				     ? NULL
				     : kernel_probe_name(attach__kernel_probe(s->att));
	info->hidden = s->o->hide == HIDE_ARGS	    ? "arguments"
		       : s->o->hide == HIDE_STRINGS ? "strings"
						    : NULL;
	info->degraded = s->degraded;
	info->degraded_cnt =
		caps__degraded(s->degraded, sizeof(s->degraded) / sizeof(s->degraded[0]));
	fill_libs(s);
	clock_gettime(CLOCK_REALTIME, &wall);
	info->base_ns = now_ns();
	info->wall_ns = wall.tv_sec * 1000000000ull + wall.tv_nsec;
	s->end.left_out = s->left_out;
}

static int open_sink(struct session *s, const char *kind, const char *path)
{
	struct sink *sink;

	if (s->sink_cnt == SESSION_MAX_SINKS) {
		err("more than %d outputs: leave some out", SESSION_MAX_SINKS);
		return -E2BIG;
	}
	sink = !strcmp(kind, "report") ? sink__open_ops(&report_sink_ops, path, &s->info)
				       : sink__open(kind, path, &s->info);
	if (!sink)
		return -EIO;
	s->sinks[s->sink_cnt++] = sink;
	return 0;
}

static int open_default_sink(struct session *s)
{
	time_t now = time(NULL);
	char stamp[32], path[64];
	enum safe_open_why why;
	struct tm tm;

	if (!safe_mkdir("traces", &why)) {
		err("cannot make the folder traces: %s: choose a file with --jsonl",
		    why == SAFE_OPEN_ERRNO ? strerror(errno) : "it belongs to another user");
		return -EACCES;
	}
	localtime_r(&now, &tm);
	strftime(stamp, sizeof(stamp), "%Y%m%d_%H%M%S", &tm);
	snprintf(path, sizeof(path), "traces/trace_%s.jsonl", stamp);
	/* Another one, begun in the same second. */
	if (!access(path, F_OK))
		snprintf(path, sizeof(path), "traces/trace_%s_%d.jsonl", stamp, getpid());
	info("writing %s", path);
	return open_sink(s, "jsonl", path);
}

static int open_sinks(struct session *s)
{
	const struct opts *o = s->o;
	int ret = 0;

	for (unsigned i = 0; i < o->jsonl.cnt && !ret; i++)
		ret = open_sink(s, "jsonl", o->jsonl.v[i]);
	for (unsigned i = 0; i < o->chrome.cnt && !ret; i++)
		ret = open_sink(s, "chrome", o->chrome.v[i]);
	for (unsigned i = 0; i < o->report.cnt && !ret; i++)
		ret = open_sink(s, "report", o->report.v[i]);
	if (!ret && !s->sink_cnt)
		ret = open_default_sink(s);
	return ret;
}

static bool wants_summary(const struct opts *o)
{
	if (o->summary != TRI_UNSET)
		return o->summary == TRI_ON;
	return o->json || (!o->quiet && isatty(STDERR_FILENO));
}

static int make_model(struct session *s)
{
	struct model_opts mo = {
		.fns = s->fns,
		.fn = session__event,
		.ctx = s,
		.stub_func_id = ATTACH_STUB_FUNC,
		.live = true,
		.kernel = s->o->kernel,
		.sched = s->o->sched,
		.stacks = s->o->stack.cnt,
		.abi = &s->abi,
		.min_duration_ns = s->o->min_duration_ns,
		.no_kernel_names = s->o->hide != HIDE_NOTHING,
	};

	s->model = model__new(&mo);
	if (wants_summary(s->o) || (!s->o->quiet && isatty(STDERR_FILENO)))
		s->summary = summary__new();
	if (s->summary && !s->o->quiet)
		s->progress = progress__new(stderr);
	return s->model ? 0 : -ENOMEM;
}

/* SIGPIPE: a closed pipe is an error of that output alone. */
static int block_signals(struct session *s)
{
	sigset_t set;

	signal(SIGPIPE, SIG_IGN);
	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	s->quit_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	out__set_patience(s->quit_fd, -1);
	sigaddset(&set, SIGCHLD);
	sigprocmask(SIG_BLOCK, &set, NULL);
	s->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return s->signal_fd < 0 || s->quit_fd < 0 ? -errno : 0;
}

/* Before 5.11 BPF memory counted as locked; one perf event each needs many descriptors. */
static void raise_limits(void)
{
	struct rlimit inf = {RLIM_INFINITY, RLIM_INFINITY}, nofile;

	setrlimit(RLIMIT_MEMLOCK, &inf);
	if (!getrlimit(RLIMIT_NOFILE, &nofile)) {
		nofile.rlim_cur = nofile.rlim_max;
		setrlimit(RLIMIT_NOFILE, &nofile);
	}
}

/* The trace belongs to who called sudo, whoever the command runs as. */
static int find_users(struct session *s)
{
	struct command_user caller;

	if (command_user__find(&caller, NULL))
		return -ENOENT;
	command_user__owns_files(&caller);
	command_user__free(&caller);
	return command_user__find(&s->user, s->o->user);
}

/* 0, EXIT_USAGE, or -errno after reporting. */
static int start(struct session *s)
{
	int ret;

	ret = session__select(s);
	if (!ret)
		ret = check_targets(s);
	if (!ret)
		ret = find_users(s);
	if (!ret)
		ret = block_signals(s);
	if (ret)
		return ret;
	raise_limits();
	read_driver(s);
	ret = make_model(s);
	if (!ret)
		ret = facts__check_caps(s->o->mechanism);
	if (!ret)
		ret = open_attach(s);
	if (!ret)
		ret = add_targets(s);
	if (!ret)
		ret = session__attach_libs(s);
	if (ret)
		return ret;
	fill_info(s);
	ret = open_sinks(s);
	if (ret)
		return ret;
	if (attach__kernel_probe(s->att) != KERNEL_PROBE_AUTO && !attach__has_xid(s->att))
		s->kmsg_fd = kmsg__open();
	if (s->o->duration_ns)
		s->deadline_ns = now_ns() + s->o->duration_ns;
	if (s->o->sandbox)
		sandbox__enter(&(struct sandbox_needs){.perf_probes = attach__mechanism(s->att) ==
								      MECH_PERF});
	return s->cmd.pid ? command__go(&s->cmd, s->o->argv[0]) : 0;
}

static void fill_end(struct session *s)
{
	struct trace_end *end = &s->end;
	struct ct_totals sum;
	uint64_t wall;

	attach__totals(s->att, &sum);
	memcpy(end->drops, sum.drops, sizeof(end->drops));
	memcpy(end->stats, sum.stats, sizeof(end->stats));
	end->stats[CT_STAT_FILTERED] += model__filtered(s->model);
	end->bad_record_cnt = model__bad_records(s->model);
	model__objects(s->model, end);
	session__count_end(s);
	wall = end->end_ns - s->info.base_ns;
	end->cost_share = wall ? (double)end->cost_ns / wall : 0;
}

static void print_summary(struct session *s)
{
	struct winsize ws;
	int width = 80;
	struct out *out;

	if (!ioctl(STDERR_FILENO, TIOCGWINSZ, &ws) && ws.ws_col)
		width = ws.ws_col;
	if (!s->o->json) {
		summary__print(s->summary, stderr, &s->info, &s->end, width,
			       isatty(STDERR_FILENO) && !getenv("NO_COLOR"));
		return;
	}
	out = out__memory();
	if (!out)
		return;
	summary__json(s->summary, out, &s->info, &s->end);
	(void)!write(STDERR_FILENO, out->buf, out->len);
	out__close(out);
}

static void unfinished_record(void *ctx, const void *rec, size_t size)
{
	model__record(((struct session *)ctx)->model, rec, size);
}

/* Returns whether every output is whole. */
static bool close_sinks(struct session *s)
{
	bool ok = true;

	fill_end(s);
	/* Files first: the others may wait for their readers. */
	for (unsigned i = 0; i < 2 * s->sink_cnt; i++) {
		struct sink **sink = &s->sinks[i % s->sink_cnt];

		if (!*sink || (i < s->sink_cnt && !(*sink)->out->is_file))
			continue;
		if (sink__close(*sink, &s->end))
			ok = false;
		*sink = NULL;
	}
	s->sink_cnt = 0;
	return ok;
}

static bool finish(struct session *s)
{
	uint64_t stop_ns = now_ns();
	bool ok;

	progress__free(s->progress);
	s->progress = NULL;
	attach__detach(s->att);
	/* Not after the outputs are closed, which may wait for their readers. */
	attach__go_on_all(s->att);
	if (!s->hurry) {
		session__drain(s);
		if (s->kmsg_fd >= 0)
			kmsg__read(s->kmsg_fd, session__event, s);
		attach__unfinished(s->att, unfinished_record, s);
	}
	session__tell_lost(s, now_ns(), true);
	/* Detaching takes its time, and calls are seen until it is done. */
	if (s->end.end_ns < stop_ns)
		s->end.end_ns = stop_ns;
	ok = close_sinks(s);
	if (s->summary && wants_summary(s->o))
		print_summary(s);
	if (s->cmd.pid && !s->end.stats[CT_STAT_ENTRIES] && !s->o->quiet)
		info("%s made no CUDA driver call%s", s->o->argv[0],
		     attach__lib_cnt(s->att) ? " that is traced" : ": it never loaded libcuda");
	return ok;
}

/* The trace ended before the command did (--duration, --max-events, no output that can be written):
 * its status is still ours to pass on. A signal now ends us as any program. */
static void await_command(struct session *s)
{
	sigset_t none;

	if (!s->cmd.pid || command__ended(&s->cmd) || s->hurry)
		return;
	if (strcmp(s->end.reason, "duration") && strcmp(s->end.reason, "max-events") &&
	    strcmp(s->end.reason, NO_OUTPUT))
		return;
	if (!s->o->quiet)
		info("the trace has ended; waiting for %s, which goes on untraced", s->o->argv[0]);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	command__wait(&s->cmd);
}

static void release(struct session *s)
{
	progress__free(s->progress);
	while (s->sink_cnt)
		sink__close(s->sinks[--s->sink_cnt], NULL);
	command__cancel(&s->cmd);
	guard__end(&s->guard);
	command_user__free(&s->user);
	summary__free(s->summary);
	budget__free(s->budget);
	ring__free(s->ring);
	attach__free(s->att);
	model__free(s->model);
	fnset__free(s->fns);
	free(s->info_libs);
	if (s->signal_fd >= 0)
		close(s->signal_fd);
	if (s->quit_fd >= 0)
		close(s->quit_fd);
	if (s->kmsg_fd >= 0)
		close(s->kmsg_fd);
}

int cmd_trace(const struct opts *o)
{
	static struct session s;
	int ret, status = 1;

	s.o = o;
	s.signal_fd = s.quit_fd = s.kmsg_fd = -1;
	s.fns = fnset__new();
	ret = s.fns ? start(&s) : -ENOMEM;
	if (ret == EXIT_USAGE)
		status = EXIT_USAGE;
	if (!ret) {
		session__loop(&s);
		status = finish(&s) ? 0 : 1;
		await_command(&s);
		if (s.cmd.pid && command__ended(&s.cmd) && command__status(&s.cmd))
			status = command__status(&s.cmd);
	} else if (s.sink_cnt) {
		/* Another output or the command failed: what is there already is whole. */
		session__stop(&s, "could not start");
		s.end.end_ns = now_ns();
		close_sinks(&s);
	}
	release(&s);
	return status;
}
