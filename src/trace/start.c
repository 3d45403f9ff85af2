/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The start of a trace: how calls are recorded, the BPF side, the command, the libraries, the
 * outputs. */
#include "deadman.h"
#include "session.h"
#include "start_at.h"
#include "targets.h"

#include "attach/allow/caps.h"
#include "inject/library.h"
#include "util/clock.h"
#include "util/log.h"
#include "util/opener.h"
#include "util/reader.h"
#include "util/sandbox.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* From here on the name belongs to another function, so outputs must format pending events
 * first. */
static void on_reuse(void *session, unsigned func_id)
{
	struct session *s = session;

	for (unsigned i = 0; i < s->sink_cnt; i++)
		sink__flush(s->sinks[i]);
	if (s->o->view)
		s->o->view->reuse(s->o->view, func_id);
}

static void on_range(void *session, const char *text, uint64_t ns, bool begins)
{
	struct session *s = session;

	capture_range__nvtx(&s->capture, text, ns, begins);
}

static void on_use(void *session, uint32_t pid, const char comm[16])
{
	struct session *s = session;

	s->o->view->use(s->o->view, pid, comm);
}

static int open_attach(struct session *s)
{
	const struct session_opts *o = s->o;
	struct tracer_opts to = {
		.probe = s->probe,
		.late = s->is_late,
		.inject_name = o->collect,
		.kernel_args = o->kernel_args != TRI_OFF,
		.gpu_time = o->gpu_time,
		.stalls = o->stalls,
		.cupti = o->cupti,
		.inject_uid = s->is_late       ? s->late_uid
			      : s->user.change ? s->user.uid
					       : geteuid(),
		.attach =
			{
				.mech = o->mechanism,
				.ring_sz = o->buffer_sz,
				.min_duration_ns = o->min_duration_ns,
				.filter_pids = o->pid_cnt || o->argv,
				.follow = o->follow,
				.filter_uid = o->user && !o->argv,
				.uid = s->user.uid,
				.kernel = o->kernel,
				.sched = o->sched,
				.stacks = o->stack.cnt,
				.python = o->python.cnt,
				.redact = o->redact,
				.force = o->force,
				.sandbox = o->sandbox,
				.hold = o->argv,
				.filters = s->is_late,
				.kernel_probe = o->kernel_probe,
				/* Children would need their own probes before their first call. */
				.only_pid = o->pid_cnt == 1 && !o->follow ? o->pids[0] : 0,
			},
		.measure_entries = o->entry_only.cnt || o->max_overhead,
		.wait = o->wait,
		.gpu_ctxsw = o->gpu_ctxsw,
		.gpu_stats_ms = o->gpu_stats_ms,
		.gpu_metrics_hz = o->gpu_metrics_hz,
		/* cudatrace-pm has our rights: it loads nothing that may be another user's. */
		.program = o->argv && !o->user ? o->argv[0] : NULL,
		.fn = session__event,
		.on_use = o->view ? on_use : NULL,
		.on_reuse = on_reuse,
		.on_range = o->capture == CAPTURE_NVTX ? on_range : NULL,
		.ctx = s,
	};
	int ret = tracer__open(&s->t, &to);

	if (!ret && o->view)
		ret = o->view->open(o->view, s);
	return ret ? ret : session__open_budget(s);
}

static int add_targets(struct session *s)
{
	bool stop = s->o->argv || s->o->stop_on_load;
	int ret = 0;

	if (s->probe == PROBE_INJECT && !s->o->argv)
		return 0;
	if (s->o->argv && fnset__wants_api(s->t.fns, api_at(API_NVTX))) {
		s->nvtx = library__put(LIBRARY_NVTX, NULL);
		if (!s->nvtx)
			return -EACCES;
	}
	if (s->probe == PROBE_INJECT)
		return command__fork(&s->cmd, s->o->argv, &s->user, &s->t.sources, s->nvtx);
	ret = stop ? guard__start(&s->guard, s->t.att, s->o->sandbox) : 0;

	for (unsigned i = 0; i < s->o->pid_cnt && !ret; i++)
		ret = attach__add_pid(s->t.att, s->o->pids[i], stop ? CT_PID_F_STOP_ON_LIB : 0);
	if (!s->o->argv || ret)
		return ret;
	ret = command__fork(&s->cmd, s->o->argv, &s->user, &s->t.sources, s->nvtx);
	return ret ? ret : attach__add_pid(s->t.att, s->cmd.pid, CT_PID_F_STOP_ON_LIB);
}

static int attach_libs(struct session *s)
{
	const struct session_opts *o = s->o;
	int ret;

	if (s->probe == PROBE_INJECT)
		return 0;
	ret = o->libcuda ? libs__attach_file(&s->t.libs, o->libcuda) : 0;

	if (ret)
		return ret;
	for (unsigned i = 0; i < o->pid_cnt; i++)
		tracer__find_python(&s->t, o->pids[i]);
	return o->pid_cnt ? libs__attach_pids(&s->t.libs, o->pids, o->pid_cnt)
			  : libs__attach_system(&s->t.libs, !o->argv);
}

static void fill_info(struct session *s)
{
	struct trace_info *info = &s->t.info;

	tracer__fill_info(&s->t);
	info->argv = (const char *const *)s->o->argv;
	info->argc = s->o->argc;
	info->pids = (const uint32_t *)s->o->pids;
	info->pid_cnt = s->o->pid_cnt;
}

static void make_summary(struct session *s)
{
	if (s->o->view)
		return;
	/* No progress line with a command, which writes to the same terminal. */
	if (!s->o->argv && !s->o->quiet)
		s->progress = progress__new(stderr);
	if (s->progress || session__wants_summary(s->o))
		s->summary = summary__new();
}

/* The trace belongs to the user who called sudo, whatever the command's user. */
static int find_users(struct session *s)
{
	int ret = command_user__owns_files();

	return ret ? ret : command_user__find(&s->user, s->o->user);
}

/* Starts the reader process before anything is opened that it would inherit. */
static int start_reader(bool sandbox)
{
	int ret = reader__start(sandbox);

	if (ret)
		err("cannot start cudatrace-read: %s: raise the limits of processes and open files "
		    "(ulimit -u, -n)",
		    strerror(-ret));
	return ret;
}

/* The layers of these options that only uprobes can see. */
static const char *layers(const struct session_opts *o)
{
	return !o->torch	? "--python is"
	       : !o->python.cnt ? "--torch is"
				: "--python and --torch (--all-layers) are";
}

/* valgrind and DynamoRIO run a translation of the program's code. Refuses a command whose program
 * would end by SIGTRAP. */
static int check_translator(const struct session *s)
{
	const char *name = s->o->argv ? s->o->argv[0] : "", *slash = strrchr(name, '/');

	name = slash ? slash + 1 : name;
	if (s->probe == PROBE_INJECT ||
	    (strcmp(name, "valgrind") != 0 && strcmp(name, "drrun") != 0))
		return 0;
	err("%s reads probes as code, and its program would end by SIGTRAP: trace it in-process, "
	    "without root, or with --probe=inject --kernel",
	    name);
	return EXIT_USAGE;
}

/* --probe=inject -p: the library is loaded into the running processes, and uprobes record calls
 * until then. */
static int choose_late(struct session *s)
{
	const struct session_opts *o = s->o;
	const char *missing = caps__refused();

	if (o->kernel || o->sched || o->kernel_probe != NV_PROBE_AUTO) {
		err("%s does not work with --probe=inject -p: use --probe=uprobe",
		    o->sched ? "--sched" : "--kernel");
		return EXIT_USAGE;
	}
	if (missing || geteuid()) {
		err("--probe=inject -p PID needs root: %s", missing ?: "run it by sudo");
		return EXIT_USAGE;
	}
	s->probe = PROBE_BOTH;
	s->is_late = true;
	return late__user(o->pids, o->pid_cnt, &s->late_uid);
}

/* --gpu-time -p: CUPTI is started in running programs. */
static int choose_gpu_late(struct session *s)
{
	if (s->o->probe == PROBE_UPROBE) {
		err("--gpu-time -p PID needs --probe=inject: leave out --probe=uprobe");
		return EXIT_USAGE;
	}
	if (!s->o->accept_cupti) {
		err("--gpu-time -p PID is experimental: NVIDIA's CUPTI, started in a running program, "
		    "may crash it: add --yes to accept this, or start the program by cudatrace");
		return EXIT_USAGE;
	}
	info("--gpu-time -p PID is experimental: CUPTI may crash the program");
	return choose_late(s);
}

/* Chooses where calls are recorded: by the kernel if it permits, else in-process if we start the
 * program. */
static int choose_probe(struct session *s)
{
	const struct session_opts *o = s->o;
	const char *missing = NULL;

	s->probe = o->collect ? PROBE_INJECT : o->probe;
	if (s->probe == PROBE_AUTO) {
		bool can_inject = o->argv && !o->sched && !o->python.cnt && !o->torch &&
				  o->kernel_probe == NV_PROBE_AUTO;

		missing = can_inject ? caps__refused() : NULL;
		s->probe = missing || o->kernel_args == TRI_ON ? PROBE_INJECT : PROBE_UPROBE;
		if (missing)
			info("tracing in-process (--probe=inject): %s", missing);
		else if (o->argv && (o->python.cnt || o->torch) && caps__missing_privilege())
			info("%s recorded only as root; without root a command is traced in-process",
			     layers(o));
	}
	if (o->gpu_time && !o->argv && !o->collect && !o->pid_cnt) {
		err("--gpu-time needs a library in the program: give a command (cudatrace "
		    "--gpu-time -- COMMAND) or processes (-p PID)");
		return EXIT_USAGE;
	}
	if (o->stalls && !o->argv) {
		err("--stalls samples a program from its first context on: give a command: cudatrace "
		    "--stalls -- COMMAND");
		return EXIT_USAGE;
	}
	if (o->stalls && o->gpu_metrics_hz) {
		err("--stalls and --gpu-metrics use the same counters of the GPU: give one of them "
		    "(--gpu-stats samples without them)");
		return EXIT_USAGE;
	}
	if (o->gpu_time && o->pid_cnt && !o->argv && !o->collect)
		return choose_gpu_late(s);
	if (o->kernel_args == TRI_ON && s->probe == PROBE_UPROBE) {
		err("--kernel-args needs --probe=inject: leave out --probe=uprobe");
		return EXIT_USAGE;
	}
	if (s->probe != PROBE_INJECT)
		return check_translator(s);
	if (!o->argv && !o->collect && !o->pid_cnt) {
		err("--probe=inject needs a command (cudatrace --probe=inject -- COMMAND) or processes "
		    "(-p PID); for all programs use --probe=uprobe, as root");
		return EXIT_USAGE;
	}
	if (o->pid_cnt && !o->collect)
		return choose_late(s);
	if (o->sched || o->kernel_probe != NV_PROBE_AUTO) {
		err("%s in-process: use --probe=uprobe, as root",
		    o->sched ? "--sched does not work" : "--kernel-probe does not work");
		return EXIT_USAGE;
	}
	/* Adds uprobes for what the library does not reach, if possible. With --kernel it does
	 * not: system calls that the library records must be within calls that it records. */
	if (o->argv && !o->kernel && caps__can_trace())
		s->probe = PROBE_BOTH;
	if ((o->python.cnt || o->torch) && s->probe == PROBE_INJECT) {
		err("%s not recorded in-process%s: use --probe=uprobe, as root", layers(o),
		    o->kernel ? " with --kernel" : "");
		return EXIT_USAGE;
	}
	return check_translator(s);
}

static int watch_waits(struct session *s)
{
	const struct session_opts *o = s->o;
	const struct waits_opts opts = {
		.tracer = &s->t,
		.after_ns = o->hang_after_ns,
		.filtered = o->select.cnt || o->count.cnt || o->min_duration_ns ||
			    o->max_overhead || o->capture || o->start_after_ns,
		.fn = session__event,
		.ctx = s,
	};

	if (!o->hang_after_ns)
		return 0;
	s->waits = waits__new(&opts);
	if (s->waits)
		return 0;
	err("--hang-after: out of memory: close other programs");
	return -ENOMEM;
}

int session__start(struct session *s)
{
	const char *refused = s->o->collect ? deadman__start() : NULL;
	uint64_t begin_ns;
	bool to_stderr;
	int ret;

	if (refused) {
		err("a system call filter (seccomp) refuses what the collector needs: %s", refused);
		_exit(1);
	}
	ret = start_at__wait(s->o, &begin_ns);
	if (!ret)
		ret = start_reader(s->o->sandbox);
	if (!ret)
		ret = targets__check(s->own.pids, &s->own.pid_cnt);
	if (!ret)
		ret = session__select(s);
	if (!ret)
		ret = choose_probe(s);
	if (!ret && s->o->argv)
		ret = command__check(s->o->argv);
	if (!ret)
		ret = find_users(s);
	if (!ret && s->o->max_file)
		ret = opener__start(s->o->sandbox);
	if (!ret)
		ret = session__open_signals(s);
	if (ret)
		return ret;
	make_summary(s);
	ret = open_attach(s);
	if (!ret && s->is_late)
		ret = source_inject__start_late(&s->t.sources, &s->late, s->o->pids, s->o->pid_cnt,
						s->o->sandbox);
	if (!ret)
		ret = add_targets(s);
	if (!ret)
		ret = attach_libs(s);
	if (ret)
		return ret;
	fill_info(s);
	ret = session__open_outputs(s);
	if (ret)
		return ret;
	ret = watch_waits(s);
	if (ret)
		return ret;
	opener__close_names();
	to_stderr = s->cmd.pid && session__shares_stdout(s);
	if (to_stderr)
		info("the %s is written to stdout: the output of %s goes to stderr",
		     s->o->view ? "table" : "trace", s->o->argv[0]);
	if (s->o->start_after_ns)
		s->capture.start_ns = (begin_ns ?: now_ns()) + s->o->start_after_ns;
	if (s->o->duration_ns)
		s->deadline_ns = (begin_ns ?: now_ns()) + s->o->start_after_ns + s->o->duration_ns;
	if (s->o->sandbox)
		sandbox__enter(&(struct sandbox_needs){
			.inject = s->probe != PROBE_UPROBE || s->o->gpu_time || s->o->stalls,
			.gpu_log = s->o->gpu_ctxsw,
			.screen = s->o->view && s->o->view->fd >= 0});
	if (s->cmd.pid && s->probe == PROBE_INJECT && !s->t.att && s->o->follow)
		s->unreached = unreached__open(s->cmd.pid, session__event, s);
	late__go(&s->late);
	return s->cmd.pid ? command__go(&s->cmd, s->o->argv[0], to_stderr) : 0;
}
