/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Sends the daemon's spans, events and metrics to a collector. */
#include "daemon_priv.h"

#include <errno.h>
#include <event2/event.h>
#include <event2/util.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "otlp/message.h"
#include "util/clock.h"
#include "util/log.h"
#include "version.h"

/* Timeout of the last requests at the end. */
#define TIMEOUT_NS 1000000000ull
/* A larger difference means that the clock was set. */
#define EPOCH_STEP_NS 1000000

static const struct metrics *metrics_now(void *ctx, struct metrics_self *self)
{
	struct daemon *d = ctx;

	daemon__read_counts(d);
	daemon__fill_self(d, self);
	return d->metrics;
}

int daemon__open_otlp(struct daemon *d)
{
	const struct config *c = d->cfg;
	const struct otlp_opts oo = {
		.version = CUDATRACE_VERSION,
		.headers_file = c->otlp.headers_file,
		.gzip = c->otlp.gzip,
		.queue = c->otlp.queue,
		.metrics = metrics_now,
		.ctx = d,
		.interval_ns = c->otlp.interval_ns,
	};

	if (!*c->otlp.endpoint)
		return 0;
	d->otlp = otlp__new(d->base, c->otlp.endpoint, &oo);
	d->iters = otlp_iters__new(&d->t.quotas.of[QUOTA_ITERATIONS]);
	daemon__set_markers(d);
	return d->otlp && d->iters ? 0 : -ENOMEM;
}

/* Two readings differ a little, and adjacent spans must stay adjacent. */
int64_t daemon__epoch(struct daemon *d)
{
	int64_t off = epoch_ns();

	if (llabs(off - d->epoch_ns) > EPOCH_STEP_NS)
		d->epoch_ns = off;
	return d->epoch_ns;
}

static bool is_marker(const struct daemon *d, const struct trace_event *ev)
{
	int id = fnset__id_of(d->t.fns, ev->fn);

	return id >= 0 && d->markers[id];
}

void daemon__set_markers(struct daemon *d)
{
	const char *glob = d->cfg->otlp.iterations;
	bool any = !*glob;

	for (unsigned id = 0; id < fnset__cnt(d->t.fns); id++) {
		d->markers[id] = *glob && !fnmatch(glob, fnset__fn(d->t.fns, id)->symbol, 0);
		any |= d->markers[id];
	}
	if (!any)
		warn("otlp.iterations: there is no function '%s'; cudatrace list prints all of "
		     "them",
		     glob);
}

static void call_span(struct daemon *d, const struct dproc *p, const struct trace_event *ev,
		      const struct otlp_ids *in, uint64_t epoch)
{
	struct otlp_span s = otlp_span_of_call(ev, &p->labels, p->comm, epoch);

	s.redacted = d->t.info.redacted;
	evutil_secure_rng_get_bytes(&s.ids, sizeof(s.ids));
	if (in) {
		memcpy(s.ids.trace, in->trace, sizeof(in->trace));
		s.parent = in->span;
	}
	otlp__span(d->otlp, &s);
}

void daemon__span(struct daemon *d, const struct dproc *p, const struct trace_event *ev)
{
	uint64_t slow = d->cfg->otlp.slow_call_ns;
	const struct otlp_ids *in = NULL;
	struct otlp_span s;

	if (!d->otlp || !event_returned(ev) || !ev->fn)
		return;
	if (*d->cfg->otlp.iterations && dproc_is_traced(p))
		in = otlp_iters__call(d->iters, ev, p->changes);
	if (slow && (ev->is_error || event_duration_ns(ev) > slow))
		call_span(d, p, ev, in, daemon__epoch(d));
	if (!dproc_is_traced(p) || !is_marker(d, ev))
		return;
	s = (struct otlp_span){
		.labels = &p->labels, .command = p->comm, .redacted = d->t.info.redacted};
	if (otlp_iters__mark(d->iters, ev, p->changes, &s, daemon__epoch(d)))
		otlp__span(d->otlp, &s);
}

void daemon__dossier_event(struct daemon *d, const struct dossier *x, const char *verdict)
{
	static const struct labels none;
	const struct dproc *p = dprocs__find(&d->procs, x->pid);
	const struct otlp_dossier event = {
		.labels = p ? &p->labels : &none,
		.command = x->comm,
		.redacted = d->t.info.redacted,
		.pid = x->pid,
		.time_ns = (uint64_t)((int64_t)now_ns() + daemon__epoch(d)),
		.is_failure = x->reason != DOSSIER_REQUEST,
		.reason = dossier_reason_name[x->reason],
		.folder = x->name,
		.cause = x->text,
		.verdict = verdict,
	};

	if (d->otlp)
		otlp__dossier(d->otlp, &event);
}

void daemon__finish_otlp(struct daemon *d)
{
	const struct timeval tick = {.tv_usec = 20000};
	uint64_t end = now_ns() + TIMEOUT_NS;

	if (!d->otlp)
		return;
	otlp__finish(d->otlp);
	while (!otlp__is_done(d->otlp) && now_ns() < end) {
		event_base_loopexit(d->base, &tick);
		event_base_dispatch(d->base);
	}
}
