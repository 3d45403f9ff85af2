// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * A saved trace, as a file that somebody sent: the reader, all analyses, a comparison with itself,
 * every form of the report and the Chrome form. JSON that comes out must be valid.
 */
#include "fuzz.h"

#include <assert.h>
#include <malloc.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../unit/json_check.h"
#include "report/diff.h"
#include "report/format.h"
#include "saved/reader.h"
#include "sink/sink.h"
#include "util/log.h"

/* The page is a megabyte whatever the trace is: only every so many inputs, by their size. */
#define HTML_EVERY 16

struct run {
	struct report_opts opts;
	struct report *report;
	struct diff *diff;
	struct sink *chrome;
	struct trace_end end;
	bool has_end;
};

static int on_begin(void *ctx, const struct trace_info *info)
{
	struct run *run = ctx;

	if (!run->report) {
		run->report = report__new(&run->opts, info);
		run->chrome = sink__memory(SINK_CHROME, info);
	}
	assert(run->report && run->chrome);
	for (int side = 0; side < 2; side++)
		assert(!diff__begin(run->diff, side, info));
	return 0;
}

static void on_event(void *ctx, const struct event *ev)
{
	struct run *run = ctx;

	report__event(run->report, ev);
	sink__event(run->chrome, ev);
	for (int side = 0; side < 2; side++)
		diff__event(run->diff, side, ev);
}

static void on_end(void *ctx, const struct trace_end *end)
{
	struct run *run = ctx;

	run->end = *end;
	run->has_end = true;
	for (int side = 0; side < 2; side++)
		diff__end(run->diff, side, end);
}

static void write_formats(struct run *run, const struct saved_file *file)
{
	const struct report_format *formats;
	unsigned cnt;

	report__finish(run->report, run->has_end ? &run->end : NULL, file, 1);
	formats = report_formats(&cnt);
	for (unsigned i = 0; i < cnt; i++) {
		struct term term = {.width = 80};
		struct out *out;

		if (!strcmp(formats[i].name, "html") && !run->opts.html)
			continue;
		out = out__memory();
		assert(out && !formats[i].write(run->report, out, &term));
		if (!strcmp(formats[i].name, "json"))
			assert(json_valid(out->buf, out->len - 1)); /* a newline ends it */
		out__close(out);
	}
}

static void write_diff(struct run *run)
{
	struct out *out = out__memory();
	struct json j;

	/* A trace is no different from itself. */
	assert(!diff__finish(run->diff));
	json__init(&j, out);
	diff__json(run->diff, &j);
	assert(json_valid(out->buf, out->len));
	out__close(out);
}

static int put(const uint8_t *data, size_t size)
{
	static int fd = -1;

	if (fd < 0)
		fd = memfd_create("trace", MFD_CLOEXEC);
	if (fd < 0 || ftruncate(fd, 0) || pwrite(fd, data, size, 0) != (ssize_t)size)
		abort();
	return fd;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct reader_ops ops = {on_begin, on_event, on_end, NULL};
	struct run run = {.opts = {.top = 1 + size % 20, .iter = size / 8 % (ITER_GAP + 1)}};
	struct saved_file file;
	struct reader *reader;
	char path[32];

	run.opts.html = size % HTML_EVERY == 0;
	run.opts.marker = "cuStreamSynchronize";
	run.opts.gap_ns = 1000000;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", put(data, size));
	log_set_level(LOG_ERR);
	/* Else half of the time goes into giving memory back and asking for it again. */
	mallopt(M_MMAP_THRESHOLD, 1 << 30);
	mallopt(M_TRIM_THRESHOLD, 1 << 30);
	reader = reader__new(&ops, &run);
	run.diff = diff__new(&run.opts);
	assert(reader && run.diff);
	reader__file(reader, path, &file);
	if (run.report) {
		write_formats(&run, &file);
		write_diff(&run);
		sink__close(run.chrome, run.has_end ? &run.end : NULL);
	}
	diff__free(run.diff);
	report__free(run.report);
	reader__free(reader);
	return 0;
}
