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

static struct out *clear(struct lines *l)
{
	l->sink->out->len = l->sink->out->mark = 0;
	return l->sink->out;
}

const char *lines__event(struct lines *l, const struct trace_event *ev, const char *suffix,
			 size_t suffix_len, size_t *len)
{
	struct out *o = clear(l);

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

void lines__header(struct lines *l, struct out *o)
{
	struct sink *s = sink__memory(SINK_JSONL, l->info);

	if (!s)
		return;
	out_bytes(o, s->out->buf, s->out->len);
	sink__close(s, NULL);
}

void lines__end(struct lines *l, const struct trace_end *end, struct out *o)
{
	struct out *from = clear(l);

	l->sink->ops->end(l->sink, end);
	out_bytes(o, from->buf, from->len);
}
