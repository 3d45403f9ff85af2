/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* One run of cudatrace that traces: what its parts share. */
#ifndef TRACE_SESSION_H
#define TRACE_SESSION_H

#include "budget.h"
#include "command.h"
#include "session_opts.h"
#include "witness.h"

#include "attach/guard.h"
#include "model/losses.h"
#include "sink/summary/progress.h"
#include "sink/sink.h"
#include "sink/summary/summary.h"
#include "tracer.h"

#include <signal.h>

#define SESSION_MAX_SINKS 16

/* A reason to end the trace. */
#define NO_OUTPUT "no output can be written"
#define ENOUGH	  "enough was seen"

struct signals {
	int fd;			/* readable when one of them has come, SIGCHLD too */
	int quit_fd;		/* readable when a signal to end waits there */
	sigset_t taken;		/* what fd is for */
	bool is_leader;		/* of its session */
	struct witness witness; /* with a command */
	unsigned interrupt_cnt; /* while the command ran */
	uint64_t asked_ns;	/* when the first signal to end came; 0: none has */
	bool told;
};

struct session {
	const struct session_opts *o; /* own */
	struct session_opts own;      /* as asked, but -p names processes and no threads */
	struct tracer t;
	enum probe probe;    /* not PROBE_AUTO */
	unsigned lib_cnt;    /* libraries that were heard of */
	unsigned missed_cnt; /* of these, those that could not be traced */
	struct sink *sinks[SESSION_MAX_SINKS];
	unsigned sink_cnt;
	struct summary *summary;
	struct progress *progress;
	struct command cmd;
	char *nvtx; /* the library that it is to load; NULL: none */
	struct guard guard;
	uint64_t lost_told[SESSION_MAX_SINKS]; /* by output */
	struct command_user user;
	struct trace_end end;
	struct losses lost;
	struct trace_count counts[CT_MAX_FUNCS]; /* by function id, until the end */
	struct budget *budget;			 /* --max-overhead */
	bool stopping;				 /* no more than what is there by now */
	bool hurry;				 /* a second signal: leave out what takes time */
	struct signals signals;
	uint64_t children_ns; /* until when the command's children are waited for; 0: it has not
				 ended */
	uint64_t deadline_ns; /* --duration; 0: none */
	uint64_t view_ns;     /* when the view is to be called next; 0: there is none */
};

/* Traces as asked; returns the exit status. */
int session__run(const struct session_opts *o);

/* Ends the trace; reason goes into its end line. The first reason stays. */
void session__stop(struct session *s, const char *reason);
/* Hands an event to all outputs. */
void session__event(void *session, const struct trace_event *ev);

/* lost.c */
/* Says in the trace what was lost since the last time. */
void session__tell_lost(struct session *s, uint64_t now, bool at_end);
/* Why calls of the command may be missing that nobody counted; NULL: there are none. Static. */
const char *session__unseen(const struct session *s);
/* Says so, when the command has made no call that is known. */
void session__say_no_call(const struct session *s);

/* loop.c */
void session__loop(struct session *s);

/* signals.c */
/* Blocks signals; they are taken from now on. 0 or -errno. */
int session__open_signals(struct session *s);
void session__close_signals(struct session *s);
/* Passes on to the command what has come, and does what it means for the trace. */
void session__take_signals(struct session *s);
/* Says what the tracer waits for, a while after a signal. */
void session__tell_signals(struct session *s, uint64_t now);
/* The trace has ended: waits for the command, whose status is ours to pass on. */
void session__await_command(struct session *s);

/* select.c */
/* -e, --count, --entry-only, --stack: 0, or EXIT_USAGE after reporting. */
int session__select(struct session *s);

/* counted.c */
/* --max-overhead; the cost of a call is measured already. 0 or -ENOMEM. */
int session__open_budget(struct session *s);
/* A process has ended: takes its counts. */
void session__count_exit(struct session *s, pid_t pid, uint64_t generation);
/* All counts, and what tracing has cost; totals are in s->end already. */
void session__count_end(struct session *s);

#endif /* TRACE_SESSION_H */
