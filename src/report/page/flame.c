/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Folded stacks: the form that flame graph tools read. */
#include "stacks.h"

#include <string.h>

#include "text/losses_text.h"
#include "util/out.h"
#include "util/plain.h"

/* A frame must not contain semicolons or line ends; names come from targets. */
void flame_frame(struct out *o, const char *s)
{
	size_t len = strlen(s);

	plain_put(o, s);
	for (char *p = o->buf + o->len - len; !o->failed && len--; p++)
		if (*p == ';')
			*p = ':';
}

void flame_root(const struct report *r, struct out *o)
{
	char text[512];

	if (!losses_line(&r->lost, text, sizeof(text)))
		return;
	out_lit(o, "INCOMPLETE, missing: ");
	flame_frame(o, text);
	out_char(o, ';');
}

void flame_fold(const struct report *r, struct out *o)
{
	const struct folded_stack *f;
	unsigned cnt;

	f = stacks_folded(r, &cnt);
	for (; cnt--; f++) {
		/* Without a time there is no weight. */
		if (!f->total_ns && !report_has_times(r))
			continue;
		flame_root(r, o);
		for (int i = 0; i < STACK_DEPTH && f->frames[i]; i++) {
			if (i)
				out_char(o, ';');
			flame_frame(o, f->frames[i]);
		}
		out_char(o, ' ');
		out_u64(o, f->total_ns);
		out_char(o, '\n');
	}
}
