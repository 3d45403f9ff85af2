/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "sink/delivery/workers.h"
#include "sink/delivery/segments.h"

#include <stdlib.h>
#include <string.h>

#include "util/log.h"
#include "util/out.h"

#define SINK(id, name, help) extern const struct sink_ops name##_sink_ops;
#include "sinks.def"
#undef SINK

static const struct sink_ops *const sinks[] = {
#define SINK(id, name, help) &name##_sink_ops,
#include "sinks.def"
#undef SINK
};

static struct sink *open_on(const struct sink_ops *ops, const char *path,
			    const struct trace_info *info)
{
	struct sink *s = calloc(1, ops->size);

	if (!s) {
		err("cannot write %s: out of memory: close other programs", path ?: "a trace");
		return NULL;
	}
	s->ops = ops;
	s->base_ns = info->base_ns;
	s->out = path ? out__open(path) : out__memory();
	if (!s->out) {
		if (!path)
			err("out of memory: close other programs");
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
	return open_on(sinks[id], path, info);
}

struct sink *sink__memory(enum sink_id id, const struct trace_info *info)
{
	return open_on(sinks[id], NULL, info);
}

struct sink *sink__memory_for(const struct sink_ops *ops, const struct trace_info *info)
{
	return open_on(ops, NULL, info);
}

struct sink *sink__copy(const struct sink *s)
{
	struct sink *n = malloc(s->ops->size);

	if (!n)
		return NULL;
	memcpy(n, s, s->ops->size);
	n->workers = NULL;
	n->segments = NULL;
	n->out = out__memory();
	if (!n->out) {
		free(n);
		return NULL;
	}
	if (!n->ops->cloned(n))
		return n;
	sink__free_copy(n);
	return NULL;
}

void sink_put(struct sink *n, const char *text, size_t len)
{
	if (n->ops->put)
		n->ops->put(n, text, len);
	else
		out_bytes(n->out, text, len);
}

void sink_formatted(struct sink *n, unsigned thread)
{
	if (n->ops->formatted)
		n->ops->formatted(n, thread);
}

void sink__free_copy(struct sink *n)
{
	if (!n)
		return;
	if (n->ops->uncloned)
		n->ops->uncloned(n);
	out__close(n->out);
	free(n);
}

void sink__start_workers(struct sink *s, unsigned threads, bool wait)
{
	if (!s->out->is_file || s->segments)
		threads = 0;
	if ((!threads && !wait) || !s->ops->cloned || s->workers)
		return;
	if (s->segments) {
		s->waits = segments__wait(s);
		return;
	}
	s->workers = workers__new(s, threads, wait);
	s->waits = s->workers && wait;
}

void sink__event(struct sink *s, const struct trace_event *ev)
{
	s->event_cnt++;
	if (sink__failed(s))
		s->lost_cnt++;
	else if (s->workers)
		workers__event(s->workers, ev, s->more);
	else if (s->segments)
		segments__event(s, ev);
	else
		s->ops->event(s, ev);
}

void sink__flush(struct sink *s)
{
	if (s->workers)
		workers__wait(s->workers);
	else if (s->segments)
		split__release(s);
	out__flush(s->out);
}

void sink__tick(struct sink *s)
{
	if (s->workers)
		workers__tick(s->workers);
	else if (s->segments)
		segments__tick(s);
	out__flush(s->out);
}

bool sink__failed(const struct sink *s)
{
	return s->workers ? workers__failed(s->workers) : s->out->failed;
}

int sink__close(struct sink *s, const struct trace_end *end)
{
	struct trace_end sum = {0};

	return sink__close_into(s, end, &sum);
}

int sink__close_into(struct sink *s, const struct trace_end *end, struct trace_end *sum)
{
	int ret;

	if (!s)
		return 0;
	workers__free(s->workers);
	s->workers = NULL;
	if (s->segments)
		split__release(s);
	s->out->last = true;
	if (end && s->segments)
		segments__end(s, end);
	else if (end)
		s->ops->end(s, end);
	segments__free(s->segments);
	if (s->ops->close)
		s->ops->close(s);
	out__finish(s->out);
	if (s->out->external_change) {
		sum->output_gone_cnt++;
	} else if (out__why(s->out)) {
		sum->write_error = out__why(s->out);
		sum->lines_lost += s->lost_cnt + s->out->lost;
	}
	ret = out__close(s->out);
	free(s);
	return ret;
}
