/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A saved trace, as a file from an unknown sender: the reader, all analyses, the Chrome form;
 * depending on the input's size, a form of the report and a comparison with itself. Written JSON
 * must be valid.
 */
#include "fuzz.h"

#include <assert.h>
#include <malloc.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../unit/json_check.h"
#include "report/diff.h"
#include "report/format.h"
#include "saved/reader.h"
#include "sink/sink.h"
#include "util/log.h"

/* One size of this many. The page is a megabyte for any trace; a comparison has two traces.
 */
#define HTML_EVERY 16
#define DIFF_EVERY 4
/* After this many runs the reader is replaced, because it keeps names and processes. */
#define RUNS 64

struct run {
	struct report_opts opts;
	struct report *report;
	struct diff *diff;
	struct sink *chrome;
	struct trace_end end;
	bool has_end;
};

static int on_begin(void *ctx, const char *path, const struct trace_info *info)
{
	struct run *run = ctx;

	if (!run->report) {
		run->report = report__new(&run->opts, info);
		run->chrome = sink__memory(SINK_CHROME, info);
	}
	assert(run->report && run->chrome);
	for (int side = 0; side < 2 && run->diff; side++)
		assert(!diff__begin(run->diff, side, info));
	return 0;
}

static void on_event(void *ctx, const struct trace_event *ev)
{
	struct run *run = ctx;

	report__event(run->report, ev);
	sink__event(run->chrome, ev);
	for (int side = 0; side < 2 && run->diff; side++)
		diff__event(run->diff, side, ev);
}

static void on_end(void *ctx, const struct trace_info *info, const struct trace_end *end)
{
	struct run *run = ctx;

	run->end = *end;
	run->has_end = true;
	for (int side = 0; side < 2 && run->diff && run->report; side++)
		diff__end(run->diff, side, info, end);
}

static const struct report_format *format_of(size_t size)
{
	unsigned cnt;
	const struct report_format *formats = report_formats(&cnt), *f;

	if (size % HTML_EVERY == 0)
		return report_format_by_path("page.html");
	f = &formats[size / HTML_EVERY % cnt];
	return strcmp(f->name, "html") ? f : formats;
}

static void write_format(struct run *run, const struct saved_file *file, size_t size)
{
	const struct report_format *f = format_of(size);
	struct term term = {.width = 80};
	struct out *out = out__memory();

	report__finish(run->report, run->has_end ? &run->end : NULL, file, 1);
	assert(out && !f->write(run->report, out, &term));
	if (!strcmp(f->name, "json"))
		assert(json_valid(out->buf, out->len - 1)); /* a newline ends it */
	out__close(out);
}

static void write_diff(struct run *run)
{
	struct out *out = out__memory();
	struct json j;

	/* A trace must not differ from itself. */
	assert(!diff__finish(run->diff));
	json__init(&j, out);
	diff__json(run->diff, &j);
	assert(json_valid(out->buf, out->len));
	out__close(out);
}

/* Replaces stdin by the input, without system calls. */
static struct input in;

ssize_t read(int fd, void *to, size_t n)
{
	if (fd)
		return syscall(SYS_read, fd, to, n);
	n = n < in.left ? n : in.left;
	take(&in, to, n);
	return n;
}

int fstat(int fd, struct stat *st)
{
	if (fd)
		return syscall(SYS_fstat, fd, st);
	*st = (struct stat){.st_mode = S_IFREG | 0600, .st_size = in.left};
	return 0;
}

static void open_all(void)
{
	log_set_level(LOG_ERR);
	/* Otherwise freeing and allocating memory takes half of the time. */
	mallopt(M_MMAP_THRESHOLD, 1 << 30);
	mallopt(M_TRIM_THRESHOLD, 1 << 30);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct reader_ops ops = {on_begin, on_event, on_end, NULL};
	static struct reader *reader;
	static struct run run;
	static unsigned runs;
	struct saved_file file;

	if (!runs)
		open_all();
	if (!reader)
		reader = reader__new(&ops, &run);
	run = (struct run){.opts = {.top = 1 + size % 20, .iter = size / 8 % (ITER_GAP + 1)}};
	run.opts.html = !strcmp(format_of(size)->name, "html");
	run.opts.pprof = !strcmp(format_of(size)->name, "pprof");
	run.opts.map = size / 2 % 2 ? size % (MAP_BY_CALLS + 1) : MAP_BY_NONE;
	run.opts.serving = size % 2;
	run.opts.marker = "cuStreamSynchronize";
	run.opts.gap_ns = 1000000;
	in = (struct input){data, size};
	run.diff = size % DIFF_EVERY ? NULL : diff__new(&run.opts);
	assert(reader && (size % DIFF_EVERY || run.diff));
	reader__file(reader, "-", &file);
	if (run.report) {
		write_format(&run, &file, size);
		if (run.diff)
			write_diff(&run);
		sink__close(run.chrome, run.has_end ? &run.end : NULL);
	}
	diff__free(run.diff);
	report__free(run.report);
	if (!(++runs % RUNS)) {
		reader__free(reader);
		reader = NULL;
	}
	return 0;
}
