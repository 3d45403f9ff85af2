/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Hang detection: a collective that a rank of this machine does not reach, and what each rank does
 * meanwhile. */
#include "thread_stacks.h"
#include "tracer.h"

#include "attach/find/python.h"
#include "attach/find/target.h"
#include "decode/fnset.h"
#include "model/ranks.h"
#include "model/stacks.h"
#include "text/stack.h"
#include "util/clock.h"
#include "util/log.h"
#include "util/plural.h"
#include "util/reader.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define RANKS_LOOK_NS 1000000000ull

/* Number of threads of one rank that are named. */
#define THREADS_MAX 3
/* Frames, and length of a name, in messages; the stack's line has all of them. */
#define FRAMES_PRINTED 16
#define FRAME_NAME_MAX 80
#define UNTOLD	       "(callers unknown)"

/* Calls in flight of a process. A call that began just now is not the cause of the hang. */
struct calls_of {
	const struct tracer *t;
	uint32_t pid;
	uint64_t now;
	unsigned cnt;
	uint32_t tids[THREADS_MAX];
	char text[512]; /* fits THREADS_MAX calls and a state; names are CT_NAME_SZ_MAX at most */
	size_t len;
};

static void __attribute__((format(printf, 2, 3))) say(struct calls_of *c, const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(c->text + c->len, sizeof(c->text) - c->len, fmt, ap);
	va_end(ap);
	c->len += n;
	if (c->len >= sizeof(c->text))
		c->len = sizeof(c->text) - 1;
}

static void add_call(void *ctx, const struct seen_thread *seen)
{
	const struct api_fn *fn;
	struct calls_of *c = ctx;
	uint64_t ns;

	if (seen->pid != c->pid || !seen->depth || seen->frames->start_ns >= c->now)
		return;
	fn = fnset__fn(c->t->fns, seen->frames->func_id);
	ns = c->now - seen->frames->start_ns;
	if (!fn || ns < RANKS_LOOK_NS || c->cnt++ >= THREADS_MAX)
		return;
	c->tids[c->cnt - 1] = seen->tid;
	say(c, "%sthread %u is in %s for %.1f s", c->len ? ", " : "", seen->tid, fn->name,
	    ns / 1e9);
}

/* Adds the kernel function in which the main thread sleeps (proc(5), wchan: readable with
 * permission to trace the process), else its state. */
static void add_state(struct calls_of *c)
{
	int fd = reader__copy(c->pid, "wchan", 63);
	char asleep_in[64] = "";
	const char *what = "sleeps";
	ssize_t n = fd < 0 ? -1 : reader__take(fd, asleep_in, sizeof(asleep_in) - 1);

	asleep_in[n > 0 ? n : 0] = '\0';
	switch (target_state(c->pid)) {
	case 0:
		return;
	case 'R':
		what = "runs";
		break;
	case 'T':
	case 't':
		what = "is stopped";
		break;
	}
	if (!strcmp(what, "sleeps") && *asleep_in && strcmp(asleep_in, "0"))
		say(c, "; the main thread sleeps in %s", asleep_in);
	else
		say(c, "; the main thread %s", what);
}

static void report_hang(struct tracer *t, const char *why, const struct stack *stack,
			bool is_warning, const char *deadlock)
{
	struct trace_event ev = tracer_event("hang", "nccl", now_ns());

	ev.tracer.why = why;
	ev.tracer.deadlock = deadlock;
	ev.stack = stack;
	if (is_warning)
		warn("%s", why);
	else
		info("%s", why);
	t->o.fn(t->o.ctx, &ev);
}

/* "thread 7 waits in pause < wait_for_all < main" */
static void report_stack(struct tracer *t, uint64_t hash, const struct rank_who *who,
			 const struct thread_stack *s)
{
	const struct stack_source from = {
		.ips = s->at.ips,
		.cnt = s->at.cnt,
		.inside = s->at.inside,
		.python = s->python,
		.python_cnt = s->python_cnt,
	};
	const struct stack *stack = model__stack(t->model, who->pid, s->tid, &from, now_ns());
	char why[200 + FRAMES_PRINTED * (FRAME_NAME_MAX + 4)], name[256];
	size_t len;

	if (!stack)
		return;
	len = snprintf(why, sizeof(why), "rank %u of 0x%" PRIx64 " (process %u): thread %u %s in ",
		       who->rank, hash, who->pid, s->tid, s->runs ? "runs" : "waits");
	for (unsigned i = 0; i < stack->frame_cnt && i < FRAMES_PRINTED; i++) {
		/* Python's frames do not depend on the other frames, which may end too soon. */
		bool is_gap = i == s->at.cnt && !s->at.whole;

		len += snprintf(why + len, sizeof(why) - len, "%s%s%.*s", i ? " < " : "",
				is_gap ? UNTOLD " < " : "", FRAME_NAME_MAX,
				stack_frame_name(&stack->frames[i], name, sizeof(name)));
	}
	if (stack->frame_cnt > FRAMES_PRINTED)
		snprintf(why + len, sizeof(why) - len, " < %u more",
			 stack->frame_cnt - FRAMES_PRINTED);
	else if (!s->at.whole && !s->python_cnt)
		snprintf(why + len, sizeof(why) - len, " < " UNTOLD);
	report_hang(t, why, stack, true, NULL);
}

const struct ct_python *tracer__python_of(struct tracer *t, uint32_t pid)
{
	static struct python_location place;
	char ignored_err[128];
	struct work w;
	int ret;

	/* --python: calls need it, too. */
	tracer__find_python(t, (pid_t)pid);
	if (!t->att || reader__begin(&w, (pid_t)pid, WORK_SYMBOLS))
		return NULL;
	ret = python__find((pid_t)pid, &place, NULL, ignored_err, sizeof(ignored_err));
	time_budget__end(&w);
	if (ret)
		return NULL;
	model__set_python(t->model, pid, &place);
	return &place.layout.bpf;
}

/* Reports threads in long calls; else the thread of the last collective and the main thread. */
static void report_stacks(struct tracer *t, uint64_t hash, const struct rank_who *who,
			  const struct calls_of *c)
{
	struct thread_stack s[THREADS_MAX] = {0};
	unsigned cnt = 0;
	bool can_read;

	for (unsigned i = 0; i < c->cnt && i < THREADS_MAX; i++)
		s[cnt++].tid = c->tids[i];
	if (!cnt) {
		s[cnt++].tid = who->tid;
		if (who->tid != who->pid)
			s[cnt++].tid = who->pid;
	}
	can_read = thread_stacks__read(t->att, (pid_t)who->pid, tracer__python_of(t, who->pid), s,
				       cnt);
	if (!can_read && !t->warned_stacks && target_exists(who->pid)) {
		t->warned_stacks = true;
		warn("cannot read the stacks of waiting ranks: run cudatrace as their user, or "
		     "with CAP_SYS_PTRACE");
	}
	quotas__with_stacks(&t->quotas);
	for (unsigned i = 0; i < cnt; i++)
		if (s[i].at.cnt)
			report_stack(t, hash, who, &s[i]);
}

static void report_wait(void *ctx, const struct rank_wait *w)
{
	struct tracer *t = ctx;
	char why[768];

	rank_wait_text(w, why, sizeof(why));
	report_hang(t, why, NULL, !w->over, w->differs ? "collectives" : NULL);
	for (unsigned i = 0; i < w->who_cnt; i++) {
		struct calls_of c = {.t = t, .pid = w->who[i].pid, .now = now_ns()};

		sources__each_thread(&t->sources, add_call, &c);
		if (!c.cnt)
			say(&c, "not in a call of a second or more");
		else if (c.cnt > THREADS_MAX)
			say(&c, ", and %u more %s in such calls", c.cnt - THREADS_MAX,
			    noun(c.cnt - THREADS_MAX, "thread is", "threads are"));
		add_state(&c);
		snprintf(why, sizeof(why), "rank %u of 0x%" PRIx64 " (process %u): %s",
			 w->who[i].rank, w->hash, c.pid, c.text);
		report_hang(t, why, NULL, true, NULL);
		report_stacks(t, w->hash, &w->who[i], &c);
	}
}

/* A call that began just now may have returned meanwhile, and its record have been counted. */
static void look_at_calls(void *ctx, const struct seen_thread *seen)
{
	struct tracer *t = ctx;

	for (const struct ct_frame *f = seen->frames; f < seen->frames + seen->depth; f++)
		if (f->api == API_NCCL && !f->api_depth &&
		    f->start_ns + RANKS_LOOK_NS < t->ranks_looked_ns)
			model__in_flight(t->model, seen->pid, seen->tid, f->func_id, f->words,
					 f->start_ns);
}

void tracer__look_at_ranks(struct tracer *t, uint64_t now)
{
	/* A collective that waits in its call has no record yet. */
	if (model__wants_in_flight(t->model) && now - t->ranks_looked_ns >= RANKS_LOOK_NS) {
		t->ranks_looked_ns = now;
		sources__each_thread(&t->sources, look_at_calls, t);
	}
	model__look_at_ranks(t->model, now, report_wait, t);
}
