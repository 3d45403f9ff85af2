/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Changes of --what-if as text. */
#include "replay.h"

#include <stdlib.h>
#include <string.h>

bool step_change_read(const char *text, size_t len, struct step_change *c)
{
	static const struct {
		const char *word;
		enum step_change_kind kind;
		bool has_name, has_factor;
	} words[] = {
		{"host", CHANGE_HOST, false, true},
		{"gpu", CHANGE_GPU, false, true},
		{"kernel", CHANGE_KERNEL, true, true},
		{"plans", CHANGE_PLANS, false, false},
		{"drop", CHANGE_DROP, true, false},
		{"cache", CHANGE_CACHE, true, false},
		{"no-wait", CHANGE_NO_WAIT, true, false},
		{"fuse", CHANGE_FUSE, true, false},
		{"graph", CHANGE_GRAPH, false, false},
		{"graph", CHANGE_GRAPH, true, false},
		{"overlap-comm", CHANGE_OVERLAP_COMM, false, false},
		{"on-time", CHANGE_ON_TIME, true, false},
		{"untraced", CHANGE_UNTRACED, false, false},
		{"pinned", CHANGE_PINNED, false, false},
		{"overlap-copies", CHANGE_OVERLAP, false, false},
		{"before", CHANGE_BEFORE, true, true},
		{"batch", CHANGE_BATCH, true, false},
	};
	char copy[sizeof(c->text)] = {0}, *name, *factor, *end;

	if (!len || len >= sizeof(copy))
		return false;
	memcpy(copy, text, len);
	copy[len] = '\0';
	*c = (struct step_change){0};
	memcpy(c->text, copy, len + 1);
	for (unsigned i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		size_t n = strlen(words[i].word);

		memcpy(copy, text, len);
		name = words[i].has_name && copy[n] == ':' ? copy + n + 1 : NULL;
		factor = words[i].has_factor ? strrchr(copy + n, '=') : NULL;
		if (strncmp(copy, words[i].word, n) || words[i].has_name != !!name ||
		    words[i].has_factor != !!factor ||
		    (name     ? 0
		     : factor ? factor != copy + n
			      : copy[n]))
			continue;
		if (factor)
			*factor++ = '\0';
		c->kind = words[i].kind;
		if (name && (!*name || strlen(name) >= sizeof(c->name)))
			return false;
		if (name)
			strcpy(c->name, name);
		if (c->kind == CHANGE_ON_TIME) {
			if (strlen(name) > 9 || name[strspn(name, "0123456789")])
				return false;
			c->rank = (uint32_t)strtoul(name, NULL, 10);
		}
		if (factor) {
			c->factor = strtod(factor, &end);
			if (end == factor || *end || !(c->factor >= 0 && c->factor <= 100))
				return false;
		}
		return true;
	}
	return false;
}
