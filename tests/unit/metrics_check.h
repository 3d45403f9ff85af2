/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Checks a page of metrics. */
#ifndef TESTS_METRICS_CHECK_H
#define TESTS_METRICS_CHECK_H

#include <stdlib.h>
#include <string.h>

#include "metrics/metrics.h"
#include "util/out.h"

/* Labels of a process "x" in no container. */
#define X "namespace=\"\",pod=\"\",container=\"\",command=\"x\""

static const struct metrics_self self = {
	.version = "1", .driver_version = "580.1", .hostname = "node", .dcgm = true};

static char *print(const struct metrics *m)
{
	struct out *o = out__memory();
	char *text;

	assert_non_null(o);
	metrics__print(m, &self, o);
	text = strndup(o->buf, o->len);
	out__close(o);
	return text;
}

static void has(const struct metrics *m, const char *line)
{
	char *text = print(m), *at = strstr(text, line);

	if (!at || (at != text && at[-1] != '\n') || at[strlen(line)] != '\n')
		fail_msg("no line: %s in\n%s", line, text);
	free(text);
}

static void lacks(const struct metrics *m, const char *part)
{
	char *text = print(m);

	assert_null(strstr(text, part));
	free(text);
}

#endif /* TESTS_METRICS_CHECK_H */
