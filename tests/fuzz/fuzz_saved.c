/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Lines of saved traces, of every kind of event: from JSON to the event, and from there to its
 * Chrome and Perfetto forms. It has no files and analyses, unlike fuzz_jsonl, and is a hundred
 * times as fast.
 */
#include "fuzz.h"

#include <assert.h>

#include "../unit/json_check.h"
#include "saved/saved.h"
#include "sink/sink.h"
#include "util/out.h"

/* After this many runs everything is created anew, because a trace keeps names and processes. */
#define RUNS 256

static struct parser *parser;
static struct saved *saved;
static struct sink *chrome, *perfetto;

static void close_all(void)
{
	sink__close(chrome, NULL);
	sink__close(perfetto, NULL);
	saved__free(saved);
	parser__free(parser);
	parser = NULL;
}

static void clear(void)
{
	chrome->out->len = chrome->out->mark = 0;
	perfetto->out->len = perfetto->out->mark = 0;
}

static void open_all(void)
{
	static const struct trace_info info = {.version = "fuzz"};

	parser = parser__new();
	saved = saved__new();
	chrome = sink__memory(SINK_CHROME, &info);
	perfetto = sink__memory(SINK_PERFETTO, &info);
	assert(parser && saved && chrome && perfetto);
	clear();
}

static void on_event(const struct trace_event *ev)
{
	struct out *out = chrome->out;

	assert(ev->name && ev->op && (ev->kind != EVENT_CALL || ev->fn));
	out_char(out, '[');
	sink__event(chrome, ev);
	/* Events, each followed by a comma, in one line or several. */
	if (out->len > 1) {
		assert(!memcmp(out->buf + out->len - 2, ",\n", 2));
		out->buf[out->len - 2] = ']';
		assert(json_valid_loose(out->buf, out->len - 1));
	}
	/* Consecutive whole units. */
	sink__event(perfetto, ev);
	out = perfetto->out;
	for (size_t at = 0, n; at < out->len; at += n) {
		n = out->unit_len(out->buf + at, out->len - at);
		assert(n && n <= out->len - at);
	}
	clear();
}

/* Like saved/stream.c; line is followed by PARSE_SLACK. */
static void on_line(const char *line, size_t len)
{
	struct json_value p;
	struct trace_event ev;
	const char *why;
	int kind;

	if (parser__line(parser, line, len, &p))
		return;
	kind = saved__line(saved, &p, line, &ev, &why);
	if (kind == SAVED_HEADER)
		saved__place(saved, len % 2);
	if ((kind == SAVED_EVENT || kind == SAVED_STACK) && !saved__info(saved)) {
		assert(!saved__begin(saved));
		saved__place(saved, false);
		kind = saved__line(saved, &p, line, &ev, &why);
	}
	if (kind == SAVED_EVENT)
		on_event(&ev);
	else if (kind < 0)
		assert(*why);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static unsigned runs;
	char *text = calloc(1, size + 1 + PARSE_SLACK), *nl;
	size_t len;

	assert(text);
	memcpy(text, data, size);
	if (!parser)
		open_all();
	for (char *line = text; line < text + size; line += len + 1) {
		nl = memchr(line, '\n', text + size - line);
		len = nl ? (size_t)(nl - line) : (size_t)(text + size - line);
		line[len] = '\0';
		on_line(line, len);
	}
	free(text);
	if (!(++runs % RUNS))
		close_all();
	return 0;
}
