/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Sections of a report by name: rows of analyses.def that have text. */
#include "report.h"

#include <string.h>

#include "util/strdist.h"

static const struct {
	const struct analysis_ops *ops;
	const char *what;
} sections[AN_CNT] = {
#define AN(id, name, what) [AN_##id] = {&name##_ops, what},
#include "analyses.def"
#undef AN
};
_Static_assert(AN_CNT < 64, "a bit for each");

uint64_t report_section(const char *name, size_t len)
{
	for (unsigned i = 0; i < AN_CNT; i++) {
		const char *is = sections[i].ops->name;

		if (sections[i].ops->print && strlen(is) == len && !memcmp(is, name, len))
			return 1ull << i;
	}
	return 0;
}

const char *report_section_like(const char *name, size_t len)
{
	unsigned best = str_distance_limit(len) + 1;
	const char *like = NULL;

	for (unsigned i = 0; i < AN_CNT; i++) {
		const char *is = sections[i].ops->name;
		unsigned d = str_distance(name, len, is, strlen(is));

		if (!sections[i].ops->print || d >= best)
			continue;
		best = d;
		like = is;
	}
	return like;
}

const char *report_section_what(unsigned id)
{
	return sections[id].what;
}

const char *report_section_at(unsigned *i, const char **what)
{
	while (*i < AN_CNT && !sections[*i].ops->print)
		++*i;
	if (*i == AN_CNT)
		return NULL;
	*what = sections[*i].what;
	return sections[(*i)++].ops->name;
}

void report_sections_print(FILE *f)
{
	const char *name, *what;

	for (unsigned i = 0; (name = report_section_at(&i, &what));)
		fprintf(f, "%-17s %s\n", name, what);
}
