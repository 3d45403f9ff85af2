// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The counts of metrics.c as OTLP metrics. A target is a resource. Names and units are such that a
 * collector's Prometheus exporter makes of them the names that /metrics has.
 */
#include <stdio.h>
#include <string.h>

#include "metrics/level.h"
#include "metrics/metrics_priv.h"
#include "model/trace.h"
#include "message.h"
#include "util/out.h"

struct enc {
	struct out *o;
	const char *host, *version;
	enum ct_hide hide;
	uint64_t start_ns, now_ns;
	uint64_t points;
	/* The metric that is being written: where it began, how many points there were then. */
	size_t mark;
	uint64_t points_before;
};

enum kind { SUM, GAUGE, HISTOGRAM };

static void metric(struct enc *e, const char *name, const char *unit, enum kind kind)
{
	static const char *const heads[] = {
		"\"sum\":{\"aggregationTemporality\":2,\"isMonotonic\":true,",
		"\"gauge\":{",
		"\"histogram\":{\"aggregationTemporality\":2,",
	};

	e->mark = e->o->len;
	e->points_before = e->points;
	otlp_comma(e->o);
	out_lit(e->o, "{\"name\":\"cudatrace.");
	out_str(e->o, name);
	out_lit(e->o, "\",\"unit\":\"");
	out_str(e->o, unit);
	out_lit(e->o, "\",");
	out_str(e->o, heads[kind]);
	out_lit(e->o, "\"dataPoints\":[");
}

/* A metric without points is taken back. */
static void end_metric(struct enc *e)
{
	if (e->points == e->points_before)
		e->o->len = e->mark;
	else
		out_lit(e->o, "]}}");
}

/* A point up to its value. */
static void point(struct enc *e, const char *key, const char *value, const char *key2,
		  const char *value2)
{
	e->points++;
	otlp_comma(e->o);
	out_lit(e->o, "{\"attributes\":[");
	if (key)
		otlp_put_attr(e->o, key, value);
	if (key2)
		otlp_put_attr(e->o, key2, value2);
	out_char(e->o, ']');
	otlp_put_u64(e->o, "startTimeUnixNano", e->start_ns);
	otlp_put_u64(e->o, "timeUnixNano", e->now_ns);
}

static void value_u64(struct enc *e, uint64_t x)
{
	otlp_put_u64(e->o, "asInt", x);
	out_char(e->o, '}');
}

static void put_f64(struct enc *e, const char *key, double x)
{
	char buf[64];

	snprintf(buf, sizeof(buf), ",\"%s\":%.15g", key, x);
	out_str(e->o, buf);
}

static void value_f64(struct enc *e, double x)
{
	put_f64(e, "asDouble", x);
	out_char(e->o, '}');
}

static void one_u64(struct enc *e, const char *name, const char *unit, enum kind kind, uint64_t x)
{
	metric(e, name, unit, kind);
	point(e, NULL, NULL, NULL, NULL);
	value_u64(e, x);
	end_metric(e);
}

static void one_f64(struct enc *e, const char *name, const char *unit, enum kind kind, double x)
{
	metric(e, name, unit, kind);
	point(e, NULL, NULL, NULL, NULL);
	value_f64(e, x);
	end_metric(e);
}

static void put_calls(struct enc *e, const struct metrics_target *t)
{
	const struct fn_metrics *f, *next;
	const struct error_metrics *er, *er_next;

	metric(e, "calls", "{call}", SUM);
	HASH_ITER (hh, t->fns, f, next) {
		point(e, "function", f->fn->symbol, "class", cuda_class_name(f->fn->class));
		value_u64(e, f->calls);
	}
	end_metric(e);
	metric(e, "errors", "{call}", SUM);
	HASH_ITER (hh, t->errors, er, er_next) {
		point(e, "function", er->key.fn->symbol, "error",
		      metrics_error_name(er->key.fn, er->key.code));
		value_u64(e, er->cnt);
	}
	end_metric(e);
}

static void put_durations(struct enc *e, const struct metrics_target *t)
{
	metric(e, "call_duration", "s", HISTOGRAM);
	for (int class = 0; class < CLASS_CNT; class ++) {
		const struct hist *h = t->durations[class];
		uint64_t sum = 0;

		if (!h)
			continue;
		point(e, "class", cuda_class_name(class), NULL, NULL);
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
		out_char(e->o, '}');
	}
	end_metric(e);
}

static void put_kinds(struct enc *e, const char *name, const uint64_t *bytes)
{
	metric(e, name, "By", GAUGE);
	for (int i = 0; i < MEM_KIND_CNT; i++) {
		point(e, "kind", mem_kind_name(i), NULL, NULL);
		value_u64(e, bytes[i]);
	}
	end_metric(e);
}

static void put_ioctls(struct enc *e, const struct metrics_target *t)
{
	const struct cmd_metrics *c, *next;

	metric(e, "ioctls", "{call}", SUM);
	HASH_ITER (hh, t->cmds, c, next) {
		point(e, "ioctl", c->name, NULL, NULL);
		value_u64(e, c->cnt);
	}
	end_metric(e);
	metric(e, "ioctl", "s", SUM);
	HASH_ITER (hh, t->cmds, c, next) {
		point(e, "ioctl", c->name, NULL, NULL);
		value_f64(e, c->total_ns / 1e9);
	}
	end_metric(e);
}

static void open_resource(struct enc *e)
{
	otlp_comma(e->o);
	out_lit(e->o, "{\"resource\":{\"attributes\":[");
}

static void open_metrics(struct enc *e)
{
	otlp_put_attr(e->o, "host.name", e->host);
	otlp_put_attr(e->o, "cudatrace.hidden", cuda_hide_name(e->hide));
	out_lit(e->o, "]},\"scopeMetrics\":[{");
	otlp_put_scope(e->o, e->version);
	out_lit(e->o, ",\"metrics\":[");
}

/* What is known from arguments alone. */
static void put_of_args(struct enc *e, const struct metrics_target *t)
{
	one_u64(e, "graph_nodes_captured", "{launch}", SUM, t->nodes);
	metric(e, "transfer", "By", SUM);
	for (int i = COPY_NONE; i <= COPY_DIR_PEER; i++) {
		if (!t->bytes[i])
			continue;
		point(e, "direction", copy_dir_name(i) ?: "unknown", NULL, NULL);
		value_u64(e, t->bytes[i]);
	}
	end_metric(e);
	put_kinds(e, "memory", t->mem);
	put_kinds(e, "memory_peak", t->peak);
}

static void put_target(struct enc *e, const struct metrics_target *t)
{
	const struct target_key *k = &t->key;

	open_resource(e);
	otlp_put_attr(e->o, "service.name", k->container[0] ? k->container : k->command);
	otlp_put_attr(e->o, "k8s.namespace.name", k->namespace);
	otlp_put_attr(e->o, "k8s.pod.name", k->pod);
	/* Outside of pods the container's name is not known: it is its id. */
	otlp_put_attr(e->o, k->pod[0] ? "k8s.container.name" : "container.id", k->container);
	otlp_put_attr(e->o, "process.executable.name", k->command);
	open_metrics(e);
	put_calls(e, t);
	put_durations(e, t);
	one_u64(e, "launches", "{launch}", SUM, t->launches);
	one_u64(e, "graph_launches", "{launch}", SUM, t->graph_launches);
	if (e->hide != CT_HIDE_ARGS)
		put_of_args(e, t);
	put_ioctls(e, t);
	one_u64(e, "target_processes", "{process}", GAUGE, t->processes);
	out_lit(e->o, "]}]}");
}

static void put_self(struct enc *e, const struct metrics *m, const struct metrics_self *s)
{
	char number[16];

	open_resource(e);
	otlp_put_attr(e->o, "service.name", "cudatrace");
	otlp_put_attr(e->o, "service.version", s->version);
	open_metrics(e);
	metric(e, "dropped", "{record}", SUM);
	for (int i = 0; i < CT_DROP_CNT; i++) {
		point(e, "what", drop_name(i), NULL, NULL);
		value_u64(e, s->drops[i]);
	}
	end_metric(e);
	metric(e, "table_full", "{row}", SUM);
	for (int i = 0; i < QUOTA_CNT; i++) {
		point(e, "table", quota_name(i), NULL, NULL);
		value_u64(e, s->full[i]);
	}
	end_metric(e);
	metric(e, "table_used", "{row}", GAUGE);
	for (int i = 0; i < QUOTA_CNT; i++) {
		point(e, "table", quota_name(i), NULL, NULL);
		value_u64(e, s->used[i]);
	}
	end_metric(e);
	metric(e, "xids", "{error}", SUM);
	for (unsigned i = 0; i < m->xid_cnt; i++) {
		snprintf(number, sizeof(number), "%u", m->xids[i].number);
		point(e, "xid", number, "gpu", m->xids[i].gpu);
		value_u64(e, m->xids[i].cnt);
	}
	end_metric(e);
	metric(e, "processes", "{process}", GAUGE);
	for (int i = 0; i < LEVEL_CNT; i++) {
		point(e, "level", proc_level_name(i), NULL, NULL);
		value_u64(e, s->processes[i]);
	}
	end_metric(e);
	one_u64(e, "series", "{series}", GAUGE, m->series);
	one_u64(e, "series_left_out", "{series}", SUM, m->left_out);
	one_u64(e, "bursts", "{burst}", SUM, s->bursts);
	one_u64(e, "file_lines", "{line}", SUM, s->files.lines);
	one_u64(e, "file_lines_dropped", "{line}", SUM, s->files.dropped);
	one_u64(e, "file", "By", GAUGE, s->files.disk_bytes);
	one_u64(e, "files", "{file}", SUM, s->files.files);
	one_u64(e, "files_removed", "{file}", SUM, s->files.removed);
	one_u64(e, "files_taken", "{file}", SUM, s->files.taken);
	one_u64(e, "files_take_failures", "{failure}", SUM, s->files.failed);
	one_u64(e, "recorder_lines", "{line}", GAUGE, s->recorder_lines);
	one_u64(e, "recorder", "By", GAUGE, s->recorder_bytes);
	one_u64(e, "dumps", "{dump}", SUM, s->dumps);
	one_u64(e, "otlp_sent", "{item}", SUM, s->otlp_sent);
	one_u64(e, "otlp_failures", "{request}", SUM, s->otlp_failed);
	one_u64(e, "otlp_dropped", "{span}", SUM, s->otlp_dropped);
	one_u64(e, "otlp_queued", "{span}", GAUGE, s->otlp_queued);
	one_u64(e, "otlp_queue", "By", GAUGE, s->otlp_queued_bytes);
	one_u64(e, "config_reloads", "{reload}", SUM, s->reloads);
	one_u64(e, "config_reload_failures", "{reload}", SUM, s->reload_failures);
	one_u64(e, "http_connections_closed", "{connection}", SUM, s->http_closed);
	one_u64(e, "names_left_mangled", "{name}", SUM, s->names_given_up);
	one_u64(e, "reads_lost", "{read}", SUM, s->reads_lost);
	one_u64(e, "reads_refused", "{read}", SUM, s->reads_refused);
	one_f64(e, "self_cpu", "s", SUM, s->cpu_seconds);
	one_u64(e, "self_resident", "By", GAUGE, s->rss_bytes);
	one_u64(e, "self_open_fds", "{fd}", GAUGE, s->fds);
	one_f64(e, "self_start_time", "s", GAUGE, s->start_time);
	out_lit(e->o, "]}]}");
}

uint64_t otlp_put_metrics(struct out *o, const struct metrics *m, const struct metrics_self *self,
			  const char *host, uint64_t now_ns)
{
	struct enc e = {
		.o = o,
		.host = host,
		.version = self->version,
		.hide = self->hide,
		.start_ns = (uint64_t)(self->start_time * 1e9),
		.now_ns = now_ns,
	};
	const struct metrics_target *t, *next;

	out_lit(o, "{\"resourceMetrics\":[");
	HASH_ITER (hh, m->targets, t, next)
		put_target(&e, t);
	if (m->others.fns || m->others.processes)
		put_target(&e, &m->others);
	put_self(&e, m, self);
	out_lit(o, "]}");
	return e.points;
}
