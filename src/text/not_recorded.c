/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "not_recorded.h"

#include <stdio.h>
#include <string.h>

/* Returns whether a list like "launch, memory (3 functions)" has the class. whole: all of it. */
static bool lists(const char *text, const char *class, size_t len, bool whole)
{
	for (const char *at = text; at && (at = strstr(at, class)); at += len) {
		bool begins = at == text || at[-1] == ' ';

		if (begins && (!at[len] || at[len] == ',' || (!whole && at[len] == ' ')))
			return true;
	}
	return false;
}

const char *not_recorded_by(const struct not_recorded *o, const char *classes, bool whole)
{
	bool all = !o->traced || !*o->traced || !strcmp(o->traced, "everything");

	if (!*classes)
		return NULL;
	/* A window without any call measured nothing. */
	if (o->filtered_cnt > 0 && !o->call_cnt && !o->min_duration_ns)
		return "--start-after or --capture-range";
	if (o->min_duration_ns > 0)
		return "--min-duration";
	for (size_t len; *classes; classes += len + (classes[len] == ' ')) {
		char class[32];

		len = strcspn(classes, " ");
		snprintf(class, sizeof(class), "%.*s", (int)len, classes);
		if (lists(o->counted, class, len, false))
			return "--count";
		if (lists(o->entry_only, class, len, false))
			return "--entry-only";
		if (!all && !lists(o->traced, class, len, whole))
			return "-e";
	}
	return o->counted_cnt > 0 && (!o->counted || !*o->counted) ? "--max-overhead" : NULL;
}
