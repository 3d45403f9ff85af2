/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* One run of cudatrace that traces: what its parts share. */
#ifndef CLI_SESSION_H
#define CLI_SESSION_H

#include "budget.h"
#include "command.h"
#include "facts.h"
#include "kmsg.h"
#include "opts.h"

#include "attach/attach.h"
#include "attach/guard.h"
#include "event/ring.h"
#include "model/model.h"
#include "sink/progress.h"
#include "sink/sink.h"
#include "sink/summary.h"

#define SESSION_MAX_SINKS 16

/* A library mapping that could not be looked at yet. */
struct pending_lib {
	struct ct_lib_map rec;
	unsigned tries;
};
#define SESSION_MAX_PENDING 64

/* A reason to end the trace. */
#define NO_OUTPUT "no output can be written"

struct session {
	const struct opts *o;
	struct fnset *fns;
	struct attach *att;
	struct ring *ring;
	struct model *model;
	struct sink *sinks[SESSION_MAX_SINKS];
	unsigned sink_cnt;
	struct summary *summary;
	struct progress *progress;
	struct command cmd;
	struct guard guard;
	uint64_t drops_told;		       /* in the trace, by events */
	uint64_t lost_told[SESSION_MAX_SINKS]; /* by output */
	struct command_user user;
	struct facts facts;
	struct nv_abi abi; /* --kernel: the driver's version */
	struct trace_info info;
	struct trace_end end;
	char traced[512], left_out[512], counted[512], no_return[512], stacks[512];
	struct attach_cost cost;
	struct trace_count counts[CT_MAX_FUNCS]; /* by function id, until the end */
	struct budget *budget;			 /* --max-overhead */
	struct trace_lib *info_libs;
	const char *degraded[32];
	struct pending_lib pending[SESSION_MAX_PENDING];
	unsigned pending_cnt;
	bool measuring; /* records are those of our own stub */
	bool stopping;	/* no more than what is in the ring */
	bool hurry;	/* a second signal: leave out what takes time */
	bool waiting_children;
	int signal_fd;
	int quit_fd;	      /* readable when a signal to end is waiting in signal_fd */
	int kmsg_fd;	      /* --kernel without a trace point for Xids; else -1 */
	uint64_t deadline_ns; /* --duration; 0: none */
};

uint64_t now_ns(void);

/* Ends the trace; reason goes into its end line. The first reason stays. */
void session__stop(struct session *s, const char *reason);
/* Hands an event to all outputs. */
void session__event(void *session, const struct event *ev);

/* lost.c */
/* Says in the trace what was lost since the last time. */
void session__tell_lost(struct session *s, uint64_t now, bool at_end);

/* libs.c: library files */
/* Attaches to what is there at the start. Negative when nothing can be traced. */
int session__attach_libs(struct session *s);
/* A process maps a libcuda (CT_REC_LIB). */
void session__on_lib(struct session *s, const struct ct_lib_map *rec);
/* Tries again where the mapping could not be looked at. */
void session__retry_libs(struct session *s);

/* loop.c */
void session__loop(struct session *s);
/* Takes everything out of the ring. */
void session__drain(struct session *s);

/* select.c */
/* -e, --count, --no-return, --stack: 0, or EXIT_USAGE after reporting. */
int session__select(struct session *s);
void session__describe_selection(struct session *s);

/* counted.c */
/* --max-overhead; the cost of a call is measured already. 0 or -ENOMEM. */
int session__open_budget(struct session *s);
/* A process has ended: takes its counts. */
void session__count_exit(struct session *s, pid_t pid);
/* All counts, and what tracing has cost; totals are in s->end already. */
void session__count_end(struct session *s);

#endif /* CLI_SESSION_H */
