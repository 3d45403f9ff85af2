/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Shared by the parts of the daemon: daemon.c (start, loop, end), daemon_event.c (events),
 * daemon_ctl.c (commands), daemon_reload.c. */
#ifndef DAEMON_DAEMON_PRIV_H
#define DAEMON_DAEMON_PRIV_H

#include "ctl.h"
#include "daemon.h"
#include "dossier.h"
#include "http.h"
#include "formatter.h"
#include "metrics/metrics.h"
#include "model/losses.h"
#include "otlp/otlp.h"
#include "otlp/iter.h"
#include "procs.h"
#include "recorder.h"
#include "rotate.h"
#include "runner.h"
#include "turn.h"

#include "trace/tracer.h"
#include "trace/waits.h"
#include "inject/late_server.h"

#define LIBS_KEPT_MAX 64

/* A scan of the mappings of all processes (daemon_libs.c). */
struct libs_look {
	bool on;
	unsigned number;
	uint64_t began_ns;
	struct ct_lib_key *used; /* attached libraries in use */
	unsigned used_cnt;
	uid_t kept[LIBS_KEPT_MAX]; /* users whose libraries stay, because a process of theirs could
				    * not be read */
	unsigned kept_cnt;
	bool keep_all;
};
#define DAEMON_SIGNALS 4

/* One of the last requests for GPU times of a running program (daemon_gpu.c). */
#define GPU_BURSTS_MAX 8
struct gpu_burst {
	uint32_t pid; /* 0: free */
	enum {
		GPU_BURST_ENTERS,
		GPU_BURST_STARTS,
		GPU_BURST_ON,
		GPU_BURST_STOPS,
		GPU_BURST_OVER
	} phase;
	ct_generation generation;
	uint64_t ns;
	uint64_t limit_ns; /* when the phase ends; OVER: when it began */
	char why[400];	   /* OVER: how it ended */
};

struct daemon {
	const struct daemon_opts *o;
	struct config *cfg;
	struct tracer t;
	struct waits *waits; /* NULL: not watched */
	struct dprocs procs;
	struct metrics *metrics;
	struct formatter *formatter;
	struct rotate *rotate;
	struct runner *runner;	   /* NULL: no command to run */
	struct recorder *recorder; /* NULL: none */
	struct http *http;
	struct otlp *otlp;		/* NULL: none */
	struct otlp_iters *iters;	/* set together with otlp */
	struct daemon_profile *profile; /* NULL: none */
	int64_t epoch_ns;		/* offset to add to CLOCK_MONOTONIC */
	bool markers[CT_MAX_FUNCS];	/* their calls end an iteration */
	struct ctl *ctl;
	struct event_base *base;
	struct event *source_evs[RAW_PRODUCER_MAX];
	struct event *drain_ev, *tick_ev, *watch_ev, *signal_evs[DAEMON_SIGNALS];
	bool always[CT_MAX_FUNCS]; /* recorded also for processes at level metrics */
	uint64_t now;		   /* CLOCK_MONOTONIC of this turn of the loop */
	uint64_t started_ns;	   /* CLOCK_MONOTONIC */
	struct turn turn;
	/* When the counts were last read, with or without a scrape, and ended processes were
	 * found. */
	uint64_t sweep_ns;
	uint64_t libs_ns; /* last scan of libraries */
	struct libs_look libs_look;
	struct losses lost; /* libraries without probes */
	uint64_t reloads, reload_failures, reloaded_ns;
	int listen_error;      /* -errno: the port of metrics.listen is not ours yet */
	bool reload_requested; /* by SIGHUP, less than a second after the last one */
	/* Values for the end line of the open file. */
	struct trace_end file_end;
	int64_t file_epoch_ns;
	uint64_t file_begun_ns;
	unsigned files_begun;
	uint64_t file_drops[CT_DROP_CNT], file_full[QUOTA_CNT];
	struct trace_gpu file_gpu; /* already in end lines, as the next two */
	uint64_t file_late;
	uint64_t file_dropped; /* dropped lines */
	/* Flight recorder */
	const char *dump_why; /* the dump is due at dump_ns; NULL: none */
	uint64_t dump_ns, dumped_ns, dumps;
	struct dossiers dossiers;
	uint64_t injections[LATE_RESULT_CNT];
	struct gpu_burst gpu_bursts[GPU_BURSTS_MAX];
	bool stopping;
	bool failed; /* the daemon cannot continue */
};

/* Limits for draining, because processes may write without end: between scans, and at the end of
 * the daemon. */
#define DRAIN_MAX_NS  100000000ull
#define DRAIN_TURN_NS 40000000ull /* where a turn would be long already */
#define DRAIN_END_NS  1000000000ull

/* daemon.c */
enum ct_proc_level daemon__default_level(const struct daemon *d);

/* daemon_event.c */
void daemon__event(void *d, const struct trace_event *ev);
/* Callbacks of struct formatter_opts. */
bool daemon__file(void *d, const struct formatter_text *t, size_t *at, bool is_caller);
void daemon__record(void *d, const struct formatter_text *t);
void daemon__caused(void *d, struct dproc *p, enum cause why, uint64_t ns);
void daemon__use(void *d, uint32_t pid, const char comm[16]);
/* A function that no library has any more: its id is reused. */
void daemon__forget_fn(void *d, unsigned func_id);
/* Selects the functions whose calls are recorded for all processes, because counts lack their
 * information. */
void daemon__set_always(struct daemon *d);

/* signals.c */
/* Keeps signals that have no meaning for a daemon from ending it. Called before anything is
 * started. */
void daemon__ignore_signals(void);
/* 0 or -ENOMEM. */
int daemon__handle_signals(struct daemon *d);

/* daemon_files.c */
struct rotate_opts daemon__rotate_opts(struct daemon *d);
/* Ends the file if the clock was set or the machine has slept, because the header has the time. */
void daemon__follow_clock(struct daemon *d);

/* Returns whether a consumer needs frames of lines. */
bool daemon__wants_frames(const struct config *c);
/* NULL: not configured, or out of memory. */
struct recorder *daemon__new_recorder(const struct config *c);
/* Writes the flight recorder to a file. name: NULL to make one from the time; *path is the file, to
 * be freed. 0 or -errno after reporting. */
int daemon__dump(struct daemon *d, const char *name, const char *why, char **path);

/* Writes the flight recorder to fd. waits: also the calls in flight of this process that wait;
 * NULL: none. 0 or -errno. */
int daemon__write_calls(struct daemon *d, int fd, const char *why, const struct dproc *waits);

/* daemon_ctl.c */
void daemon__command(void *d, int argc, char **argv, bool root, struct out *answer);

/* daemon_inject.c */
/* Before the sandbox. 0 or -errno. */
int daemon__serve_inject(struct daemon *d);
/* Requests to load the library into a running process. Returns NULL, or why not. */
const char *daemon__inject(struct daemon *d, struct dproc *p, bool gently);
/* Once a second. */
void daemon__inject_by_rules(struct daemon *d);

/* daemon_gpu.c */
/* Requests GPU times of a running program for ns. Returns NULL, or why not. */
const char *daemon__gpu_burst(struct daemon *d, struct dproc *p, uint64_t ns);
/* In each turn. */
void daemon__gpu_tick(struct daemon *d);
bool daemon__any_gpu_burst(const struct daemon *d);
/* The library cannot enter the process. */
void daemon__gpu_refused(struct daemon *d, uint32_t pid, const char *why);
/* The phase of the last request for this process, or how it ended; NULL: there is none. */
const char *daemon__gpu_status(const struct daemon *d, uint32_t pid);

/* daemon_metrics.c */
void daemon__read_counts(struct daemon *d);
void daemon__fill_self(struct daemon *d, struct metrics_self *self);
void daemon__print_metrics(void *d, struct out *o);

/* daemon_libs.c */
/* Containers bring their own copies of libraries. A library is detached when no process mapped it
 * in two scans, and its path is not on the machine's disk. If many libraries are attached, those on
 * the disk are detached too. */
void daemon__drop_libs(struct daemon *d);
/* Continues the scan; to be called in turns. */
void daemon__look_at_libs(struct daemon *d);

/* daemon_listen.c */
/* Reads the address of metrics.listen; its length is 0 for none. Returns false, and why. */
bool daemon__resolve(const struct config *c, struct listen_address *a, char *why, size_t size);
/* Listens there, now or later: then it reports why, and sets d->listen_error. */
void daemon__listen(struct daemon *d, const struct listen_address *a);
/* Only with d->listen_error. */
void daemon__listen_problem(const struct daemon *d, char *text, size_t size);
/* Once a second. */
void daemon__listen_tick(struct daemon *d);

/* daemon_otlp.c */
/* Offset to add to CLOCK_MONOTONIC, constant until the clock is set. */
int64_t daemon__epoch(struct daemon *d);
/* 0 or -errno after reporting. */
int daemon__open_otlp(struct daemon *d);
void daemon__set_markers(struct daemon *d);
/* Makes a span of the call if it is slow or failed, and one of the iteration that it ends. */
void daemon__span(struct daemon *d, const struct dproc *p, const struct trace_event *ev);
/* Sends an event about a dossier, which has its folder. */
void daemon__dossier_event(struct daemon *d, const struct dossier *x, const char *verdict);
/* Sends what is queued, for a limited time. */
void daemon__finish_otlp(struct daemon *d);

/* daemon_profile.c */
/* NULL: not configured, or out of memory. */
struct daemon_profile *daemon__new_profile(void);
/* Finds the functions that end iterations. */
void daemon__set_profile_markers(struct daemon *d);
void daemon_profile__free(struct daemon_profile *p);
/* Fills what traced calls need for profiles. */
void daemon__profile_opts(const struct config *c, struct attach_opts *o);
void daemon__profile_counted(void *d, struct dproc *p, uint32_t func_id,
			     const struct ct_count *delta);
void daemon__profile_event(struct daemon *d, struct dproc *p, const struct trace_event *ev);
/* Returns whether profiles need each call of the function. */
bool daemon__profile_needs(const struct daemon *d, unsigned func_id);
/* Once a second: sets how many calls are sampled, and ends the interval. */
void daemon__profile_tick(struct daemon *d);
/* Ends the last interval. */
void daemon__profile_end(struct daemon *d);
/* Callback of struct http_ops. */
void daemon__put_profile(void *d, struct out *o);
void daemon__fill_profile(const struct daemon *d, struct metrics_self *self);

/* daemon_reload.c */
/* false: an error, which it reports; nothing has changed then. why: first line of the error. */
bool daemon__reload(struct daemon *d, char *why, size_t size);
/* Returns whether that was less than a second ago. */
bool daemon__has_just_reloaded(const struct daemon *d);
/* SIGHUP: reads the configuration now, or a second after the last time. */
void daemon__hangup(struct daemon *d);

#endif /* DAEMON_DAEMON_PRIV_H */
