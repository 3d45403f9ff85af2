/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "rules.h"

#include <fnmatch.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>

static bool is_like(const char *pattern, const char *text)
{
	return !fnmatch(pattern, text, 0);
}

/* Matches either of two names of the same thing. */
static bool either(const char *pattern, const char *a, const char *b)
{
	return !pattern || (*a && is_like(pattern, a)) || (*b && is_like(pattern, b));
}

bool rule_command_matches(const char *pattern, bool name_only, const char *comm,
			  const char *command)
{
	char first[256];
	const char *base;

	if (is_like(pattern, comm) || (!name_only && is_like(pattern, command)))
		return true;
	snprintf(first, sizeof(first), "%.*s", (int)strcspn(command, " "), command);
	base = strrchr(first, '/');
	return is_like(pattern, first) || (base && is_like(pattern, base + 1));
}

static bool user_matches(const char *pattern, uid_t uid)
{
	const struct passwd *pw;
	char number[16];

	if (!pattern)
		return true;
	snprintf(number, sizeof(number), "%u", (unsigned)uid);
	if (is_like(pattern, number))
		return true;
	pw = getpwuid(uid);
	return pw && is_like(pattern, pw->pw_name);
}

static bool matches(const struct rule *r, const struct rule_subject *s)
{
	const struct labels *l = s->labels;

	return (!r->command ||
		rule_command_matches(r->command, r->name_only, s->comm, s->command)) &&
	       either(r->cgroup, l->cgroup, "") &&
	       either(r->container, l->container, l->container_name) &&
	       either(r->pod, l->pod, l->pod_uid) && either(r->namespace, l->namespace, "") &&
	       user_matches(r->user, s->uid);
}

const struct rule *rules__find(const struct config *c, const struct rule_subject *s)
{
	for (unsigned i = 0; i < c->rule_cnt; i++) {
		if (matches(&c->rules[i], s))
			return &c->rules[i];
	}
	return NULL;
}
