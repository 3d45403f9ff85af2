// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* What is traced, what is counted, what is seen at its entry only, what has stacks. */
#include "session.h"

#include "util/log.h"

static int mark_functions(struct session *s, const struct strv *sets, enum fnset_mark mark,
			  const char *option)
{
	char why[512];

	for (unsigned i = 0; i < sets->cnt; i++) {
		if (!fnset__mark(s->fns, mark, sets->v[i], why, sizeof(why)))
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

	if (s->o->all)
		fnset__select_all(s->fns);
	for (unsigned i = 0; i < s->o->select.cnt; i++) {
		if (!fnset__select(s->fns, s->o->select.v[i], why, sizeof(why)))
			continue;
		err("-e: %s", why);
		return EXIT_USAGE;
	}
	ret = mark_functions(s, &s->o->count, FNSET_COUNT, "--count");
	ret = ret ? ret : mark_functions(s, &s->o->no_return, FNSET_NO_RETURN, "--no-return");
	return ret ? ret : mark_functions(s, &s->o->stack, FNSET_STACK, "--stack");
}

void session__describe_selection(struct session *s)
{
	struct trace_info *info = &s->info;

	fnset__describe(s->fns, s->traced, sizeof(s->traced), s->left_out, sizeof(s->left_out));
	fnset__describe_mark(s->fns, FNSET_COUNT, s->counted, sizeof(s->counted));
	fnset__describe_mark(s->fns, FNSET_NO_RETURN, s->no_return, sizeof(s->no_return));
	fnset__describe_mark(s->fns, FNSET_STACK, s->stacks, sizeof(s->stacks));
	info->traced = s->traced;
	info->left_out = s->left_out;
	info->counted = s->counted;
	info->no_return = s->no_return;
	info->stacks = s->stacks;
}
