/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "waits.h"

#include "thread_stacks.h"

#include "decode/fnset.h"
#include "model/call.h"
#include "model/stacks.h"
#include "sink/wait_watch.h"
#include "util/clock.h"
#include "util/hash_table.h"
#include "util/log.h"
#include "util/reader.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOOK_MIN_NS 50000000ull
#define LOOK_MAX_NS 5000000000ull
/* Waits at the same time that are reported. */
#define WAITS_MAX 1024
/* Number of warnings; the trace has the others, too. */
#define WARNINGS_MAX 64
/* The record of a call that has returned may come after it is no longer in flight. */
#define ABSENT_LOOKS 2
#define NAME_SZ	     128
/* Many threads that wait in the same function of a process need few stacks. */
#define STACKS_OF_CALL_MAX 4
/* A report waits this long for time of its user (util/time_budget.h), then it has no stack. */
#define POSTPONED_MAX_NS (30 * SEC_NS)
/* Reports of one look, and the time that it may take apart from reading stacks, which has limits of
 * its own. The next look continues with the thread at which the time was used up. */
#define REPORTS_MAX 128
#define LOOK_NS	    10000000ull
/* Users of processes that one look remembers, by process id. */
#define USERS_MAX 64

enum stack_state { STACK_WAITS /* not reported yet */, STACK_READ, STACK_SAME, STACK_REFUSED };

struct wait {
	struct hash_link link;
	uint64_t thread; /* process << 32 | thread */
	uint64_t start_ns;
	uint64_t end_ns; /* when it was last in flight */
	uint64_t seen_ns;
	uid_t uid;
	enum stack_state state;
	unsigned absent;
	char function[NAME_SZ];
};
HASH_TABLE(wait, thread);

struct waits {
	struct waits_opts o;
	struct wait_watch *watch;
	struct wait_table by_thread;
	uint64_t looked_ns;
	uint64_t reported_cnt;
	unsigned look_cnt; /* reports of this look */
	bool is_postponed; /* a report is */
	uint64_t used_ns;  /* time of this look */
	unsigned at;	   /* long calls of this look so far */
	unsigned from;	   /* the first of them that it works for */
	bool is_late;	   /* its time is used up */
	bool warned;	   /* that waits are left out */
	struct user {
		uint32_t pid;
		uid_t uid;
		bool is_full; /* the user has no place for another wait */
	} users[USERS_MAX];
};

struct waits *waits__new(const struct waits_opts *o)
{
	struct waits *w = calloc(1, sizeof(*w));

	if (!w)
		return NULL;
	w->o = *o;
	w->watch = o->only_calls ? wait_watch__new_of_gpu()
				 : wait_watch__new(&o->tracer->info, o->filtered);
	if (w->watch)
		return w;
	free(w);
	return NULL;
}

void waits__free(struct waits *w)
{
	if (!w)
		return;
	wait_table__free(&w->by_thread);
	wait_watch__free(w->watch);
	free(w);
}

static uint64_t interval_ns(const struct waits *w)
{
	uint64_t ns = w->is_postponed ? LOOK_MIN_NS : w->o.after_ns / 4;

	return ns < LOOK_MIN_NS ? LOOK_MIN_NS : ns > LOOK_MAX_NS ? LOOK_MAX_NS : ns;
}

uint64_t waits__next_ns(const struct waits *w)
{
	return w ? w->looked_ns + interval_ns(w) : 0;
}

uint64_t waits__reported(const struct waits *w)
{
	return w ? w->reported_cnt : 0;
}

unsigned waits__lasting(const struct waits *w)
{
	return w ? hash_cnt(&w->by_thread) : 0;
}

static uint64_t thread_of(uint32_t pid, uint32_t tid)
{
	return (uint64_t)pid << 32 | tid;
}

static struct trace_event event_of_wait(const struct wait *x, uint64_t waited_ns)
{
	struct trace_event ev = tracer_event("hang", "wait", now_ns());

	ev.tracer.process = (uint32_t)(x->thread >> 32);
	ev.tracer.thread = (uint32_t)x->thread;
	ev.tracer.function = x->function;
	ev.tracer.waited_ns = waited_ns;
	return ev;
}

static void end(struct waits *w, struct wait *x, uint64_t end_ns, bool unfinished)
{
	uint64_t waited_ns = end_ns > x->start_ns ? end_ns - x->start_ns : 0;
	struct trace_event ev = event_of_wait(x, waited_ns);
	char why[NAME_SZ + 128];

	snprintf(why, sizeof(why), "process %u, thread %u: %s %sreturned after %.1f s%s",
		 ev.tracer.process, ev.tracer.thread, x->function, unfinished ? "had not " : "",
		 waited_ns / 1e9, unfinished ? ", when its thread or the trace ended" : "");
	ev.tracer.why = why;
	ev.tracer.over = true;
	info("%s", why);
	wait_table__del(&w->by_thread, x);
	w->o.fn(w->o.ctx, &ev);
	free(x);
}

static void on_call(struct waits *w, const struct trace_event *ev)
{
	const uint64_t thread = thread_of(ev->pid, ev->tid);
	struct wait *x = wait_table__find(&w->by_thread, &thread);

	if (x && x->start_ns == ev->start_ns)
		end(w, x, ev->end_ns, !event_returned(ev));
}

void waits__event(struct waits *w, const struct trace_event *ev)
{
	if (!w)
		return;
	wait_watch__event(w->watch, ev);
	if (ev->kind == EVENT_CALL && w->by_thread.first)
		on_call(w, ev);
}

/* The address at which the function of a frame begins; 0: unknown. */
static uint64_t begin_of(const struct stack_frame *f)
{
	const char *plus = f->symbol ? strrchr(f->symbol, '+') : NULL;
	uint64_t offset;

	return plus && sscanf(plus, "+0x%" SCNx64, &offset) == 1 ? f->ip - offset : 0;
}

/* Returns whether the thread runs this function. */
static bool runs_function(const struct stack *stack, uint64_t fn)
{
	for (unsigned i = 0; stack && i < stack->frame_cnt; i++)
		if (!stack->frames[i].python && begin_of(&stack->frames[i]) == fn)
			return true;
	return false;
}

/* The stack of a thread in a call; NULL: it could not be read. */
static const struct stack *stack_of(struct tracer *t, const struct seen_thread *seen,
				    const struct ct_frame *f)
{
	static struct thread_stack s;
	pid_t pid = (pid_t)seen->pid;
	struct stack_source from;

	s = (struct thread_stack){.tid = seen->tid};
	/* In-process, the callers of a function that needs a frame pointer are not known. */
	if ((!thread_stacks__callers(t->att, pid, seen->tid, f->sp, &s.at) || s.at.cnt < 2) &&
	    (!thread_stacks__read(t->att, pid, NULL, &s, 1) || !s.at.cnt))
		return NULL;
	quotas__with_stacks(&t->quotas);
	from = (struct stack_source){.ips = s.at.ips, .cnt = s.at.cnt, .inside = s.at.inside};
	return model__stack(t->model, seen->pid, seen->tid, &from, now_ns());
}

/* Looks for a call to CUDA that a host function makes. */
struct host_call {
	struct tracer *t;
	uint32_t pid, tid;
	uid_t uid;
	uint64_t host_fn;
	const struct api_fn *fn; /* NULL: none */
	const struct stack *stack;
};

static void look_for_host_call(void *ctx, const struct seen_thread *seen)
{
	struct host_call *h = ctx;
	const struct ct_frame *f = seen->frames;

	if (seen->pid != h->pid || !seen->depth || h->fn || !time_budget__may_half(h->uid))
		return;
	h->stack = stack_of(h->t, seen, f);
	if (!runs_function(h->stack, h->host_fn))
		return;
	h->fn = fnset__fn(h->t->fns, f->func_id);
	h->tid = seen->tid;
}

/* A host function that calls CUDA may wait for its own stream. */
static void explain_host_function(struct waits *w, const struct failure_wait *r, uid_t uid,
				  struct trace_event *ev, char *why, size_t size)
{
	struct host_call h = {
		.t = w->o.tracer,
		.pid = ev->tracer.process,
		.uid = uid,
		.host_fn = r->host_fn,
	};

	sources__each_thread(&h.t->sources, look_for_host_call, &h);
	if (!h.fn)
		return;
	ev->tracer.deadlock = "host-function";
	ev->stack = h.stack;
	snprintf(why, size,
		 "%s has not returned for %.1f s. The host function of %s that it waits for calls "
		 "%s in thread %u, which CUDA forbids: the two may wait for each other",
		 ev->tracer.function, ev->tracer.waited_ns / 1e9, r->work, h.fn->name, h.tid);
}

static const char *const stack_texts[] = {
	[STACK_READ] = "",
	[STACK_SAME] = " (like other threads of the process, whose stacks were read)",
	[STACK_REFUSED] = " (stack not read: the time for its user is used up)",
};

static void explain(struct waits *w, const struct wait *x, const struct trace_event *call,
		    const struct seen_thread *seen, const struct ct_frame *f)
{
	struct trace_event ev = event_of_wait(x, event_duration_ns(call));
	struct failure_wait r = {0};
	char text[sizeof(r.verdict) + sizeof(r.advice) + 2], why[sizeof(text) + 256];

	wait_watch__explain(w->watch, call, &r);
	snprintf(text, sizeof(text), "%s%s%s", r.verdict, *r.advice ? ": " : "", r.advice);
	if (r.host_fn && x->state == STACK_READ)
		explain_host_function(w, &r, x->uid, &ev, text, sizeof(text));
	else if (r.unrecorded_event)
		ev.tracer.deadlock = "event";
	if (!ev.stack && x->state == STACK_READ)
		ev.stack = stack_of(w->o.tracer, seen, f);
	ev.tracer.work = *r.work ? r.work : NULL;
	ev.tracer.work_id = r.work_id;
	ev.tracer.stream = r.stream;
	ev.tracer.launched_by = *r.place ? r.place : NULL;
	ev.tracer.behind = r.behind;
	ev.tracer.certain = r.certain;
	snprintf(why, sizeof(why), "process %u (%s), thread %u: %s%s", ev.tracer.process,
		 call->comm, ev.tracer.thread, text, stack_texts[x->state]);
	ev.tracer.why = why;
	if (w->reported_cnt++ < WARNINGS_MAX)
		warn("%s%s", why,
		     w->reported_cnt < WARNINGS_MAX ? "" : "; further waits are only in the trace");
	w->o.fn(w->o.ctx, &ev);
}

static enum stack_state state_of(const struct waits *w, const struct wait *x, uint64_t now)
{
	unsigned cnt = 0;

	hash_each (other, &w->by_thread)
		cnt += other->thread >> 32 == x->thread >> 32 && other->state == STACK_READ &&
		       !strcmp(other->function, x->function);
	if (cnt < STACKS_OF_CALL_MAX && time_budget__may_half(x->uid))
		return STACK_READ;
	if (cnt)
		return STACK_SAME;
	if (now < x->seen_ns + POSTPONED_MAX_NS)
		return STACK_WAITS;
	time_budget__refuse(WORK_SYMBOLS);
	return STACK_REFUSED;
}

/* Reports the wait, or postpones it. */
static void report(struct waits *w, struct wait *x, const struct trace_event *call,
		   const struct seen_thread *seen, const struct ct_frame *f)
{
	x->state = state_of(w, x, w->looked_ns);
	w->is_postponed |= x->state == STACK_WAITS;
	if (x->state == STACK_WAITS)
		return;
	w->look_cnt++;
	explain(w, x, call, seen, f);
}

/* Returns whether this look may work for the call. */
static bool has_turn(struct waits *w)
{
	if (w->is_late || w->at <= w->from)
		return false;
	if (w->look_cnt < REPORTS_MAX && w->used_ns < LOOK_NS)
		return true;
	w->is_late = true;
	w->from = w->at - 1;
	return false;
}

static struct user *user_of(struct waits *w, uint32_t pid)
{
	struct user *u = &w->users[pid % USERS_MAX];

	if (u->pid != pid)
		*u = (struct user){.pid = pid, .uid = reader__user((pid_t)pid)};
	return u;
}

static bool has_place(const struct waits *w, struct user *u)
{
	unsigned cnt = 0;

	if (hash_cnt(&w->by_thread) >= WAITS_MAX)
		return false;
	if (!w->o.of_users || hash_cnt(&w->by_thread) < WAITS_MAX / 2)
		return true;
	hash_each (x, &w->by_thread)
		cnt += x->uid == u->uid;
	u->is_full = cnt >= WAITS_MAX / 2;
	return !u->is_full;
}

struct look {
	struct waits *w;
	uint64_t now;
};

bool wait_in_flight(struct model *m, const struct seen_thread *seen, const struct ct_frame *f,
		    uint64_t now, struct trace_event *ev)
{
	const struct ct_call call = {
		.rec = {.pid = seen->pid,
			.tid = seen->tid,
			.ts_ns = f->start_ns,
			.flags = CT_CALL_F_UNFINISHED},
		.end_ns = now,
		.func_id = f->func_id,
		.lib_id = CT_LIB_ID(f->lib_id),
		.depth = f->depth,
		.api_depth = f->api_depth,
	};

	if (!model__wait(m, &call, f->words, ev))
		return false;
	ev->id = f->call_id;
	return true;
}

/* Returns a new wait, which is not reported yet; NULL: none. */
static struct wait *begin(struct waits *w, uint64_t now, const struct seen_thread *seen,
			  const struct ct_frame *f, struct trace_event *ev)
{
	const uint64_t thread = thread_of(seen->pid, seen->tid);
	struct user *u = user_of(w, seen->pid);
	struct wait *x;

	if (u->is_full || !wait_in_flight(w->o.tracer->model, seen, f, now, ev))
		return NULL;
	if (!has_place(w, u)) {
		if (!w->warned)
			warn("process %u: too many calls wait at the same time (limit %u%s): further waits "
			     "are not reported until others have ended; this line appears once",
			     seen->pid, WAITS_MAX, w->o.of_users ? ", half of it per user" : "");
		w->warned = true;
		return NULL;
	}
	x = wait_table__new(&w->by_thread, &thread);
	if (!x)
		return NULL;
	x->start_ns = f->start_ns;
	x->seen_ns = x->end_ns = now;
	x->uid = u->uid;
	snprintf(x->function, sizeof(x->function), "%s", ev->fn->name);
	return x;
}

static void look_at_call(struct waits *w, uint64_t now, const struct seen_thread *seen,
			 const struct ct_frame *f)
{
	const uint64_t thread = thread_of(seen->pid, seen->tid);
	struct wait *x = wait_table__find(&w->by_thread, &thread);
	static struct trace_event ev;
	uint64_t begin_ns;

	w->at++;
	if (x && x->start_ns != f->start_ns)
		return;
	if (x) {
		x->absent = 0;
		x->end_ns = now;
	}
	if ((x && x->state != STACK_WAITS) || !has_turn(w))
		return;
	begin_ns = now_ns();
	if (!x)
		x = begin(w, now, seen, f, &ev);
	else if (!wait_in_flight(w->o.tracer->model, seen, f, now, &ev))
		return;
	if (x)
		report(w, x, &ev, seen, f);
	if (!x || x->state != STACK_READ)
		w->used_ns += now_ns() - begin_ns;
}

static void look_at_thread(void *ctx, const struct seen_thread *seen)
{
	const struct look *l = ctx;

	for (const struct ct_frame *f = seen->frames; f < seen->frames + seen->depth; f++)
		if (f->api == API_CUDA && !f->api_depth && f->start_ns + l->w->o.after_ns < l->now)
			look_at_call(l->w, l->now, seen, f);
}

void waits__look(struct waits *w, uint64_t now)
{
	uint64_t begin_ns;

	if (!w || now < waits__next_ns(w))
		return;
	w->looked_ns = now;
	w->look_cnt = 0;
	w->is_postponed = false;
	w->used_ns = 0;
	w->at = 0;
	w->is_late = false;
	memset(w->users, 0, sizeof(w->users));
	hash_each (x, &w->by_thread)
		x->absent++;
	sources__each_thread(&w->o.tracer->sources, look_at_thread, &(struct look){w, now});
	/* The next look begins with those before from. */
	w->is_postponed |= w->is_late || w->from;
	if (!w->is_late)
		w->from = 0;
	begin_ns = now_ns();
	/* A call that is only counted has no record. */
	hash_each (x, &w->by_thread)
		if (x->absent > ABSENT_LOOKS && now_ns() < begin_ns + LOOK_NS)
			end(w, x, x->end_ns, false);
}
