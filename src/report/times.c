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

const char *report_wall_text(char buf[WALL_TEXT_SZ], uint64_t wall_ns)
{
	time_t sec = (time_t)(wall_ns / 1000000000);
	struct tm tm;
	size_t len;

	if (!wall_ns || !gmtime_r(&sec, &tm))
		return NULL;
	len = strftime(buf, 32, "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(buf + len, WALL_TEXT_SZ - len, ".%09uZ", (unsigned)(wall_ns % 1000000000));
	return len ? buf : NULL;
}
