/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "clock_read.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "saved.h"

/* The accuracy of GPU times in a trace that was cut off; measured ones are below 2 us. */
#define GPU_ERROR_NS 100000
/* In lines of cudatrace, the type comes second. */
#define TYPE_FAR 64

static bool begins(const char *text, const char *with)
{
	return !strncmp(text, with, strlen(with));
}

/* Skips most lines without parsing them. Lines that other programs have rewritten are parsed. */
static bool may_concern(const char *line, size_t len, bool gpu_time)
{
	static const char mark[] = "\"type\":\"", nccl[] = "\"kernel\":\"nccl";
	const char *type = memmem(line, len < TYPE_FAR ? len : TYPE_FAR, mark, sizeof(mark) - 1);

	if (!type)
		return true;
	type += sizeof(mark) - 1;
	if (begins(type, "gpu\"") || begins(type, "kernel\""))
		return gpu_time && memmem(type, len - (type - line), nccl, sizeof(nccl) - 1);
	if (begins(type, "sync\"") || begins(type, "event\"") || begins(type, "stream\""))
		return !gpu_time;
	if (begins(type, "graph\"")) /* captures: what is in them does not run */
		return memmem(type, len - (type - line), "BeginCapture", strlen("BeginCapture")) ||
		       memmem(type, len - (type - line), "EndCapture", strlen("EndCapture"));
	return begins(type, "collective\"") || begins(type, "header\"") || begins(type, "end\"");
}

struct clock_reader {
	struct clock_scan scan;
	struct saved *saved;
	struct parser *parser;
	struct lines lines;
	uint64_t gpu_error_ns;
	bool has_header, gpu_time;
};

/* Returns false at the end of the first trace of the file. */
static bool on_line(struct clock_reader *r, const char *line, size_t len, uint32_t unit)
{
	const struct trace_end *end;
	struct json_value p;
	struct trace_event ev;
	const char *why;

	if (parser__line(r->parser, line, len, &p))
		return true;
	switch (saved__line(r->saved, &p, line, &ev, &why)) {
	case SAVED_HEADER:
		if (r->has_header)
			return false;
		r->has_header = true;
		saved__place(r->saved, false);
		r->gpu_time = saved__info(r->saved)->gpu_time;
		clock_scan__begin(&r->scan, unit, r->gpu_time);
		break;
	case SAVED_EVENT:
		if (r->has_header)
			clock_scan__event(&r->scan, &ev);
		break;
	case SAVED_END:
		end = saved__end(r->saved);
		r->gpu_error_ns = end->gpu.clock_steps ? UINT64_MAX : end->gpu.clock_error_ns;
		return false;
	}
	return true;
}

static void read_file(struct clock_reader *r, struct lines_all *all, const char *path,
		      uint32_t unit)
{
	struct saved_file unused;
	const char *line;
	bool whole;
	size_t len;

	r->saved = saved__new();
	r->parser = parser__new();
	r->has_header = r->gpu_time = false;
	r->gpu_error_ns = GPU_ERROR_NS;
	if (r->saved && r->parser && !lines__open(&r->lines, all, path, &unused)) {
		lines__be_quiet(&r->lines);
		while ((line = lines__next(&r->lines, &len, &whole)))
			if (whole && may_concern(line, len, r->gpu_time) &&
			    !on_line(r, line, len, unit))
				break;
		lines__close(&r->lines);
	}
	if (r->has_header)
		clock_scan__end(&r->scan, r->gpu_error_ns);
	parser__free(r->parser);
	saved__free(r->saved);
}

/* The trace that begins first defines the reference. */
static void add_units(struct clocks *c, const struct stream *streams, unsigned cnt)
{
	const struct stream *first = streams;
	struct saved *s = saved__new();

	for (const struct stream *st = streams; s && st < streams + cnt; st++)
		if (saved__earlier(s, &st->files->head, &first->files->head))
			first = st;
	saved__free(s);
	if (cnt)
		clocks__add(c, &first->files->head);
	for (const struct stream *st = streams; st < streams + cnt; st++)
		clocks__add(c, &st->files->head);
}

void clock_read__files(struct clocks *c, struct lines_all *all, const struct stream *streams,
		       unsigned cnt)
{
	struct clock_reader *r;

	add_units(c, streams, cnt);
	r = c->cnt > 1 ? calloc(1, sizeof(*r)) : NULL;
	if (!r) {
		clocks__free(c);
		return;
	}
	for (const struct stream *st = streams; st < streams + cnt; st++) {
		const struct clock_unit *u = clocks__find(c, &st->files->head);

		for (const struct stream_file *f = st->files; u && f; f = f->next)
			if (!f->lines.in)
				read_file(r, all, f->path, (uint32_t)(u - c->units));
	}
	clocks__compare(c, r->scan.seen, r->scan.cnt);
	if (!clocks__any(c))
		clocks__free(c);
	clock_scan__free(&r->scan);
	free(r);
}
