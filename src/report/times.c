/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Times in JSON; apart from report.c for programs that are linked without the analyses. */
#include <stdio.h>
#include <time.h>

#include "report.h"

void report_json_ts(const struct report *r, struct json *j, const char *name, uint64_t ns)
{
	if (ns >= r->base_ns)
		json_micro(j, name, ns - r->base_ns);
	else
		json_f64(j, name, -(double)(r->base_ns - ns) / 1e6);
}

void report_json_wall_time(struct json *j, uint64_t wall_ns)
{
	time_t sec = (time_t)(wall_ns / 1000000000);
	char day[32], text[64];
	struct tm tm;

	if (!wall_ns || !gmtime_r(&sec, &tm) ||
	    !strftime(day, sizeof(day), "%Y-%m-%dT%H:%M:%S", &tm)) {
		json_null(j, "wall_time");
		return;
	}
	snprintf(text, sizeof(text), "%s.%09uZ", day, (unsigned)(wall_ns % 1000000000));
	json_sym(j, "wall_time", text);
}
