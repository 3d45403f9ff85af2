/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* State of one tracing run of cudatrace, shared by its parts. */
#ifndef TRACE_SESSION_H
#define TRACE_SESSION_H

#include "budget.h"
#include "command.h"
#include "session_opts.h"
#include "witness.h"

#include "attach/guard.h"
#include "inject/late.h"
#include "model/losses.h"
#include "sink/summary/progress.h"
#include "sink/sink.h"
#include "sink/summary/summary.h"
#include "tracer.h"
#include "unreached.h"
#include "waits.h"

#include <signal.h>

#define SESSION_MAX_SINKS 16

/* Reasons to end the trace. */
#define NO_OUTPUT "no output can be written"
#define ENOUGH	  "finished"

struct signals {
	int fd;			/* readable when one of them arrives, SIGCHLD too */
	int quit_fd;		/* readable when a signal to end is pending */
	sigset_t taken;		/* signals that fd receives */
	bool is_leader;		/* this process leads its session */
	struct witness witness; /* with a command */
	unsigned interrupt_cnt; /* while the command ran */
	uint64_t requested_ns;	/* time of the first signal to end; 0: none */
	bool reported;
};

struct session {
	const struct session_opts *o; /* points to own */
	struct session_opts own;      /* copy of the options; thread ids of -p are replaced by
				       * processes */
	struct tracer t;
	enum probe probe;    /* not PROBE_AUTO */
	unsigned lib_cnt;    /* libraries reported */
	unsigned missed_cnt; /* of these, libraries that could not be traced */
	struct sink *sinks[SESSION_MAX_SINKS];
	unsigned sink_cnt;
	struct summary_file files[SESSION_MAX_SINKS]; /* of sinks, also when these are closed */
	unsigned file_cnt;			      /* closed ones */
	struct summary *summary;
	struct progress *progress;
	struct command cmd;
	struct waits *waits;	     /* --hang-after */
	struct unreached *unreached; /* NULL: probes see all processes of the command */
	char *nvtx;		     /* NVTX library that the command loads; NULL: none */
	struct guard guard;
	struct late late; /* --probe=inject -p: */
	bool is_late;
	uid_t late_uid;				   /* user of the processes */
	uint64_t lost_reported[SESSION_MAX_SINKS]; /* by output */
	struct command_user user;
	struct trace_end end;
	struct losses lost;
	struct trace_count counts[CT_MAX_FUNCS]; /* by function id, until the end */
	struct budget *budget;			 /* --max-overhead */
	struct capture_range capture;		 /* what is written */
	uint64_t outside_cnt;			 /* calls that are not */
	bool stopping;				 /* read only what exists already */
	bool hurry;				 /* second signal: skip slow steps */
	struct signals signals;
	uint64_t children_ns; /* end of the wait for the command's children; 0: it has not ended */
	uint64_t deadline_ns; /* --duration; 0: none */
	uint64_t view_ns;     /* time of the view's next call; 0: no view */
};

/* Traces with these options; returns the exit status. */
int session__run(const struct session_opts *o);

/* Ends the trace; reason goes into its end line. The first reason stays. */
void session__stop(struct session *s, const char *reason);
/* Hands an event to all outputs. */
void session__event(void *session, const struct trace_event *ev);

/* start.c */
/* Starts the trace, and releases the command. Returns 0, EXIT_USAGE, or -errno after reporting. */
int session__start(struct session *s);

/* outputs.c */
/* 0, or -errno after reporting. */
int session__open_outputs(struct session *s);
/* Returns whether the command's output would be mixed into an output. A terminal shows both
 * anyway. */
bool session__shares_stdout(const struct session *s);
/* Closes them with the end line. Returns whether every output is complete. */
bool session__close_outputs(struct session *s);

/* lost.c */
/* Reports in the trace what was lost since the last call. */
void session__report_lost(struct session *s, uint64_t now, bool at_end);
/* Returns why calls of the command may be missing without being counted; NULL: none are. The text
 * is static. */
const char *session__unseen(const struct session *s);
/* Warns when the command has made no traced call. */
void session__warn_no_call(const struct session *s);

/* ending.c */
bool session__wants_summary(const struct session_opts *o);
/* Prints the summary, or else one line. */
void session__summarize(struct session *s);

/* loop.c */
void session__loop(struct session *s);

/* signals.c */
/* Blocks signals; they are taken from now on. 0 or -errno. */
int session__open_signals(struct session *s);
void session__close_signals(struct session *s);
/* Passes received signals on to the command, and applies them to the trace. */
void session__take_signals(struct session *s);
/* Reports what the tracer waits for, some time after a signal. */
void session__report_signals(struct session *s, uint64_t now);
/* After the trace has ended: waits for the command, whose status we return. */
void session__await_command(struct session *s);

/* select.c */
/* -e, --count, --entry-only, --stack: 0, or EXIT_USAGE after reporting. */
int session__select(struct session *s);

/* counted.c */
/* --max-overhead; the cost of a call is measured already. 0 or -ENOMEM. */
int session__open_budget(struct session *s);
/* Takes the counts of a process that has ended. */
void session__count_exit(struct session *s, pid_t pid, uint64_t generation);
/* Takes all counts and the tracing overhead; totals are in s->end already. */
void session__count_end(struct session *s);

#endif /* TRACE_SESSION_H */
