/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "call_copy.h"

#include <string.h>

static size_t slot_of(const char *s)
{
	return (uintptr_t)s * 0x9e3779b97f4a7c15 >> (64 - COPIED_NAMES_LOG);
}

static inline struct copied_text look_up(const struct copied_names *names, const char *s)
{
	const struct copied_name *n = &names->of[slot_of(s)];

	if (!s)
		return (struct copied_text){0};
	if (n->from == s && !strcmp(n->copy, s))
		return (struct copied_text){s, n->copy, 0};
	return (struct copied_text){s, NULL, strlen(s) + 1};
}

static inline const char *put_name(struct copied_names *names, const struct copied_text *t,
				   char **p)
{
	char *at = *p;

	if (!t->size)
		return t->copy;
	memcpy(at, t->s, t->size);
	names->of[slot_of(t->s)] = (struct copied_name){t->s, at};
	*p += t->size;
	return at;
}

static inline size_t rounded(size_t size)
{
	return (size + 7) & ~(size_t)7;
}

size_t call_copy__size(struct call_copy *c, const struct copied_names *names,
		       const struct trace_event *ev)
{
	c->ev = ev;
	c->event = offsetof(struct trace_event, caps) + ev->cap_cnt * sizeof(*ev->caps);
	c->words = ev->word_cnt * sizeof(*ev->words);
	c->caps = 0;
	for (unsigned i = 0; i < ev->cap_cnt; i++)
		c->caps += ev->caps[i].len > 0 ? rounded(ev->caps[i].len) : 0;
	c->stack = ev->stack ? sizeof(*ev->stack) : 0;
	c->comm = look_up(names, ev->comm);
	c->kernel = look_up(names, ev->launch.kernel);
	c->mangled = look_up(names, ev->launch.kernel_mangled);
	c->range = look_up(names, ev->range_text);
	c->operator= look_up(names, ev->operator);
	return rounded(c->event + c->words + c->caps + c->stack + c->comm.size + c->kernel.size +
		       c->mangled.size + c->range.size + c->operator.size);
}

struct trace_event *call_copy__put(const struct call_copy *c, struct copied_names *names, void *mem)
{
	const struct trace_event *ev = c->ev;
	struct trace_event *to = memcpy(mem, ev, c->event);
	char *p = (char *)mem + c->event;

	to->words = c->words ? memcpy(p, ev->words, c->words) : NULL;
	p += c->words;
	for (unsigned i = 0; i < ev->cap_cnt; i++) {
		if (ev->caps[i].len <= 0)
			continue;
		to->caps[i].data = memcpy(p, ev->caps[i].data, ev->caps[i].len);
		p += rounded(ev->caps[i].len);
	}
	/* Its id. */
	to->stack = c->stack ? memcpy(p, ev->stack, c->stack) : NULL;
	p += c->stack;
	to->comm = put_name(names, &c->comm, &p);
	to->launch.kernel = put_name(names, &c->kernel, &p);
	to->launch.kernel_mangled = put_name(names, &c->mangled, &p);
	to->range_text = put_name(names, &c->range, &p);
	to->operator= put_name(names, &c->operator, & p);
	return to;
}
