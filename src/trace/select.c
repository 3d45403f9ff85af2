// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* What is traced, what is counted, what is seen at its entry only, what has stacks. */
#include "session.h"

#include "util/log.h"

static int mark_functions(struct session *s, const struct strv *sets, enum fnset_mark mark,
			  const char *option)
{
	char why[512];

	for (unsigned i = 0; i < sets->cnt; i++) {
		if (!fnset__mark(s->t.fns, mark, sets->v[i], why, sizeof(why)))
			continue;
		err("%s: %s", option, why);
		return EXIT_USAGE;
	}
	return 0;
}

int session__select(struct session *s)
{
	char why[512];
	int ret;

	fnset__set_detail(s->t.fns, s->o->detail);
	for (unsigned i = 0; i < s->o->select.cnt; i++) {
		if (!fnset__select(s->t.fns, s->o->select.v[i], why, sizeof(why)))
			continue;
		err("-e: %s", why);
		return EXIT_USAGE;
	}
	ret = mark_functions(s, &s->o->count, FNSET_COUNT, "--count");
	ret = ret ? ret : mark_functions(s, &s->o->no_return, FNSET_NO_RETURN, "--no-return");
	return ret ? ret : mark_functions(s, &s->o->stack, FNSET_STACK, "--stack");
}
