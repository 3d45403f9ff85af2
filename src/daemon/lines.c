/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "lines.h"

#include <stdlib.h>

#include "sink/sink.h"
#include "util/out.h"

struct lines {
	struct sink *sink;
	const struct trace_info *info;
};

struct lines *lines__new(const struct trace_info *info)
{
	struct lines *l = calloc(1, sizeof(*l));

	if (l) {
		l->info = info;
		l->sink = sink__memory(SINK_JSONL, info);
	}
	if (l && !l->sink) {
		free(l);
		l = NULL;
	}
	return l;
}

void lines__free(struct lines *l)
{
	if (!l)
		return;
	sink__close(l->sink, NULL);
	free(l);
}

const char *lines__event(struct lines *l, const struct trace_event *ev, const char *suffix,
			 size_t suffix_len, size_t *len)
{
	struct out *o = l->sink->out;

	o->len = o->mark = 0;
	sink__event(l->sink, ev);
	/* Before the closing "}\n". */
	if (suffix_len && o->len > 2) {
		o->len -= 2;
		out_bytes(o, suffix, suffix_len);
		out_lit(o, "}\n");
	}
	*len = o->len;
	return o->buf;
}

/* In a sink of its own: a line that was just made is still to be written. */
static void put(const struct lines *l, const struct trace_end *end, struct out *o)
{
	struct sink *s = sink__memory(SINK_JSONL, l->info);

	if (!s)
		return;
	if (end) {
		s->out->len = s->out->mark = 0;
		s->ops->end(s, end);
	}
	out_bytes(o, s->out->buf, s->out->len);
	sink__close(s, NULL);
}

void lines__header(const struct lines *l, struct out *o)
{
	put(l, NULL, o);
}

void lines__end(const struct lines *l, const struct trace_end *end, struct out *o)
{
	put(l, end, o);
}
