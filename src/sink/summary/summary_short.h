/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The short summary: its parts, each in its own function. */
#ifndef SINK_SUMMARY_SUMMARY_SHORT_H
#define SINK_SUMMARY_SUMMARY_SHORT_H

#include "summary_priv.h"

#include "text/table.h"

struct short_summary {
	struct summary *s;
	const struct trace_info *info;
	const struct trace_end *end;
	const struct summary_file *files;
	unsigned file_cnt;
	struct summary_view v; /* functions: most time in driver calls first */
	uint64_t wall_ns;
	bool no_args; /* redacted */
	/* How much is shown, so that all of it fits. */
	unsigned row_max; /* of each list */
	bool no_blank, no_extra, no_advice;
	const struct term *term;
};

/* The text gets an empty line in front, if there is space for it. */
void short_blank(const struct short_summary *x);
void short_trust(const struct short_summary *x);
void short_failures(const struct short_summary *x);
/* summary_verdict.c */
void short_verdict(const struct short_summary *x);
/* summary_short_time.c */
void short_time(const struct short_summary *x);
void short_memory(const struct short_summary *x);
/* summary_short_advice.c */
void short_advice(const struct short_summary *x);

#endif /* SINK_SUMMARY_SUMMARY_SHORT_H */
