/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Prometheus' text format, version 0.0.4: families in sequence, each with HELP, TYPE, and the
 * samples of all targets.
 */
#include <stdio.h>
#include <string.h>

#include "metrics_priv.h"
#include "table.h"
#include "util/out.h"
#include "util/plain.h"

/* The family being written. */
struct family {
	struct out *o;
	const struct metrics *m;
	const struct metrics_self *self;
	const struct metric *metric;
	const struct metrics_target *t; /* NULL: no target */
	char name[64];
};

static void put_head(const struct family *f)
{
	static const char *const types[] = {
		[METRIC_SUM] = "counter",
		[METRIC_GAUGE] = "gauge",
		[METRIC_HISTOGRAM] = "histogram",
		[METRIC_INFO] = "gauge",
	};

	out_lit(f->o, "# HELP ");
	out_str(f->o, f->name);
	out_char(f->o, ' ');
	out_str(f->o, f->metric->help);
	out_lit(f->o, "\n# TYPE ");
	out_str(f->o, f->name);
	out_char(f->o, ' ');
	out_str(f->o, types[f->metric->kind]);
	out_char(f->o, '\n');
}

/* A label's value is UTF-8, with \\, \" and \n escaped (Prometheus text format 0.0.4). Targets'
 * names have the form of plain_name(); U+FFFD replaces invalid bytes in names of the driver or the
 * host. */
static void put_label(struct out *o, const char *name, const char *value, char *before)
{
	size_t left = value ? strlen(value) : 0;

	if (!value)
		return;
	out_char(o, *before);
	*before = ',';
	out_str(o, name);
	out_lit(o, "=\"");
	while (left) {
		bool is_ascii = !(*value & 0x80);
		unsigned n = is_ascii ? 1 : utf8_len((const unsigned char *)value, left);

		if (*value == '"' || *value == '\\' || *value == '\n')
			out_char(o, '\\');
		if (*value == '\n')
			out_char(o, 'n');
		else
			out_bytes(o, n ? value : "\xef\xbf\xbd", n ? n : 3);
		value += n ? n : 1;
		left -= n ? n : 1;
	}
	out_char(o, '"');
}

/* A sample up to its value. */
static void put_sample(const struct family *f, const char *suffix, const struct metric_point *p,
		       const char *le)
{
	char before = '{';

	out_str(f->o, f->name);
	out_str(f->o, suffix);
	if (f->t) {
		put_label(f->o, "namespace", f->t->key.namespace, &before);
		put_label(f->o, "pod", f->t->key.pod, &before);
		put_label(f->o, "container", f->t->key.container, &before);
		put_label(f->o, "command", f->t->key.command, &before);
	}
	for (int i = 0; i < METRIC_LABELS; i++)
		put_label(f->o, f->metric->labels[i], p->labels[i], &before);
	put_label(f->o, "le", le, &before);
	if (before == ',')
		out_char(f->o, '}');
	out_char(f->o, ' ');
}

static void value_u64(const struct family *f, uint64_t x)
{
	out_u64(f->o, x);
	out_char(f->o, '\n');
}

/* The daemon's own values are not rounded: a time since 1970 has nine digits of seconds. */
static void value_f64(const struct family *f, double x)
{
	char buf[40];

	snprintf(buf, sizeof(buf), f->t || f->metric->as_is ? "%.9g\n" : "%.17g\n", x);
	out_str(f->o, buf);
}

static void put_hist(const struct family *f, const struct metric_point *p)
{
	uint64_t sum = 0;
	char le[32];

	for (int i = 0; i <= BUCKET_CNT; i++) {
		sum += p->hist->cnt[i];
		if (i < BUCKET_CNT)
			snprintf(le, sizeof(le), "%.9g", BUCKET_NS(i) / 1e9);
		put_sample(f, "_bucket", p, i < BUCKET_CNT ? le : "+Inf");
		value_u64(f, sum);
	}
	put_sample(f, "_sum", p, NULL);
	value_f64(f, p->hist->sum_ns / 1e9);
	put_sample(f, "_count", p, NULL);
	value_u64(f, sum);
}

static void put_point(void *ctx, const struct metric_point *p)
{
	const struct family *f = ctx;

	if (p->hist) {
		put_hist(f, p);
		return;
	}
	put_sample(f, "", p, NULL);
	if (metric_is_real(f->metric))
		value_f64(f, p->seconds);
	else
		value_u64(f, p->number);
}

static void put_target(void *ctx, const struct metrics_target *t)
{
	struct family *f = ctx;

	f->t = t;
	f->metric->points(f->m, f->self, t, put_point, f);
}

void metrics__print(const struct metrics *m, const struct metrics_self *self, struct out *o)
{
	unsigned cnt;
	const struct metric *table = metrics_table(&cnt);

	for (unsigned i = 0; i < cnt; i++) {
		struct family f = {.o = o, .m = m, .self = self, .metric = &table[i]};

		if (!metric_is_shown(f.metric, self))
			continue;
		metric_full_name(f.metric, f.name, sizeof(f.name));
		put_head(&f);
		if (f.metric->of == METRIC_NODE)
			f.metric->points(m, self, NULL, put_point, &f);
		else
			metrics__each(m, put_target, &f);
	}
}
