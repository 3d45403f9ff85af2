/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Handles an event in the daemon: counts, lines, and triggers. */
#include "daemon_priv.h"

#include "model/event_table.h"

#include <string.h>

void daemon__set_always(struct daemon *d)
{
	for (unsigned id = 0; id < fnset__cnt(d->t.fns); id++) {
		bool always = dprocs__is_always(&d->procs, d->t.o.attach.redact,
						fnset__fn(d->t.fns, id)) ||
			      daemon__profile_needs(d, id);

		if (always != d->always[id] && !sources__set_always(&d->t.sources, id, always))
			d->always[id] = always;
	}
}

void daemon__forget_fn(void *ctx, unsigned func_id)
{
	struct daemon *d = ctx;

	d->always[func_id] = d->markers[func_id] = false;
	metrics__forget_fn(d->metrics, fnset__fn(d->t.fns, func_id));
}

static bool is_any_traced(const struct daemon *d)
{
	hash_each (p, &d->procs.by_pid)
		if (dproc_is_traced(p))
			return true;
	return false;
}

/* A process that is not traced sends some calls as records that get no line: calls of some
 * functions, and calls that began before its level was known. Its other calls began while it was
 * traced, and get a line. */
static bool wants_line(const struct daemon *d, const struct dproc *p, const struct trace_event *ev)
{
	/* Its process may have ended, and no other be traced. */
	bool is_dossier = ev->kind == EVENT_TRACER && !strcmp(ev->op, "dossier");
	int id;

	if (ev->kind == EVENT_XID || is_dossier || (ev->kind == EVENT_LIBRARY && !ev->pid))
		return true;
	if ((ev->kind == EVENT_GPU_STATS && !ev->pid) || ev->kind == EVENT_NETWORK ||
	    ev->kind == EVENT_GPU_METRICS || ev->kind == EVENT_TRACER)
		return is_any_traced(d);
	if (!p)
		return false;
	if (dproc_is_traced(p) || ev->kind != EVENT_CALL)
		return dproc_is_traced(p);
	if (ev->start_ns < p->known_ns || ev->sampled)
		return false;
	id = fnset__id_of(d->t.fns, ev->fn);
	return id >= 0 && !d->always[id];
}

/* true: the line was written or dropped. */
static bool file_line(struct daemon *d, const struct line *l, uint64_t now_ns, bool is_caller)
{
	bool written = false;

	if (is_caller)
		written = rotate__line(d->rotate, l->text, l->len, now_ns);
	else if (!rotate__try_line(d->rotate, l->text, l->len, now_ns, &written))
		return false;
	if (written)
		line__count(l, &d->file_end);
	return true;
}

bool daemon__file(void *ctx, const struct formatter_text *t, size_t *at, bool is_caller)
{
	struct daemon *d = ctx;
	size_t was = *at;
	struct line l;

	if (!*at && t->frame &&
	    rotate__try_frame(d->rotate, t->frame, t->frame_len, t->len, t->lines)) {
		line__count_all(t->sums, &d->file_end);
		return true;
	}
	for (; formatter_text__next(t, at, &l); was = *at) {
		bool taken = l.len ? file_line(d, &l, t->now_ns, is_caller) : is_caller;

		if (!taken) {
			*at = was;
			return false;
		}
		/* An empty line is a mark: a burst has ended. */
		if (!l.len)
			rotate__finish_file(d->rotate, t->now_ns);
	}
	return true;
}

void daemon__record(void *ctx, const struct formatter_text *t)
{
	struct recorder *r = ((struct daemon *)ctx)->recorder;
	struct line l;
	size_t at = 0;

	if (r && t->frame) {
		recorder__frame(r, t->frame, t->frame_len, t->lines, t->sums, t->now_ns);
		return;
	}
	while (r && formatter_text__next(t, &at, &l))
		if (l.len)
			recorder__line(r, &l, t->now_ns);
}

static bool is_wanted(const struct trigger *on, enum cause why, uint64_t amount)
{
	switch (why) {
	case CAUSE_ERROR:
		return on->error;
	case CAUSE_XID:
		return on->xid;
	case CAUSE_SYNC:
		return on->sync_above_ns && amount >= on->sync_above_ns;
	case CAUSE_MEMORY:
		return on->memory_above && amount >= on->memory_above;
	}
	return false;
}

static void burst(struct daemon *d, struct dproc *p, enum cause why, uint64_t amount)
{
	const struct config *c = d->cfg;

	if (p->level != LEVEL_SAMPLED || !is_wanted(&c->sample.on, why, amount))
		return;
	if (p->burst_caused_ns && d->now - p->burst_caused_ns < c->sample.cooldown_ns)
		return;
	p->burst_caused_ns = d->now;
	dprocs__burst(&d->procs, p, d->now, c->sample.trace_ns);
}

/* The dump waits, so that it contains the cause and its effects. */
static void want_dump(struct daemon *d, enum cause why, uint64_t amount)
{
	static const char *const names[] = {"error", "xid", "sync_above", "memory_above"};
	const struct config *c = d->cfg;

	if (!d->recorder || !is_wanted(&c->recorder.on, why, amount))
		return;
	if (d->dumped_ns && d->now - d->dumped_ns < c->sample.cooldown_ns)
		return;
	if (d->dump_why)
		return;
	d->dump_why = names[why];
	d->dump_ns = d->now + c->recorder.after_ns;
}

/* p is NULL for events without a process. Only traced processes have lines to dump. */
void daemon__caused(void *ctx, struct dproc *p, enum cause why, uint64_t amount)
{
	struct daemon *d = ctx;

	if (!p || dproc_is_traced(p))
		want_dump(d, why, amount);
	if (p && why == CAUSE_ERROR && amount)
		dossier__counted_error(d, p, (int32_t)amount);
	if (p) {
		burst(d, p, why, amount);
		return;
	}
	hash_each (p, &d->procs.by_pid)
		burst(d, p, why, amount);
}

static void on_memory(struct daemon *d, struct dproc *p, const struct mem_totals *now)
{
	uint64_t before = p->mem.bytes[MEM_DEVICE] + p->mem.bytes[MEM_MANAGED];
	uint64_t after = now->bytes[MEM_DEVICE] + now->bytes[MEM_MANAGED];

	dproc__set_memory(p, now);
	/* Only when the limit is crossed, not while memory stays above it. */
	if (after > before &&
	    (before < d->cfg->sample.on.memory_above || before < d->cfg->recorder.on.memory_above))
		daemon__caused(d, p, CAUSE_MEMORY, after);
}

static void on_call(struct daemon *d, struct dproc *p, const struct trace_event *ev)
{
	if (ev->has_mem)
		on_memory(d, p, &ev->mem);
	if (ev->is_error)
		daemon__caused(d, p, CAUSE_ERROR, 0);
	if (ev->type == TYPE_SYNC && event_returned(ev))
		daemon__caused(d, p, CAUSE_SYNC, event_duration_ns(ev));
}

/* Stacks are only in profiles: a file may lack the definition of a stack. */
static void write_line(struct daemon *d, const struct dproc *p, const struct trace_event *ev)
{
	struct trace_event bare;

	if (ev->kind == EVENT_STACK && d->profile)
		return;
	if (ev->stack && d->profile) {
		bare = *ev;
		bare.stack = NULL;
		ev = &bare;
	}
	formatter__event(d->formatter, ev, p ? p->suffix : NULL, d->now);
}

void daemon__event(void *ctx, const struct trace_event *ev)
{
	struct daemon *d = ctx;
	struct dproc *p = dprocs__of(&d->procs, ev);

	losses__event(&d->lost, ev);
	waits__event(d->waits, ev);
	/* The library has no level, and the level may have changed since. */
	if (ev->kind == EVENT_GPU && (!p || p->level == LEVEL_OFF)) {
		formatter__executed(d->formatter, ev);
		return;
	}
	metrics__event(d->metrics, p ? p->target : metrics__others(d->metrics), ev);
	if (p && d->profile)
		daemon__profile_event(d, p, ev);
	if (wants_line(d, p, ev)) {
		write_line(d, p, ev);
		if (ev->kind == EVENT_CALL)
			daemon__span(d, p, ev);
	} else if (ev->kind == EVENT_GPU) {
		formatter__executed(d->formatter, ev);
	}
	if (ev->kind == EVENT_XID)
		daemon__caused(d, NULL, CAUSE_XID, 0);
	dossier__event(d, p, ev);
	if (ev->kind == EVENT_PROCESS && !strcmp(ev->op, "exit") && (!p || p->pid != ev->pid))
		dprocs__take_unknown(&d->procs, ev->pid, ev->generation);
	if (ev->kind == EVENT_PROCESS && !strcmp(ev->op, "exit"))
		tracer__exited(&d->t, ev);
	if (!p)
		return;
	if (ev->kind == EVENT_CALL)
		on_call(d, p, ev);
	if (ev->kind != EVENT_PROCESS || p->pid != ev->pid)
		return;
	otlp_iters__forget(d->iters, p->pid);
	if (!strcmp(ev->op, "exec") || !strcmp(ev->op, "exit"))
		dossier__program_ended(d, p->pid);
	if (!strcmp(ev->op, "exec"))
		dprocs__exec(&d->procs, p, ev->generation);
	else if (!strcmp(ev->op, "exit"))
		dprocs__remove(&d->procs, p, ev->generation);
}

void daemon__use(void *ctx, uint32_t pid, const char comm[16])
{
	dprocs__get(&((struct daemon *)ctx)->procs, pid, comm);
}
