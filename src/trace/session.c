/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A trace from start to end:
 *   parse the selection (-e), load the BPF side, measure the cost, fork the command (it waits),
 *   attach libraries, open outputs and write their header, release the command, loop, detach, drain
 *   the sources, write calls in flight, end lines, summary.
 */
#include "session.h"
#include "start_at.h"
#include "targets.h"

#include "attach/allow/caps.h"
#include "inject/library.h"
#include "sink/delivery/workers.h"
#include "util/clock.h"
#include "util/log.h"
#include "util/opener.h"
#include "util/reader.h"
#include "util/safe_open.h"
#include "util/sandbox.h"
#include "util/segment.h"
#include "util/out.h"
#include "version.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

void session__event(void *session, const struct trace_event *ev)
{
	struct session *s = session;

	if (ev->kind == EVENT_PROCESS && !strcmp(ev->op, "exit")) {
		session__count_exit(s, ev->pid, ev->generation);
		tracer__exited(&s->t, ev);
	}
	if (s->o->view)
		s->o->view->event(s->o->view, ev);
	if (s->budget && ev->kind == EVENT_CALL)
		budget__call(s->budget, ev);
	capture_range__event(&s->capture, ev);
	if (!capture_range__has(&s->capture, ev)) {
		s->outside_cnt += ev->kind == EVENT_CALL;
		return;
	}
	if (s->o->max_events && s->end.event_cnt >= s->o->max_events)
		return;
	s->lib_cnt += ev->kind == EVENT_LIBRARY;
	s->missed_cnt += ev->kind == EVENT_LIBRARY && !strcmp(ev->op, "failed");
	/* The next file's header names the library. */
	if (s->o->max_file && ev->kind == EVENT_LIBRARY)
		tracer__fill_libs(&s->t);
	losses__event(&s->lost, ev);
	waits__event(s->waits, ev);
	s->end.event_cnt += ev->kind != EVENT_STACK; /* a stack is not an event by itself */
	s->end.type_cnt[ev->type]++;
	s->end.call_cnt += ev->kind == EVENT_CALL;
	s->end.level_cnt += ev->kind == EVENT_TRACER && ev->tracer.from;
	if (!ev->unfinished && ev->end_ns > s->end.end_ns)
		s->end.end_ns = ev->end_ns;
	for (unsigned i = 0; i < s->sink_cnt; i++)
		sink__event(s->sinks[i], ev);
	if (s->summary)
		summary__event(s->summary, ev);
	/* A stack may come before any event. */
	if (s->o->max_events && s->end.event_cnt == s->o->max_events) {
		/* This is the reason also if the command has ended meanwhile, because later events
		 * are not written. */
		s->end.reason = "max-events";
		s->stopping = true;
	}
}

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
		.inject_name = o->collect,
		.gpu_time = o->gpu_time,
		.cupti = o->cupti,
		.inject_uid = s->user.change ? s->user.uid : geteuid(),
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
				.kernel_probe = o->kernel_probe,
				/* Children would need their own probes before their first call. */
				.only_pid = o->pid_cnt == 1 && !o->follow ? o->pids[0] : 0,
			},
		.measure_entries = o->entry_only.cnt || o->max_overhead,
		.wait = o->wait,
		.gpu_ctxsw = o->gpu_ctxsw,
		.gpu_stats_ms = o->gpu_stats_ms,
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
	ret = stop ? guard__start(&s->guard, s->t.att) : 0;

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

static const char *const sink_names[SINK_CNT] = {
#define SINK(id, name, help) [SINK_##id] = #name,
#include "sink/sinks.def"
#undef SINK
};

static int open_sink(struct session *s, enum sink_id kind, const char *path)
{
	struct sink *sink;

	if (s->sink_cnt == SESSION_MAX_SINKS) {
		err("more than %d outputs: leave some out", SESSION_MAX_SINKS);
		return -E2BIG;
	}
	sink = sink__open(kind, path, &s->t.info);
	if (!sink)
		return -EIO;
	s->files[s->sink_cnt] =
		(struct summary_file){.sink = sink_names[kind], .path = strdup(path)};
	s->sinks[s->sink_cnt++] = sink;
	if (s->o->max_file && sink__segment(sink, path, s->o->max_file, &s->t.info))
		return -EIO;
	sink__start_workers(sink,
			    s->o->format_threads >= 0
				    ? (unsigned)s->o->format_threads
				    : workers__size(sysconf(_SC_NPROCESSORS_ONLN)),
			    s->o->gpu_time);
	return 0;
}

static int open_default_sink(struct session *s)
{
	time_t now = time(NULL);
	char stamp[32], path[64];
	enum safe_open_why why;
	struct tm tm;

	if (!safe_mkdir("traces", &why)) {
		err("cannot create the directory traces: %s: choose a file with --jsonl",
		    why == SAFE_OPEN_ERRNO ? strerror(errno) : "it belongs to another user");
		return -EACCES;
	}
	localtime_r(&now, &tm);
	strftime(stamp, sizeof(stamp), "%Y%m%d_%H%M%S", &tm);
	snprintf(path, sizeof(path), "traces/trace_%s.jsonl", stamp);
	/* Another trace started in the same second. */
	if (!access(path, F_OK))
		snprintf(path, sizeof(path), "traces/trace_%s_%d.jsonl", stamp, getpid());
	info("writing %s", path);
	return open_sink(s, SINK_JSONL, path);
}

/*
 * Two programs that trace themselves at the same time may use the same file, as the default does.
 * The second one appends its process id to the name. The file stays locked until we end.
 */
static const char *collect_path(const struct session_opts *o, const char *path)
{
	static char other[4096];
	/* A FIFO would wait for its writer. */
	int fd = open(path, O_RDONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0600);
	bool is_file;
	struct stat st;

	if (fd < 0)
		return path;
	is_file = !fstat(fd, &st) && S_ISREG(st.st_mode);
	if (is_file && !flock(fd, LOCK_EX | LOCK_NB))
		return path;
	close(fd);
	if (!is_file)
		return path;
	snprintf(other, sizeof(other), "%s.%d", path, o->collect_for);
	return other;
}

static int open_sinks(struct session *s)
{
	const struct session_opts *o = s->o;
	int ret = 0;

	for (enum sink_id id = 0; id < SINK_CNT; id++) {
		for (unsigned i = 0; i < o->outputs[id].cnt && !ret; i++) {
			const char *path = o->outputs[id].v[i];

			ret = open_sink(s, id, o->collect ? collect_path(o, path) : path);
		}
	}
	if (!ret && !s->sink_cnt && !o->view)
		ret = open_default_sink(s);
	return ret;
}

/* Returns whether the command's output would be mixed into an output. A terminal shows both anyway.
 */
static bool shares_stdout(const struct session *s)
{
	struct stat out, st;

	if (fstat(STDOUT_FILENO, &out) || S_ISCHR(out.st_mode))
		return false;
	for (unsigned i = 0; i < s->sink_cnt; i++)
		if (!fstat(s->sinks[i]->out->fd, &st) && st.st_dev == out.st_dev &&
		    st.st_ino == out.st_ino)
			return true;
	return false;
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
		s->probe = missing ? PROBE_INJECT : PROBE_UPROBE;
		if (missing)
			info("tracing in-process (--probe=inject): %s", missing);
		else if (o->argv && (o->python.cnt || o->torch) && caps__missing_privilege())
			info("%s recorded only as root; without root a command is traced in-process",
			     layers(o));
	}
	if (o->gpu_time && !o->argv && !o->collect) {
		err("--gpu-time needs a library that the program loads at its start: give a "
		    "command: cudatrace --gpu-time -- COMMAND");
		return EXIT_USAGE;
	}
	if (s->probe != PROBE_INJECT)
		return check_translator(s);
	if (!o->argv && !o->collect) {
		err("--probe=inject must start the program that it traces: cudatrace "
		    "--probe=inject -- COMMAND; for a running program use --probe=uprobe, as root");
		return EXIT_USAGE;
	}
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
		.filtered = o->select.cnt || o->count.cnt || o->min_duration_ns || o->max_overhead,
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

/* 0, EXIT_USAGE, or -errno after reporting. */
static int start(struct session *s)
{
	uint64_t begin_ns;
	bool to_stderr;
	int ret;

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
	if (!ret)
		ret = add_targets(s);
	if (!ret)
		ret = attach_libs(s);
	if (ret)
		return ret;
	fill_info(s);
	ret = open_sinks(s);
	if (ret)
		return ret;
	ret = watch_waits(s);
	if (ret)
		return ret;
	opener__close_names();
	to_stderr = s->cmd.pid && shares_stdout(s);
	if (to_stderr)
		info("the trace is written to stdout: the output of %s goes to stderr",
		     s->o->argv[0]);
	if (s->o->start_after_ns)
		s->capture.start_ns = (begin_ns ?: now_ns()) + s->o->start_after_ns;
	if (s->o->duration_ns)
		s->deadline_ns = (begin_ns ?: now_ns()) + s->o->start_after_ns + s->o->duration_ns;
	if (s->o->sandbox)
		sandbox__enter(&(struct sandbox_needs){
			.inject = s->probe != PROBE_UPROBE || s->o->gpu_time,
			.gpu_log = s->o->gpu_ctxsw,
			.screen = s->o->view && s->o->view->fd >= 0});
	if (s->cmd.pid && s->probe == PROBE_INJECT && !s->t.att && s->o->follow)
		s->unreached = unreached__open(s->cmd.pid, session__event, s);
	return s->cmd.pid ? command__go(&s->cmd, s->o->argv[0], to_stderr) : 0;
}

static void fill_end(struct session *s)
{
	struct trace_end *end = &s->end;
	uint64_t wall;

	tracer__fill_end(&s->t, end);
	session__count_end(s);
	end->stats[CT_STAT_FILTERED] += s->outside_cnt;
	end->unseen = session__unseen(s);
	wall = end->end_ns - s->t.info.base_ns;
	end->cost_share = wall ? (double)end->cost_ns / wall : 0;
	/* The trace is shorter than a second. */
	if (wall && wall < 1000000000)
		end->max_thread_overhead *= 1e9 / wall;
}

/* Returns whether every output is complete. */
static bool close_sinks(struct session *s)
{
	struct trace_end sum = {0};
	struct summary_file *file;
	struct stat st;
	bool ok = true;

	fill_end(s);
	/* Files first: other outputs may wait for their readers. */
	for (unsigned i = 0; i < 2 * s->sink_cnt; i++) {
		struct sink **sink = &s->sinks[i % s->sink_cnt];

		if (!*sink || (i < s->sink_cnt && !(*sink)->out->is_file))
			continue;
		file = &s->files[sink - s->sinks];
		file->more_cnt = s->o->max_file ? segment_number((*sink)->out->name) : 0;
		if (sink__close_into(*sink, &s->end, &sum))
			ok = false;
		*sink = NULL;
		if (file->path && !stat(file->path, &st) && S_ISREG(st.st_mode))
			file->bytes = (uint64_t)st.st_size;
	}
	s->file_cnt = s->sink_cnt;
	s->sink_cnt = 0;
	s->end.write_error = sum.write_error;
	s->end.lines_lost = sum.lines_lost;
	s->end.output_gone_cnt = sum.output_gone_cnt;
	return ok;
}

static bool finish(struct session *s)
{
	uint64_t stop_ns = now_ns();
	bool ok;

	progress__free(s->progress);
	s->progress = NULL;
	/* Continue stopped processes before slow steps, and again those stopped in between. */
	attach__go_on_all(s->t.att);
	model__calls_end(s->t.model, stop_ns);
	attach__detach(s->t.att);
	sources__stop(&s->t.sources);
	attach__go_on_all(s->t.att);
	/* Without a command, signals that end the trace stay pending, so no output waits for its
	 * reader. */
	if (s->cmd.pid)
		session__take_signals(s);
	if (!s->hurry)
		tracer__finish(&s->t);
	if (s->cmd.pid)
		session__take_signals(s);
	session__report_lost(s, now_ns(), true);
	if (s->o->view)
		s->o->view->end(s->o->view);
	/* Detaching takes time, and calls are recorded until it is done. */
	if (s->end.end_ns < stop_ns)
		s->end.end_ns = stop_ns;
	ok = close_sinks(s);
	session__summarize(s);
	/* --all-layers (with torch) records what exists. */
	if (s->o->python.cnt && !s->o->torch && s->end.stats[CT_STAT_ENTRIES] && !s->t.has_python &&
	    !s->t.unknown_python_cnt)
		warn("--python: no CPython (3.8 to 3.14) was found in the processes that made "
		     "calls: no call has Python frames");
	session__warn_no_call(s);
	return ok;
}

static void release(struct session *s)
{
	progress__free(s->progress);
	while (s->sink_cnt)
		sink__close(s->sinks[--s->sink_cnt], NULL);
	for (unsigned i = 0; i < SESSION_MAX_SINKS; i++)
		free((char *)s->files[i].path);
	command__cancel(&s->cmd);
	/* A process of -p may be stopped already although the start failed. */
	if (s->guard.pid && s->t.att) {
		attach__detach(s->t.att);
		attach__go_on_all(s->t.att);
	}
	guard__end(&s->guard);
	command_user__free(&s->user);
	free(s->nvtx);
	summary__free(s->summary);
	waits__free(s->waits);
	budget__free(s->budget);
	unreached__free(s->unreached);
	tracer__close(&s->t);
	reader__end();
	opener__end();
	session__close_signals(s);
}

int session__run(const struct session_opts *o)
{
	static struct session s;
	int ret, status = 1;

	s.own = *o;
	s.o = &s.own;
	s.capture.kind = o->capture;
	s.capture.name = o->capture_name;
	log_set_wait(LOG_WAIT_MS);
	s.signals.fd = s.signals.quit_fd = -1;
	s.t.fns = fnset__new();
	ret = s.t.fns ? start(&s) : -ENOMEM;
	if (ret == EXIT_USAGE)
		status = EXIT_USAGE;
	if (!ret) {
		session__loop(&s);
		status = finish(&s) ? 0 : 1;
		session__await_command(&s);
		if (s.cmd.pid && !command__ended(&s.cmd))
			status = 128 + SIGINT;
		else if (s.cmd.pid && command__status(&s.cmd))
			status = command__status(&s.cmd);
	} else if (s.sink_cnt) {
		/* Another output or the command failed: close the outputs that exist. */
		session__stop(&s, "could not start");
		s.end.end_ns = now_ns();
		close_sinks(&s);
	}
	release(&s);
	return status;
}
