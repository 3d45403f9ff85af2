/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the parts of the daemon share: daemon.c (start, loop, end), daemon_event.c (what becomes of
 * an event), daemon_ctl.c (what can be asked of it), daemon_reload.c. */
#ifndef DAEMON_DAEMON_PRIV_H
#define DAEMON_DAEMON_PRIV_H

#include "ctl.h"
#include "daemon.h"
#include "http.h"
#include "formatter.h"
#include "metrics/metrics.h"
#include "otlp/otlp.h"
#include "otlp/iter.h"
#include "procs.h"
#include "recorder.h"
#include "rotate.h"
#include "runner.h"
#include "turn.h"

#include "trace/tracer.h"

#define LIBS_KEPT_MAX 64

/* A look at what all processes map (daemon_libs.c). */
struct libs_look {
	bool on;
	unsigned number;
	uint64_t began_ns;
	struct ct_lib_key *used; /* of libraries that are attached */
	unsigned used_cnt;
	uid_t kept[LIBS_KEPT_MAX]; /* whose libraries stay, for their processes could not be read */
	unsigned kept_cnt;
	bool keep_all;
};
#define DAEMON_SIGNALS 4

struct daemon {
	const struct daemon_opts *o;
	struct config *cfg;
	struct tracer t;
	struct dprocs procs;
	struct metrics *metrics;
	struct formatter *formatter;
	struct rotate *rotate;
	struct runner *runner;	    /* NULL: no command to run */
	struct recorder *recorder;  /* NULL: none */
	struct http *http;	    /* NULL: none */
	struct otlp *otlp;	    /* NULL: none */
	struct otlp_iters *iters;   /* as otlp */
	int64_t epoch_ns;	    /* what to add to CLOCK_MONOTONIC */
	bool markers[CT_MAX_FUNCS]; /* their calls end an iteration */
	struct ctl *ctl;
	struct event_base *base;
	struct event *source_evs[RAW_PRODUCER_MAX];
	struct event *drain_ev, *tick_ev, *watch_ev, *signal_evs[DAEMON_SIGNALS];
	bool always[CT_MAX_FUNCS]; /* records also of processes at level metrics */
	uint64_t now;		   /* CLOCK_MONOTONIC of this turn of the loop */
	uint64_t started_ns;	   /* CLOCK_MONOTONIC */
	struct turn turn;
	/* When the counts were read, whether a scrape asked or not, and who has gone was found. */
	uint64_t sweep_ns;
	uint64_t libs_ns; /* when libraries were looked at */
	struct libs_look libs_look;
	uint64_t reloads, reload_failures;
	/* Of the open file: what its end line says. */
	struct trace_end file_end;
	int64_t file_epoch_ns;
	unsigned files_begun;
	uint64_t file_drops[CT_DROP_CNT], file_full[QUOTA_CNT];
	uint64_t file_late;    /* that ends have told */
	uint64_t file_dropped; /* lines, by ends of files */
	/* Flight recorder */
	const char *dump_why; /* to be done at dump_ns; NULL: not */
	uint64_t dump_ns, dumped_ns, dumps;
	bool stopping;
	bool failed; /* it cannot go on */
};

/* Who writes without end is not read without end: between looks, and when the daemon ends. */
#define DRAIN_MAX_NS  100000000ull
#define DRAIN_TURN_NS 40000000ull /* where a turn would be long otherwise */
#define DRAIN_END_NS  1000000000ull

/* daemon.c */
bool daemon__is_healthy(void *d);
enum ct_proc_level daemon__default_level(const struct daemon *d);

/* daemon_event.c */
void daemon__event(void *d, const struct trace_event *ev);
/* As struct formatter_opts wants them. */
bool daemon__file(void *d, const struct formatter_text *t, size_t *at, bool is_caller);
void daemon__record(void *d, const struct formatter_text *t);
void daemon__caused(void *d, struct dproc *p, enum cause why, uint64_t ns);
void daemon__use(void *d, uint32_t pid, const char comm[16]);
/* A function that no library has any more: its id is given to another. */
void daemon__forget_fn(void *d, unsigned func_id);
/* Which functions' calls are records of all processes: what cannot be learned from counts. */
void daemon__set_always(struct daemon *d);

/* signals.c */
/* Those that mean nothing to a daemon do not end it. Before anything is started. */
void daemon__ignore_signals(void);
/* 0 or -ENOMEM. */
int daemon__handle_signals(struct daemon *d);

/* daemon_files.c */
struct rotate_opts daemon__rotate_opts(struct daemon *d);
/* The clock may have been set, or the machine has slept: then the file ends, for its header says
 * what the time is. */
void daemon__follow_clock(struct daemon *d);

/* Who takes frames of lines? */
bool daemon__wants_frames(const struct config *c);
/* NULL: none is asked for, or out of memory. */
struct recorder *daemon__new_recorder(const struct config *c);
/* Writes the flight recorder to a file. name: NULL for one made of the time; *path is where it
 * went, to be freed. 0 or -errno after reporting. */
int daemon__dump(struct daemon *d, const char *name, const char *why, char **path);

/* daemon_ctl.c */
void daemon__command(void *d, int argc, char **argv, bool root, struct out *answer);

/* daemon_metrics.c */
void daemon__read_counts(struct daemon *d);
void daemon__fill_self(struct daemon *d, struct metrics_self *self);
void daemon__print_metrics(void *d, struct out *o);

/* daemon_libs.c */
/* Containers come and go with files of their own. What nobody has mapped at two looks, and is not
 * on the machine's disk by the path that it was found at, is taken off; when there are many, what
 * is on the disk too. */
void daemon__drop_libs(struct daemon *d);
/* Goes on with that; to be called in turns. */
void daemon__look_at_libs(struct daemon *d);

/* daemon_otlp.c */
/* What to add to CLOCK_MONOTONIC, the same until the clock is set. */
int64_t daemon__epoch(struct daemon *d);
/* 0 or -errno after reporting. */
int daemon__open_otlp(struct daemon *d);
void daemon__set_markers(struct daemon *d);
/* A span of the call, if it is slow or failed; of the iteration, if one ends with it. */
void daemon__span(struct daemon *d, const struct dproc *p, const struct trace_event *ev);
/* Sends what there is; not for long. */
void daemon__finish_otlp(struct daemon *d);

/* daemon_reload.c */
/* false: something is wrong, which it reports; nothing has changed then. why: first line of it. */
bool daemon__reload(struct daemon *d, char *why, size_t size);

#endif /* DAEMON_DAEMON_PRIV_H */
