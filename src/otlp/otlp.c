/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A channel for each kind of data, with its own connection and at most one request. A failed
 * request keeps its body: if the collector did accept it, it gets the same ids again.
 */
#include "otlp.h"

#include <event2/dns.h>
#include <event2/event.h>
#include <event2/http.h>
#include <event2/util.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "http.h"
#include "message.h"
#include "queue.h"
#include "util/clock.h"
#include "util/log.h"
#include "util/out.h"
#include "util/plural.h"

/* Spans of a request, and how long the first span waits for more. */
#define BATCH	 512
#define BATCH_NS (5 * SEC_NS)
/* Delay after a failure; doubles with each. */
#define RETRY_NS     SEC_NS
#define RETRY_MAX_NS (60 * SEC_NS)
/* Minimum time between log lines about dropped spans. */
#define WARN_INTERVAL_NS (60 * SEC_NS)

struct channel {
	struct otlp *o;
	const char *what;
	struct otlp_http *http;
	struct out *body;  /* NULL: nothing to send */
	uint64_t cnt;	   /* spans or data points in it */
	bool busy;	   /* a request is in progress */
	unsigned failures; /* consecutive failures */
	void *retry_ev;
};

struct otlp {
	struct otlp_opts opts;
	struct event_base *base;
	struct evdns_base *dns;
	char *endpoint;
	char host[256]; /* of this node */
	struct channel spans, events, metrics, profiles;
	struct otlp_queue queue;
	struct out *waiting[OTLP_EVENTS_MAX]; /* requests of events, oldest first */
	unsigned waiting_cnt;
	void *batch_ev, *interval_ev;
	bool finishing, last_metrics; /* last_metrics: not sent yet */
	uint64_t warned_ns, warned_dropped;
	struct otlp_stats stats;
};

static void arm(void *ev, uint64_t ns)
{
	const struct timeval tv = {.tv_sec = ns / SEC_NS, .tv_usec = ns % SEC_NS / 1000};

	event_add(ev, &tv);
}

static void done(struct channel *c)
{
	if (c->body)
		out__close(c->body);
	c->body = NULL;
	c->cnt = 0;
}

/* Reports spans dropped since the last line, not each of them. */
static void report_dropped(struct otlp *o)
{
	uint64_t now = now_ns();

	if (o->stats.dropped == o->warned_dropped ||
	    (o->warned_ns && now - o->warned_ns < WARN_INTERVAL_NS))
		return;
	warn("%llu %s dropped: the collector at %s is unreachable, slow, or rejects spans",
	     (unsigned long long)(o->stats.dropped - o->warned_dropped),
	     noun(o->stats.dropped - o->warned_dropped, "span was", "spans were"), o->endpoint);
	o->warned_ns = now;
	o->warned_dropped = o->stats.dropped;
}

/* At least the delay that the collector requested, and randomised so that nodes do not retry all at
 * once. */
static uint64_t delay_ns(const struct channel *c, uint64_t retry_after_ns)
{
	unsigned shift = c->failures > 6 ? 6 : c->failures - 1;
	uint64_t ns = RETRY_NS << shift, jitter;

	if (ns > RETRY_MAX_NS)
		ns = RETRY_MAX_NS;
	evutil_secure_rng_get_bytes(&jitter, sizeof(jitter));
	jitter %= ns / 2;
	return retry_after_ns > ns / 2 ? retry_after_ns + jitter : ns / 2 + jitter;
}

static void failed(struct channel *c, const struct otlp_answer *a)
{
	struct otlp *o = c->o;

	o->stats.failed++;
	if (!c->failures++)
		warn("the collector at %s does not accept %s: %s%s", o->endpoint, c->what, a->why,
		     a->retry ? "; retrying" : "");
	if (a->retry && !o->finishing) {
		arm(c->retry_ev, delay_ns(c, a->retry_after_ns));
		return;
	}
	if (c != &o->metrics)
		o->stats.dropped += c->cnt;
	done(c);
}

static void fill_spans(struct otlp *o);
static void send_event(struct otlp *o);
static void send_metrics(struct otlp *o);

static void on_answer(void *ctx, const struct otlp_answer *a)
{
	struct channel *c = ctx;
	struct otlp *o = c->o;
	uint64_t refused = a->rejected < c->cnt ? a->rejected : c->cnt;

	c->busy = false;
	if (!a->ok) {
		failed(c, a);
	} else {
		if (c->failures)
			info("the collector at %s accepts %s again", o->endpoint, c->what);
		c->failures = 0;
		o->stats.sent += c->cnt - refused;
		if (c == &o->spans || c == &o->events)
			o->stats.dropped += refused;
		done(c);
	}
	/* Rejected spans are dropped; the rest is sent when its retry is due. */
	if (c == &o->spans && !c->body && (!c->failures || !a->retry))
		fill_spans(o);
	if (c == &o->events && (!c->failures || !a->retry))
		send_event(o);
	if (c == &o->metrics && o->last_metrics && a->ok)
		send_metrics(o);
}

static void send_body(struct channel *c)
{
	c->busy = true;
	if (!otlp_http__post(c->http, c->body->buf, c->body->len, on_answer, c)) {
		const struct otlp_answer a = {.retry = true, .why = "out of memory"};

		c->busy = false;
		failed(c, &a);
	}
}

static void on_retry(evutil_socket_t fd, short what, void *ctx)
{
	struct channel *c = ctx;

	if (c->body && !c->busy)
		send_body(c);
}

/* Spans */

/* Puts the spans of one process together. */
static void put_group(struct out *body, struct otlp_item **items, unsigned from, unsigned cnt)
{
	const struct otlp_item *head = items[from];

	otlp_comma(body);
	out_bytes(body, head->text, head->head_len);
	for (unsigned i = from; i < cnt; i++) {
		struct otlp_item *it = items[i];

		if (it->done || it->head_len != head->head_len ||
		    memcmp(it->text, head->text, head->head_len))
			continue;
		otlp_comma(body);
		out_bytes(body, it->text + it->head_len, it->len - it->head_len);
		it->done = true;
	}
	out_lit(body, "]}]}");
}

static void fill_spans(struct otlp *o)
{
	unsigned cnt = o->queue.cnt < BATCH ? o->queue.cnt : BATCH;
	struct channel *c = &o->spans;
	struct otlp_item *items[BATCH];

	if (c->busy || c->body || !cnt)
		return;
	c->body = out__memory();
	if (!c->body)
		return;
	out_lit(c->body, "{\"resourceSpans\":[");
	for (unsigned i = 0; i < cnt; i++)
		items[i] = otlp_queue__pop(&o->queue);
	for (unsigned i = 0; i < cnt; i++) {
		if (!items[i]->done)
			put_group(c->body, items, i, cnt);
	}
	for (unsigned i = 0; i < cnt; i++)
		free(items[i]);
	out_lit(c->body, "]}");
	c->cnt = cnt;
	send_body(c);
}

static void on_batch(evutil_socket_t fd, short what, void *ctx)
{
	fill_spans(ctx);
}

void otlp__span(struct otlp *o, const struct otlp_span *s)
{
	struct out *text = out__memory();
	struct otlp_queue *q = &o->queue;
	size_t head_len;

	if (!text) {
		o->stats.dropped++;
		return;
	}
	otlp_put_process(text, s, o->host, o->opts.version);
	head_len = text->len;
	otlp_put_span(text, s);
	o->stats.dropped += otlp_queue__put(q, s->pid, text->buf, head_len, text->len, o->spans.cnt,
					    o->spans.body ? o->spans.body->len : 0);
	out__close(text);
	if (q->cnt >= BATCH || q->cnt >= q->max_cnt / 2 || q->bytes >= q->max_bytes / 2)
		fill_spans(o);
	else if (q->cnt == 1)
		arm(o->batch_ev, o->opts.interval_ns < BATCH_NS ? o->opts.interval_ns : BATCH_NS);
}

/* Events */

static void send_event(struct otlp *o)
{
	struct channel *c = &o->events;

	if (c->busy || c->body || !o->waiting_cnt)
		return;
	c->body = o->waiting[0];
	c->cnt = 1;
	o->waiting_cnt--;
	memmove(o->waiting, o->waiting + 1, o->waiting_cnt * sizeof(o->waiting[0]));
	send_body(c);
}

void otlp__dossier(struct otlp *o, const struct otlp_dossier *d)
{
	struct out *body = o->waiting_cnt < OTLP_EVENTS_MAX ? out__memory() : NULL;

	if (!body) {
		o->stats.dropped++;
		return;
	}
	otlp_put_dossier(body, d, o->host, o->opts.version);
	o->waiting[o->waiting_cnt++] = body;
	send_event(o);
}

/* Metrics */

static void send_metrics(struct otlp *o)
{
	struct channel *c = &o->metrics;
	struct metrics_self self = {0};
	const struct metrics *m;

	if (c->busy)
		return;
	o->last_metrics = false;
	m = o->opts.metrics(o->opts.ctx, &self);
	done(c);
	c->body = out__memory();
	if (!c->body)
		return;
	c->cnt = otlp_put_metrics(c->body, m, &self, o->host, clock_ns(CLOCK_REALTIME));
	/* After a failure, the retry's timer sends the newest numbers. */
	if (!event_pending(c->retry_ev, EV_TIMEOUT, NULL))
		send_body(c);
}

static void on_interval(evutil_socket_t fd, short what, void *ctx)
{
	send_metrics(ctx);
	report_dropped(ctx);
}

void otlp__profile(struct otlp *o, struct out *body)
{
	struct channel *c = &o->profiles;

	if (c->body) {
		o->stats.dropped++;
		out__close(body);
		return;
	}
	c->body = body;
	c->cnt = 1;
	send_body(c);
}

static bool open_channel(struct otlp *o, struct channel *c, const char *what, const char *path)
{
	const struct otlp_http_opts ho = {
		.endpoint = o->endpoint,
		.path = path,
		.version = o->opts.version,
		.headers_file = o->opts.headers_file,
		.gzip = o->opts.gzip,
		.protobuf = c == &o->profiles,
	};

	c->o = o;
	c->what = what;
	c->http = otlp_http__new(o->base, o->dns, &ho);
	c->retry_ev = event_new(o->base, -1, 0, on_retry, c);
	return c->http && c->retry_ev;
}

static void close_channel(struct channel *c)
{
	otlp_http__free(c->http);
	if (c->retry_ev)
		event_free(c->retry_ev);
	done(c);
}

struct otlp *otlp__new(struct event_base *base, const char *endpoint, const struct otlp_opts *opts)
{
	struct otlp *o = calloc(1, sizeof(*o));

	if (!o)
		return NULL;
	o->opts = *opts;
	o->base = base;
	otlp_queue__init(&o->queue, opts->queue);
	o->endpoint = strdup(endpoint);
	gethostname(o->host, sizeof(o->host) - 1);
	/* Without name servers, addresses and /etc/hosts still work. */
	o->dns = evdns_base_new(base, EVDNS_BASE_INITIALIZE_NAMESERVERS |
					      EVDNS_BASE_DISABLE_WHEN_INACTIVE)
			 ?: evdns_base_new(base, EVDNS_BASE_DISABLE_WHEN_INACTIVE);
	o->batch_ev = event_new(base, -1, 0, on_batch, o);
	o->interval_ev = event_new(base, -1, EV_PERSIST, on_interval, o);
	if (!o->endpoint || !o->dns || !o->batch_ev || !o->interval_ev ||
	    !open_channel(o, &o->spans, "spans", "/v1/traces") ||
	    !open_channel(o, &o->events, "events", "/v1/logs") ||
	    !open_channel(o, &o->metrics, "metrics", "/v1/metrics") ||
	    !open_channel(o, &o->profiles, "profiles", "/v1development/profiles")) {
		err("otlp.endpoint: cannot set up the connection to %s: out of memory", endpoint);
		otlp__free(o);
		return NULL;
	}
	arm(o->interval_ev, opts->interval_ns);
	return o;
}

void otlp__free(struct otlp *o)
{
	if (!o)
		return;
	close_channel(&o->spans);
	close_channel(&o->events);
	close_channel(&o->metrics);
	close_channel(&o->profiles);
	otlp_queue__clear(&o->queue);
	for (unsigned i = 0; i < o->waiting_cnt; i++)
		out__close(o->waiting[i]);
	if (o->batch_ev)
		event_free(o->batch_ev);
	if (o->interval_ev)
		event_free(o->interval_ev);
	if (o->dns)
		evdns_base_free(o->dns, 0);
	free(o->endpoint);
	free(o);
}

void otlp__finish(struct otlp *o)
{
	o->finishing = true;
	event_del(o->interval_ev);
	event_del(o->spans.retry_ev);
	event_del(o->events.retry_ev);
	event_del(o->metrics.retry_ev);
	event_del(o->profiles.retry_ev);
	if (o->spans.body && !o->spans.busy)
		send_body(&o->spans);
	fill_spans(o);
	if (o->events.body && !o->events.busy)
		send_body(&o->events);
	send_event(o);
	o->last_metrics = true;
	send_metrics(o);
}

bool otlp__is_done(const struct otlp *o)
{
	return !o->spans.busy && !o->events.busy && !o->metrics.busy && !o->profiles.busy &&
	       (!o->queue.cnt || o->spans.failures) && (!o->waiting_cnt || o->events.failures);
}

void otlp__stats(const struct otlp *o, struct otlp_stats *s)
{
	*s = o->stats;
	s->queued = o->queue.cnt + o->spans.cnt;
	s->queued_bytes = o->queue.bytes + (o->spans.body ? o->spans.body->len : 0);
}
