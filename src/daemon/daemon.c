/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The daemon from start to end: configuration, lock and socket, metrics, BPF side, libraries, loop,
 * detach, drain the sources. One event_base drives all work in one thread; other threads only
 * format and write lines (formatter.h), and serve HTTP clients (http.h).
 */
#include "daemon_priv.h"

#include <errno.h>
#include <event2/event.h>
#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "listener.h"
#include "memory.h"
#include "notify.h"
#include "peer_user.h"
#include "util/clock.h"
#include "util/log.h"
#include "util/reader.h"
#include "util/privs.h"
#include "util/sandbox.h"
#include "util/time_budget.h"

/* Records between checks of signals and sockets. */
#define DRAIN_BATCH 16384
/* The kernel side wakes the daemon when enough records wait; this drains the rest, more slowly
 * while idle. */
#define DRAIN_BUSY_MS 50
/* If the last turn left work for processes. */
#define DRAIN_SOON_MS 10
#define DRAIN_IDLE_MS 1000
#define SWEEP_NS      10000000000ull
#define LIBS_NS	      60000000000ull

/* Level of a process until its own is known: the highest that it may get, because calls that were
 * not recorded are lost. */
enum ct_proc_level daemon__default_level(const struct daemon *d)
{
	const struct config *c = d->cfg;
	enum ct_proc_level most = dproc_kernel_level(c->level);

	for (unsigned i = 0; i < c->rule_cnt; i++) {
		enum ct_proc_level level = dproc_kernel_level(c->rules[i].level);

		/* Lower values record more. */
		if (level < most)
			most = level;
	}
	return most;
}

static bool is_healthy(void *d)
{
	return turn__is_alive(&((struct daemon *)d)->turn);
}

static void arm(void *ev, unsigned ms)
{
	const struct timeval tv = {.tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000};

	event_add(ev, &tv);
}

static void dump_for_cause(struct daemon *d)
{
	struct recorder_stats r = {0};
	char *path;

	formatter__release(d->formatter);
	if (d->recorder)
		recorder__stats(d->recorder, &r);
	if (r.lines)
		daemon__dump(d, NULL, d->dump_why, &path), free(path);
	/* Set also after a failure, so that not every error retries. */
	d->dumped_ns = d->now;
	d->dump_why = NULL;
}

/* Work that is due after records were read, or by the clock. */
static void after_turn(struct daemon *d)
{
	daemon__gpu_tick(d);
	if (dprocs__clock(&d->procs, d->now)) {
		/* A burst is its own file, unless other processes are traced all the time. */
		tracer__drain_for(&d->t, DRAIN_MAX_NS);
		formatter__mark(d->formatter, d->now);
	}
	formatter__tick(d->formatter, d->now);
	if (d->dump_why && d->now >= d->dump_ns)
		dump_for_cause(d);
	dossier__tick(d);
}

/* The header of files may have changed. */
static void follow_writes(struct daemon *d)
{
	libs__follow_writes(&d->t.libs);
	tracer__fill_libs(&d->t);
}

static void on_write(evutil_socket_t fd, short what, void *ctx)
{
	struct daemon *d = ctx;

	d->now = turn__begin(&d->turn);
	follow_writes(d);
	arm(d->drain_ev, DRAIN_BUSY_MS);
}

/* Milliseconds until records are read again; cnt have just been read. */
static unsigned until_next(const struct daemon *d, size_t cnt)
{
	uint64_t next_ns;

	if (cnt == DRAIN_BATCH)
		return 0;
	if (d->t.libs.pending_cnt || d->libs_look.on)
		return DRAIN_SOON_MS;
	if (cnt || libs__is_waiting(&d->t.libs) || dprocs__any_burst(&d->procs) ||
	    d->dossiers.cnt || daemon__any_gpu_burst(d))
		return DRAIN_BUSY_MS;
	next_ns = dprocs__next_ns(&d->procs, d->now);
	if (next_ns < d->now + DRAIN_IDLE_MS * 1000000ull)
		return next_ns > d->now ? (next_ns - d->now) / 1000000 + 1 : 0;
	return DRAIN_IDLE_MS;
}

static void on_records(evutil_socket_t fd, short what, void *ctx)
{
	struct daemon *d = ctx;
	size_t cnt;

	d->now = turn__begin(&d->turn);
	cnt = sources__drain(&d->t.sources, DRAIN_BATCH);
	if (!libs__tick(&d->t.libs, d->now, cnt < DRAIN_BATCH)) {
		d->failed = true;
		event_base_loopbreak(d->base);
	}
	if (libs__is_waiting(&d->t.libs))
		follow_writes(d);
	daemon__look_at_libs(d);
	after_turn(d);
	arm(d->drain_ev, until_next(d, cnt));
}

static void on_gone(void *ctx, uint32_t pid)
{
	struct daemon *d = ctx;

	model__forget(d->t.model, pid);
	otlp_iters__forget(d->iters, pid);
}

/* Adding up the counters of all threads takes time, so this runs only when there may be a loss. */
static void look_for_losses(struct daemon *d)
{
	struct sources *ss = &d->t.sources;

	for (unsigned i = 0; i < ss->cnt; i++)
		if (source__was_full(ss->of[i]))
			tracer__look_for_losses(&d->t, ss->of[i]);
}

static void on_tick(evutil_socket_t fd, short what, void *ctx)
{
	struct daemon *d = ctx;

	d->now = turn__begin(&d->turn);
	dprocs__read_errors(&d->procs);
	dprocs__take_left(&d->procs);
	daemon__inject_by_rules(d);
	daemon__listen_tick(d);
	if (d->now - d->sweep_ns >= SWEEP_NS) {
		daemon__read_counts(d);
		if (dprocs__sweep(&d->procs, on_gone, d))
			d->sweep_ns = d->now;
		/* Freed memory lies between memory in use. */
		if (model__compact(d->t.model))
			malloc_trim(0);
	}
	daemon__profile_tick(d);
	look_for_losses(d);
	tracer__look_at_ranks(&d->t, d->now);
	waits__look(d->waits, d->now);
	if (d->now - d->libs_ns >= LIBS_NS)
		daemon__drop_libs(d);
	daemon__follow_clock(d);
	if (d->reload_requested)
		daemon__hangup(d);
	formatter__wait_idle(d->formatter);
	rotate__tick(d->rotate, d->now);
	after_turn(d);
	notify("WATCHDOG=1");
}

static int add_sources(struct daemon *d)
{
	for (unsigned i = 0; i < d->t.sources.cnt; i++) {
		int fd = source__fd(d->t.sources.of[i]);

		if (fd < 0)
			continue;
		d->source_evs[i] = event_new(d->base, fd, EV_READ | EV_PERSIST, on_records, d);
		if (!d->source_evs[i] || event_add(d->source_evs[i], NULL))
			return -ENOMEM;
	}
	return 0;
}

static int add_events(struct daemon *d)
{
	if (attach__watch_fd(d->t.att) >= 0)
		d->watch_ev = event_new(d->base, attach__watch_fd(d->t.att), EV_READ | EV_PERSIST,
					on_write, d);
	d->drain_ev = event_new(d->base, -1, 0, on_records, d);
	d->tick_ev = event_new(d->base, -1, EV_PERSIST, on_tick, d);
	if (!d->drain_ev || !d->tick_ev || add_sources(d) || daemon__handle_signals(d))
		return -ENOMEM;
	if (d->watch_ev)
		event_add(d->watch_ev, NULL);
	arm(d->drain_ev, DRAIN_BUSY_MS);
	arm(d->tick_ev, 1000);
	return 0;
}

static int listen_to_all(struct daemon *d)
{
	const struct ctl_ops ctl_ops = {daemon__command, d};
	const struct config *c = d->cfg;
	struct listen_address a;
	char why[256];

	d->ctl = ctl__new(d->base, c->ctl.socket, c->ctl.group, &ctl_ops);
	if (!d->ctl)
		return -EADDRINUSE;
	if (!daemon__resolve(c, &a, why, sizeof(why))) {
		err("%s", why);
		return -EINVAL;
	}
	daemon__listen(d, &a);
	/* Other errors do not pass. */
	return d->listen_error == -EADDRINUSE ? 0 : d->listen_error;
}

/* Opens listeners before anything is loaded: another process may use their addresses. */
static int open_doors(struct daemon *d)
{
	const struct http_ops http_ops = {
		.metrics = daemon__print_metrics,
		.profile = d->cfg->profiles.interval_ns ? daemon__put_profile : NULL,
		.healthy = is_healthy,
		.ctx = d,
	};
	int ret;

	d->base = event_base_new();
	if (!d->base)
		return -ENOMEM;
	/* Needed also without a port, because a reload may open one. */
	peer_user__start();
	d->http = http__new(d->base, &http_ops);
	if (!d->http)
		return -EAGAIN;
	privs_lower();
	ret = listen_to_all(d);
	privs_raise();
	return ret;
}

/* Runs in the process that starts files.on_rotate. */
static void what_to_run(void *ctx, struct runner_what *what)
{
	struct config_errors errors = {0};
	struct config *c = daemon_config(((struct daemon *)ctx)->o, &errors);
	struct runner_what now = {0};

	if (c && asprintf(&now.folder, "%s/" ROTATE_PENDING, c->files.directory) < 0)
		now.folder = NULL;
	if (c && (now.command = strdup(c->files.on_rotate)) && now.folder) {
		free(what->command);
		free(what->folder);
		*what = now;
	}
	config__free(c);
}

static int watch_waits(struct daemon *d)
{
	/* The work of all processes of a machine would need too much memory. */
	const struct waits_opts opts = {
		.tracer = &d->t,
		.after_ns = d->cfg->trace.hang_after_ns,
		.only_calls = true,
		.of_users = true,
		.fn = daemon__event,
		.ctx = d,
	};

	if (!opts.after_ns)
		return 0;
	d->waits = waits__new(&opts);
	return d->waits ? 0 : -ENOMEM;
}

static int open_tracer(struct daemon *d)
{
	uint32_t counts = memory_rows(d->cfg->metrics.max_counts);
	uint32_t tasks = memory_rows(d->cfg->metrics.max_tasks);
	struct tracer_opts to = {
		.probe = d->cfg->trace.inject ? PROBE_BOTH : PROBE_UPROBE,
		.attach =
			{
				.mech = d->o->mechanism,
				.ring_sz = d->cfg->trace.buffer_size,
				.follow = true,
				.counts_max = counts - memory_inproc(d->cfg, counts),
				.errors_max = counts / 4,
				.tasks_max = tasks - memory_inproc(d->cfg, tasks),
				.kernel = d->cfg->trace.kernel,
				.redact = d->cfg->trace.redact,
				.force = d->o->force,
				.sandbox = d->o->sandbox,
				.filters = d->cfg->trace.inject,
			},
		.kernel_args = d->cfg->trace.inject && d->cfg->trace.kernel_args,
		.wait = true,
		.xids = true,
		/* Without trace.inject, uprobes record the calls of all processes, and the library
		 * has only the GPU times. */
		.gpu_time = d->cfg->trace.gpu_time,
		.gpu_burst = d->cfg->trace.gpu_burst,
		.inject_folder = d->cfg->trace.inject_folder,
		.inject_slots_max = tasks / MEMORY_INPROC_PARTS,
		.inject_counts_max = counts / MEMORY_INPROC_PARTS,
		.cupti = *d->cfg->trace.cupti ? d->cfg->trace.cupti : NULL,
		.gpu_ctxsw = d->cfg->trace.gpu_ctxsw ? GPU_CTXSW_ON : GPU_CTXSW_OFF,
		.gpu_stats_ms = d->cfg->gpu_stats.interval_ns / 1000000,
		.gpu_metrics_hz = d->cfg->gpu_metrics.rate,
		.fn = daemon__event,
		.on_use = daemon__use,
		.on_reuse = daemon__forget_fn,
		.ctx = d,
	};
	char why[512];

	daemon__profile_opts(d->cfg, &to.attach);
	d->t.fns = fnset__new();
	if (!d->t.fns)
		return -ENOMEM;
	fnset__set_detail(d->t.fns, d->cfg->trace.detail);
	if (*d->cfg->trace.functions)
		fnset__select(d->t.fns, d->cfg->trace.functions, why, sizeof(why));
	return tracer__open(&d->t, &to);
}

static void look_at_memory(struct daemon *d, unsigned cpus)
{
	uint64_t most;

	memory__set_limits(d->cfg, &d->t.quotas);
	most = memory__max_bytes(d->cfg, &d->t.quotas, cpus, NULL, NULL);
	if (most > MEMORY_UNIT)
		warn("with this configuration the daemon may take up to %" PRIu64
		     " MiB: raise its memory limit to that (MemoryMax=, 544M in the unit that comes with it)",
		     most >> 20);
}

static int open_outputs(struct daemon *d, unsigned cpus)
{
	const struct config *c = d->cfg;
	struct rotate_opts ro = daemon__rotate_opts(d);

	d->formatter = formatter__new(&(struct formatter_opts){
		.info = &d->t.info,
		.wait = config__has_gpu_times(c) ? c->trace.gpu_pending_size : 0,
		.threads = memory__writers(c, cpus),
		.frames = daemon__wants_frames(c),
		.file = daemon__file,
		.record = daemon__record,
		.ctx = d,
	});
	d->rotate = rotate__new(&ro);
	d->recorder = daemon__new_recorder(c);
	return d->formatter && d->rotate && (d->recorder || !c->recorder.keep_ns) ? 0 : -ENOMEM;
}

/* 0 or -errno after reporting. */
static int start(struct daemon *d)
{
	unsigned cpus;
	int ret = 0;

	if (*d->cfg->files.on_rotate) {
		d->runner = runner__new(what_to_run, d);
		ret = d->runner ? 0 : -EAGAIN;
	}
	if (!ret && d->cfg->profiles.interval_ns) {
		d->profile = daemon__new_profile();
		ret = d->profile ? 0 : -ENOMEM;
	}
	if (!ret) {
		d->dossiers.worker = dossier_worker__new(d->o->sandbox);
		ret = d->dossiers.worker ? 0 : -EAGAIN;
	}
	if (!ret)
		ret = open_doors(d);
	d->metrics = metrics__new(d->cfg->metrics.max_series);
	if (!ret)
		ret = open_tracer(d);
	if (!ret)
		ret = daemon__serve_inject(d);
	if (ret)
		return ret;
	d->procs = (struct dprocs){
		.sources = &d->t.sources,
		.fns = d->t.fns,
		.metrics = d->metrics,
		.cfg = d->cfg,
		.root = secure_getenv("CUDATRACE_HOST_ROOT") ?: "",
		.quota = &d->t.quotas.of[QUOTA_LABELS],
		.caused = daemon__caused,
		.counted = d->profile ? daemon__profile_counted : NULL,
		.ctx = d,
	};
	attach__ring_fds(d->t.att, &cpus, &(size_t){0});
	look_at_memory(d, cpus);
	sources__set_default(&d->t.sources, daemon__default_level(d));
	daemon__set_profile_markers(d);
	daemon__set_always(d);
	daemon__profile_tick(d);
	tracer__fill_info(&d->t);
	ret = watch_waits(d);
	if (!ret)
		ret = open_outputs(d, cpus);
	if (!ret)
		ret = daemon__open_otlp(d);
	if (!ret && d->o->libcuda)
		ret = libs__attach_file(&d->t.libs, d->o->libcuda);
	if (!ret)
		ret = libs__attach_system(&d->t.libs, true);
	if (ret)
		return ret;
	/* The operator named or installed the libraries so far, so reading them may take longer. */
	time_budget__start();
	ret = add_events(d);
	if (!ret && d->o->sandbox)
		sandbox__enter(&(struct sandbox_needs){.daemon = true,
						       .inject = config__has_listener(d->cfg),
						       .gpu_log = d->cfg->trace.gpu_ctxsw});
	return ret;
}

/* Writes the remaining records of the sources; calls in flight are marked as unfinished. */
static void finish(struct daemon *d)
{
	d->stopping = true;
	notify("STOPPING=1");
	d->now = now_ns();
	model__calls_end(d->t.model, d->now);
	attach__detach(d->t.att);
	sources__stop(&d->t.sources);
	tracer__drain_for(&d->t, DRAIN_END_NS);
	sources__unfinished(&d->t.sources);
	if (d->dump_why)
		dump_for_cause(d);
	daemon__profile_end(d);
	dossier__finish(d);
	daemon__finish_otlp(d);
}

static void free_event(void *ev)
{
	if (ev)
		event_free(ev);
}

static void release(struct daemon *d)
{
	otlp__free(d->otlp);
	otlp_iters__free(d->iters);
	daemon_profile__free(d->profile);
	http__free(d->http);
	ctl__free(d->ctl);
	for (unsigned i = 0; i < RAW_PRODUCER_MAX; i++)
		free_event(d->source_evs[i]);
	free_event(d->drain_ev);
	free_event(d->tick_ev);
	free_event(d->watch_ev);
	for (unsigned i = 0; i < DAEMON_SIGNALS; i++)
		free_event(d->signal_evs[i]);
	if (d->base)
		event_base_free(d->base);
	if (d->rotate) {
		formatter__release(d->formatter);
		rotate__free(d->rotate, now_ns());
	}
	runner__free(d->runner);
	dossier__free(d);
	recorder__free(d->recorder);
	formatter__free(d->formatter);
	dprocs__free(&d->procs);
	metrics__free(d->metrics);
	waits__free(d->waits);
	tracer__close(&d->t);
	free(d->libs_look.used);
	config__free(d->cfg);
}

int daemon_run(const struct daemon_opts *o)
{
	struct config_errors errors = {0};
	static struct daemon d;
	int ret;

	/* Returns a scrape's text to the system when it is freed; it would fragment the heap. */
	mallopt(M_MMAP_THRESHOLD, 256 << 10);
	/* One arena: memory that one thread allocates and another frees would pile up in each
	 * arena. */
	mallopt(M_ARENA_MAX, 1);
	daemon__ignore_signals();
	log_set_journal(notify_has_journal());
	log_set_wait(LOG_WAIT_MS);
	d.o = o;
	d.now = d.started_ns = now_ns();
	d.cfg = daemon_config(o, &errors);
	if (!d.cfg) {
		for (char *rest, *line = strtok_r(errors.text, "\n", &rest); line;
		     line = strtok_r(NULL, "\n", &rest))
			err("%s", line);
		return 1;
	}
	/* Must come before anything is opened that the reader process would inherit. */
	ret = reader__start(o->sandbox);
	if (ret)
		err("cannot start cudatrace-read: %s", strerror(-ret));
	else
		ret = start(&d);
	if (!ret) {
		notify("READY=1");
		info("tracing by %s; level %s; metrics on %s",
		     mechanism_name(attach__mechanism(d.t.att)), proc_level_name(d.cfg->level),
		     *d.cfg->metrics.listen && !d.listen_error ? d.cfg->metrics.listen : "no port");
		turn__loop(&d.turn, d.base);
		finish(&d);
	}
	release(&d);
	reader__end();
	return ret || d.failed ? 1 : 0;
}
