/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The rows of metrics.def as OTLP metrics. A target is a resource. */
#include <stdio.h>

#include "metrics/metrics_priv.h"
#include "metrics/table.h"
#include "message.h"
#include "util/out.h"

struct enc {
	struct out *o;
	const struct metrics *m;
	const struct metrics_self *self;
	const char *host;
	uint64_t start_ns, now_ns;
	uint64_t points;
	const struct metric *metric; /* being written */
};

/* Puts a point up to its value. */
static void put_head(struct enc *e, const struct metric_point *p)
{
	e->points++;
	otlp_comma(e->o);
	out_lit(e->o, "{\"attributes\":[");
	for (int i = 0; i < METRIC_LABELS; i++)
		if (p->labels[i])
			otlp_put_attr(e->o, e->metric->labels[i], p->labels[i]);
	out_char(e->o, ']');
	otlp_put_u64(e->o, "startTimeUnixNano", e->start_ns);
	otlp_put_u64(e->o, "timeUnixNano", e->now_ns);
}

static void put_f64(struct enc *e, const char *key, double x)
{
	char buf[64];

	snprintf(buf, sizeof(buf), ",\"%s\":%.15g", key, x);
	out_str(e->o, buf);
}

static void put_hist(struct enc *e, const struct hist *h)
{
	uint64_t sum = 0;

	out_lit(e->o, ",\"bucketCounts\":[");
	for (int i = 0; i <= BUCKET_CNT; i++) {
		sum += h->cnt[i];
		otlp_comma(e->o);
		out_char(e->o, '"');
		out_u64(e->o, h->cnt[i]);
		out_char(e->o, '"');
	}
	out_lit(e->o, "],\"explicitBounds\":[");
	for (int i = 0; i < BUCKET_CNT; i++) {
		char bound[32];

		snprintf(bound, sizeof(bound), "%s%.15g", i ? "," : "", BUCKET_NS(i) / 1e9);
		out_str(e->o, bound);
	}
	out_char(e->o, ']');
	otlp_put_u64(e->o, "count", sum);
	put_f64(e, "sum", h->sum_ns / 1e9);
}

static void put_point(void *ctx, const struct metric_point *p)
{
	struct enc *e = ctx;

	put_head(e, p);
	if (p->hist)
		put_hist(e, p->hist);
	else if (metric_is_real(e->metric))
		put_f64(e, "asDouble", p->seconds);
	else
		otlp_put_u64(e->o, "asInt", p->number);
	out_char(e->o, '}');
}

/* A metric without points is removed again. */
static void put_metric(struct enc *e, const struct metrics_target *t)
{
	static const char *const heads[] = {
		[METRIC_SUM] = "\"sum\":{\"aggregationTemporality\":2,\"isMonotonic\":true,",
		[METRIC_GAUGE] = "\"gauge\":{",
		[METRIC_HISTOGRAM] = "\"histogram\":{\"aggregationTemporality\":2,",
	};
	size_t mark = e->o->len;
	uint64_t points = e->points;

	otlp_comma(e->o);
	out_str(e->o, e->metric->as_is ? "{\"name\":\"" : "{\"name\":\"cudatrace.");
	out_str(e->o, e->metric->name);
	out_lit(e->o, "\",\"unit\":\"");
	out_str(e->o, e->metric->unit);
	out_lit(e->o, "\",");
	out_str(e->o, heads[e->metric->kind]);
	out_lit(e->o, "\"dataPoints\":[");
	e->metric->points(e->m, e->self, t, put_point, e);
	if (e->points == points)
		e->o->len = mark;
	else
		out_lit(e->o, "]}}");
}

static void open_resource(struct enc *e)
{
	otlp_comma(e->o);
	out_lit(e->o, "{\"resource\":{\"attributes\":[");
}

/* Puts the rest of the resource, and the metrics: the target's, or without a target the node's. */
static void put_metrics(struct enc *e, const struct metrics_target *t)
{
	unsigned cnt;
	const struct metric *table = metrics_table(&cnt);

	otlp_put_attr(e->o, "host.name", e->host);
	otlp_put_attr(e->o, "cudatrace.redacted", api_redact_name(e->self->redact));
	out_lit(e->o, "]},\"scopeMetrics\":[{");
	otlp_put_scope(e->o, e->self->version);
	out_lit(e->o, ",\"metrics\":[");
	for (unsigned i = 0; i < cnt; i++) {
		e->metric = &table[i];
		if ((e->metric->of == METRIC_NODE) == !t && e->metric->kind != METRIC_INFO &&
		    metric_is_shown(e->metric, e->self))
			put_metric(e, t);
	}
	out_lit(e->o, "]}]}");
}

static void put_target(void *ctx, const struct metrics_target *t)
{
	const struct target_key *k = &t->key;
	struct enc *e = ctx;

	open_resource(e);
	otlp_put_attr(e->o, "service.name", k->container[0] ? k->container : k->command);
	otlp_put_attr(e->o, "k8s.namespace.name", k->namespace);
	otlp_put_attr(e->o, "k8s.pod.name", k->pod);
	/* Outside pods the container's name is unknown, so its id is used. */
	otlp_put_attr(e->o, k->pod[0] ? "k8s.container.name" : "container.id", k->container);
	otlp_put_attr(e->o, "process.executable.name", k->command);
	put_metrics(e, t);
}

uint64_t otlp_put_metrics(struct out *o, const struct metrics *m, const struct metrics_self *self,
			  const char *host, uint64_t now_ns)
{
	struct enc e = {
		.o = o,
		.m = m,
		.self = self,
		.host = host,
		.start_ns = (uint64_t)(self->start_time * 1e9),
		.now_ns = now_ns,
	};

	out_lit(o, "{\"resourceMetrics\":[");
	metrics__each(m, put_target, &e);
	open_resource(&e);
	otlp_put_attr(o, "service.name", "cudatrace");
	otlp_put_attr(o, "service.version", self->version);
	put_metrics(&e, NULL);
	out_lit(o, "]}");
	return e.points;
}
