// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* What the daemon sends to a collector, and when. */
#include "daemon_priv.h"

#include <errno.h>
#include <event2/event.h>
#include <event2/util.h>
#include <time.h>

#include "otlp_json.h"
#include "version.h"

/* For the last requests, when it ends. */
#define PATIENCE_NS 1000000000ull

static const struct metrics *metrics_now(void *ctx, struct metrics_self *self)
{
	struct daemon *d = ctx;

	if (!d->stopping)
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
	return d->otlp ? 0 : -ENOMEM;
}

/* Clocks are set while we run. */
static uint64_t epoch_ns(void)
{
	struct timespec wall;

	clock_gettime(CLOCK_REALTIME, &wall);
	return wall.tv_sec * 1000000000ull + wall.tv_nsec - now_ns();
}

void daemon__span(struct daemon *d, const struct dproc *p, const struct event *ev)
{
	uint64_t slow = d->cfg->otlp.slow_call_ns;
	struct otlp_span s;

	if (!d->otlp || !slow || !event_returned(ev) || !ev->fn)
		return;
	if (!ev->is_error && event_duration_ns(ev) <= slow)
		return;
	s = otlp_span_of_call(ev, &p->labels, p->comm, epoch_ns());
	evutil_secure_rng_get_bytes(&s.ids, sizeof(s.ids));
	otlp__span(d->otlp, &s);
}

void daemon__finish_otlp(struct daemon *d)
{
	const struct timeval tick = {.tv_usec = 20000};
	uint64_t end = now_ns() + PATIENCE_NS;

	if (!d->otlp)
		return;
	otlp__finish(d->otlp);
	while (!otlp__is_done(d->otlp) && now_ns() < end) {
		event_base_loopexit(d->base, &tick);
		event_base_dispatch(d->base);
	}
}
