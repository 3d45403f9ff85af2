/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* For tests of the report's findings: whether one exists, its text, and its loss. */
#ifndef TESTS_FINDINGS_CHECK_H
#define TESTS_FINDINGS_CHECK_H

#include "memory_check.h"
#include "report/advice/findings_priv.h"

UNUSED static const struct finding *found(const char *id)
{
	const struct findings *x = r->an[AN_FINDINGS];

	for (unsigned i = 0; i < x->list_cnt; i++)
		if (!strcmp(x->list[i].rule->id, id))
			return &x->list[i];
	return NULL;
}

UNUSED static void loses(const char *id, uint64_t ns)
{
	const struct finding *x;

	finish();
	x = found(id);
	assert_non_null(x);
	assert_int_equal(x->lost_ns, ns);
}

UNUSED static void says(const char *id, const char *part)
{
	assert_non_null(found(id));
	if (!strstr(found(id)->text, part))
		fail_msg("no \"%s\" in \"%s\"", part, found(id)->text);
}

/* The finding comes behind at least one other. */
UNUSED static void is_last(const char *id)
{
	const struct findings *x;

	finish();
	x = r->an[AN_FINDINGS];
	assert_in_range(x->list_cnt, 2, 100);
	assert_string_equal(x->list[x->list_cnt - 1].rule->id, id);
}

UNUSED static void finds_no(const char *id)
{
	finish();
	assert_null(found(id));
}

#endif /* TESTS_FINDINGS_CHECK_H */
