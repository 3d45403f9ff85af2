/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The rows of metrics.def, for the writers of metrics. */
#ifndef METRICS_TABLE_H
#define METRICS_TABLE_H

#include "metrics.h"

#define METRIC_LABELS 7

struct hist;

enum metric_of { METRIC_TARGET, METRIC_ARGS, METRIC_NODE };
enum metric_kind { METRIC_SUM, METRIC_GAUGE, METRIC_HISTOGRAM, METRIC_INFO };

struct metric_point {
	const char *labels[METRIC_LABELS]; /* values of the labels; NULL: the point lacks that label
					    */
	uint64_t number;
	double seconds; /* instead of number, if the unit is seconds, or the value is as_is */
	const struct hist *hist;
};

typedef void (*metric_point_fn)(void *ctx, const struct metric_point *p);

struct metric {
	enum metric_of of;
	enum metric_kind kind;
	const char *name, *unit, *help;
	const char *labels[METRIC_LABELS + 1];
	bool as_is; /* another exporter's metric: the full name, and numbers with decimals */
	/* t: NULL for METRIC_NODE */
	void (*points)(const struct metrics *m, const struct metrics_self *s,
		       const struct metrics_target *t, metric_point_fn put, void *ctx);
};

const struct metric *metrics_table(unsigned *cnt);
/* Prometheus' name: cudatrace_calls_total. */
void metric_full_name(const struct metric *metric, char *buf, size_t size);
/* Returns whether it has decimals. */
bool metric_is_real(const struct metric *metric);
bool metric_is_seconds(const struct metric *metric);
/* false if trace.redact hides it. */
bool metric_is_shown(const struct metric *metric, const struct metrics_self *s);
/* Calls fn for every target, then for the combined one. */
void metrics__each(const struct metrics *m, void (*fn)(void *ctx, const struct metrics_target *t),
		   void *ctx);

#endif /* METRICS_TABLE_H */
