/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "crew.h"
#include "split.h"

#include <stdlib.h>

#include "util/log.h"
#include "util/out.h"

#define SINK(id, name, help) extern const struct sink_ops name##_sink_ops;
#include "sinks.def"
#undef SINK

static const struct {
	const char *name;
	const struct sink_ops *ops;
} sinks[] = {
#define SINK(id, name, help) {#name, &name##_sink_ops},
#include "sinks.def"
#undef SINK
};

static struct sink *open_on(enum sink_id id, const char *path, const struct trace_info *info)
{
	const struct sink_ops *ops = sinks[id].ops;
	struct sink *s = calloc(1, ops->size);

	if (!s) {
		err("cannot write %s: out of memory: close other programs", path ?: sinks[id].name);
		return NULL;
	}
	s->ops = ops;
	s->base_ns = info->base_ns;
	s->out = path ? out__open(path) : out__memory();
	if (!s->out) {
		free(s);
		return NULL;
	}
	if (ops->open(s, info)) {
		sink__close(s, NULL);
		return NULL;
	}
	return s;
}

struct sink *sink__open(enum sink_id id, const char *path, const struct trace_info *info)
{
	return open_on(id, path, info);
}

struct sink *sink__memory(enum sink_id id, const struct trace_info *info)
{
	return open_on(id, NULL, info);
}

void sink__hire(struct sink *s, unsigned threads, bool wait)
{
	if (!s->out->is_file)
		threads = 0;
	if ((!threads && !wait) || !s->ops->cloned || s->crew || s->split)
		return;
	s->crew = crew__new(s, threads, wait);
	s->waits = s->crew && wait;
}

void sink__event(struct sink *s, const struct trace_event *ev)
{
	s->event_cnt++;
	if (sink__failed(s))
		s->lost_cnt++;
	else if (s->crew)
		crew__event(s->crew, ev);
	else if (s->split)
		split__event(s, ev);
	else
		s->ops->event(s, ev);
}

void sink__flush(struct sink *s)
{
	if (s->crew)
		crew__wait(s->crew);
	out__flush(s->out);
}

void sink__tick(struct sink *s)
{
	if (s->crew)
		crew__tick(s->crew);
	out__flush(s->out);
}

bool sink__failed(const struct sink *s)
{
	return s->crew ? crew__failed(s->crew) : s->out->failed;
}

int sink__close(struct sink *s, const struct trace_end *end)
{
	int ret;

	if (!s)
		return 0;
	crew__free(s->crew);
	s->crew = NULL;
	s->out->last = true;
	if (end && s->split)
		split__end(s, end);
	else if (end)
		s->ops->end(s, end);
	split__free(s->split);
	if (s->ops->close)
		s->ops->close(s);
	ret = out__close(s->out);
	free(s);
	return ret;
}
