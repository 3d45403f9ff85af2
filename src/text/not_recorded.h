/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Which calls or durations the options of a trace left out, by its header and its counts. */
#ifndef TEXT_NOT_RECORDED_H
#define TEXT_NOT_RECORDED_H

#include <stdbool.h>

struct not_recorded {
	/* as in the header: "launch, memory (3 functions)"; NULL: as "" */
	const char *traced, *counted, *entry_only;
	double counted_cnt, filtered_cnt, call_cnt, min_duration_ns;
};

/* Returns the option that left out calls, or durations, of these classes, separated by blanks;
 * NULL: none did. whole: of a class, all functions must be traced, else some. */
const char *not_recorded_by(const struct not_recorded *o, const char *classes, bool whole);

#endif /* TEXT_NOT_RECORDED_H */
