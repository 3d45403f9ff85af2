/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* cudatrace report: analyses saved traces. Reads them once; timelines are written during the read,
 * other formats at the end. Needs no root. */
#include "cmd.h"
#include "report_budget.h"
#include "report_tables.h"
#include "trace/command.h"

#include "report/format.h"
#include "report/step/step.h"
#include "saved/end_sum.h"
#include "saved/reader.h"
#include "sink/sink.h"
#include "text/json.h"
#include "text/losses_text.h"
#include "util/log.h"
#include "util/out.h"
#include "util/plain.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Formats that are also outputs of a trace. */
static const struct {
	const char *name, *suffix;
	enum sink_id id;
	bool for_files; /* not for terminals */
} timelines[] = {
	{"chrome", ".chrome.json", SINK_CHROME, false},
	{"perfetto", ".pftrace", SINK_PERFETTO, true},
};
/* Suffix of the folder of --format=csv. */
#define TABLES	     ".tables"
#define TIMELINE_CNT (sizeof(timelines) / sizeof(timelines[0]))

struct report_cmd {
	const struct opts *o;
	struct reader *reader;
	struct report *report;
	struct sink *timelines[TIMELINE_CNT]; /* NULL: not requested */
	struct saved_file *files;
	struct losses lost; /* of all traces and files */
	struct end_sum ends;
	unsigned trace_cnt;
	uint64_t last_ns; /* of the events */
	bool bar;	  /* a progress line is on the terminal */
	bool failed;
};

static bool wants(const struct opts *o, const char *format)
{
	return !strcmp(o->format, format) || !strcmp(o->format, "all");
}

/* The trace's name without .jsonl, .gz and the like, plus a suffix that only reports have: traces,
 * configurations and models have other names. */
static char *name_after(const char *trace, const char *suffix)
{
	static const char *const endings[] = {".gz", ".zst", ".jsonl", ".json", ".report"};
	size_t len;
	char *name;

	if (!strcmp(trace, "-"))
		trace = "stdin";
	len = strlen(trace);
	for (unsigned i = 0; i < sizeof(endings) / sizeof(endings[0]); i++) {
		size_t n = strlen(endings[i]);

		if (len > n && !memcmp(trace + len - n, endings[i], n))
			len -= n;
	}
	if (asprintf(&name, "%.*s.report%s", (int)len, trace, suffix) < 0)
		return NULL;
	return name;
}

/* Path of a format's output: -o, stdout, or a file named after the trace. */
static char *path_for(const struct opts *o, const char *suffix, bool for_files)
{
	if (!strcmp(o->format, "all"))
		return name_after(o->output ? o->output : o->files.v[0], suffix);
	if (o->output)
		return strdup(o->output);
	if (for_files && isatty(STDOUT_FILENO))
		return name_after(o->files.v[0], suffix);
	return strdup("-");
}

static void print_written(const char *path)
{
	if (strcmp(path, "-"))
		info("wrote %s", path);
}

static int open_timeline(struct report_cmd *c, unsigned i, const struct trace_info *info)
{
	char *path = path_for(c->o, timelines[i].suffix, timelines[i].for_files);

	if (!path)
		return -ENOMEM;
	c->timelines[i] = sink__open(timelines[i].id, path, info);
	if (c->timelines[i] && c->o->trace.max_file &&
	    sink__segment(c->timelines[i], path, c->o->trace.max_file, info)) {
		sink__close(c->timelines[i], NULL);
		c->timelines[i] = NULL;
	}
	free(path);
	return c->timelines[i] ? 0 : -EIO;
}

static bool is_timeline(const char *format)
{
	for (unsigned i = 0; i < TIMELINE_CNT; i++)
		if (!strcmp(format, timelines[i].name))
			return true;
	return false;
}

/* The map of a page or a profile has its place there. */
static uint64_t sections_of(const struct opts *o)
{
	bool is_page = strcmp(o->format, "ascii") && strcmp(o->format, "markdown") &&
		       strcmp(o->format, "json");

	if (is_page)
		return o->sections;
	return o->sections | (o->map ? 1ull << AN_MAP : 0) | (o->serving ? 1ull << AN_SERVING : 0);
}

static int on_begin(void *ctx, const char *path, const struct trace_info *info)
{
	struct report_cmd *c = ctx;
	const struct opts *o = c->o;
	struct report_opts ro = {
		.top = o->top,
		.map = o->map,
		.iter = o->iterations,
		.marker = o->marker,
		.gap_ns = o->gap_ns,
		.kwh_price = o->kwh_price,
		.gpu_hour_price = o->gpu_hour_price,
		.html = wants(o, "html"),
		.pprof = wants(o, "pprof"),
		.serving = o->serving,
		/* With --format=all, the text file has all sections. */
		.full = o->full || !strcmp(o->format, "all"),
		.sections = sections_of(o),
		.changes = o->changes,
		.change_cnt = o->change_cnt,
	};

	/* The first trace makes the report; further traces are added to it. */
	if (c->trace_cnt++) {
		if (c->report)
			report__also(c->report, path, info);
		return 0;
	}
	if (!is_timeline(o->format)) {
		c->report = report__new(&ro, info);
		if (!c->report) {
			err("out of memory: close other programs");
			c->failed = true;
			return -ENOMEM;
		}
		report__also(c->report, path, info);
	}
	for (unsigned i = 0; i < TIMELINE_CNT; i++) {
		if (wants(o, timelines[i].name) && open_timeline(c, i, info)) {
			c->failed = true;
			return -EIO;
		}
	}
	return 0;
}

static void on_event(void *ctx, const struct trace_event *ev)
{
	struct report_cmd *c = ctx;

	losses__event(&c->lost, ev);
	if (ev->end_ns > c->last_ns)
		c->last_ns = ev->end_ns;
	if (c->report)
		report__event(c->report, ev);
	for (unsigned i = 0; i < TIMELINE_CNT; i++)
		if (c->timelines[i])
			sink__event(c->timelines[i], ev);
}

static void on_end(void *ctx, const struct trace_info *info, const struct trace_end *end)
{
	struct report_cmd *c = ctx;

	losses__end(&c->lost, end);
	if (c->report)
		report__ended(c->report, info, end);
	end_sum__add(&c->ends, end, c->report ? c->report->base_ns : UINT64_MAX);
}

static void on_progress(void *ctx, const char *path, uint64_t pos, uint64_t size)
{
	struct report_cmd *c = ctx;

	if (!c->bar)
		return;
	fputs("\rreading ", stderr);
	plain_print(stderr, path, strlen(path));
	if (size)
		fprintf(stderr, ": %u %%\033[K", (unsigned)(100 * pos / size));
	else
		fprintf(stderr, ": %u MiB\033[K", (unsigned)(pos >> 20));
}

static bool read_files(struct report_cmd *c)
{
	const struct strv *files = &c->o->files;
	bool any;

	c->bar = isatty(STDERR_FILENO) && !c->o->trace.quiet;
	any = !reader__files(c->reader, files->v, files->cnt, c->files);
	if (c->bar)
		fputs("\r\033[K", stderr);
	return any && !c->failed;
}

static int write_format(const struct report_cmd *c, const struct report_format *format)
{
	char *path = path_for(c->o, format->suffix, format->for_files);
	struct term term;
	struct out *out;
	int ret;

	if (!path)
		return -ENOMEM;
	out = out__open(path);
	if (!out) {
		free(path);
		return -EIO;
	}
	term = term_of_fd(out->fd);
	if (c->o->width)
		term.width = c->o->width;
	ret = format->write(c->report, out, &term);
	out__commit(out);
	if (out__close(out) && !ret)
		ret = -EIO;
	if (!ret)
		print_written(path);
	free(path);
	return ret;
}

/* A flame graph in a .svg file is drawn, and not written as folded stacks. */
static const struct report_format *as_named(const struct opts *o,
					    const struct report_format *format)
{
	const struct report_format *named;

	if (!o->output || strcmp(o->format, "flamegraph"))
		return format;
	named = report_format_by_path(o->output);
	return strcmp(named->name, "svg") ? format : named;
}

static int write_tables(const struct report_cmd *c)
{
	const struct opts *o = c->o;
	char *dir = o->output ? path_for(o, TABLES, true) : name_after(o->files.v[0], TABLES);
	int ret = dir ? report_tables(o, c->report, dir) : -ENOMEM;

	if (ret == -ENOMEM)
		err("out of memory: close other programs");
	free(dir);
	return ret;
}

static int write_formats(struct report_cmd *c)
{
	const struct report_format *formats;
	unsigned cnt;
	int ret = 0;

	if (wants(c->o, "csv") && write_tables(c))
		ret = -EIO;
	formats = report_formats(&cnt);
	for (unsigned i = 0; i < cnt; i++)
		if (wants(c->o, formats[i].name) && write_format(c, as_named(c->o, &formats[i])))
			ret = -EIO;
	return ret;
}

static void add_losses(struct report_cmd *c)
{
	for (unsigned i = 0; i < c->o->files.cnt; i++)
		losses__add(&c->lost, &c->files[i].lost);
	c->lost.of_report = true;
	c->ends.end.lost = &c->lost;
}

/* Warns about losses, because not all formats can show them. */
static void print_lost(const struct report_cmd *c)
{
	char text[512];

	if (losses_line(&c->lost, text, sizeof(text)))
		info("the trace is incomplete, missing: %s", text);
}

/* text: NULL, or where a report is written as JSON instead of the outputs. Returns the exit status.
 */
static int make_report(const struct opts *o, struct out *text)
{
	static const struct reader_ops ops = {
		.begin = on_begin,
		.event = on_event,
		.end = on_end,
		.progress = on_progress,
	};
	struct report_cmd c = {.o = o};
	const struct trace_end *end;
	char error[768];
	int status = EXIT_FAILURE;
	struct json j;

	c.reader = reader__new(&ops, &c);
	c.files = calloc(o->files.cnt, sizeof(*c.files));
	if (!c.reader || !c.files) {
		err("out of memory: close other programs");
		goto out;
	}
	/* A timeline made from a saved trace equals the live one, byte for byte. */
	if (is_timeline(o->format))
		reader__keep_order(c.reader);
	if (!read_files(&c))
		goto out;
	/* A trace that was cut off makes the whole incomplete. */
	end = c.ends.cnt == c.trace_cnt ? &c.ends.end : NULL;
	status = EXIT_SUCCESS;
	if (c.report) {
		report__finish(c.report, end, c.files, o->files.cnt);
		if (text) {
			json__init(&j, text);
			report__json(c.report, &j);
		} else if (write_formats(&c)) {
			status = EXIT_FAILURE;
		}
	}
	/* Viewers accept a timeline of a trace without its end; other readers need valid JSON. */
	if (!end) {
		c.ends.end.reason = "the trace has no end";
		c.ends.end.end_ns = c.last_ns > c.ends.end.end_ns ? c.last_ns : c.ends.end.end_ns;
	}
	add_losses(&c);
	for (unsigned i = 0; i < TIMELINE_CNT; i++) {
		if (sink__close(c.timelines[i], &c.ends.end))
			status = EXIT_FAILURE;
		c.timelines[i] = NULL;
	}
	print_lost(&c);
	if (c.report && step_changes_error(c.report, error, sizeof(error))) {
		err("--what-if: %s", error);
		status = EXIT_FAILURE;
	}
out:
	for (unsigned i = 0; i < TIMELINE_CNT; i++)
		sink__close(c.timelines[i], NULL);
	report__free(c.report);
	reader__free(c.reader);
	end_sum__free(&c.ends);
	free(c.files);
	return status;
}

int report_as_json(const struct opts *o, const struct strv *files, struct out *text)
{
	struct opts of = *o;

	of.files = *files;
	of.format = "json";
	return make_report(&of, text) ? -1 : 0;
}

int cmd_report(const struct opts *o)
{
	if (command_user__owns_files())
		return EXIT_FAILURE;
	return o->budget || o->make_budget ? report_budget(o) : make_report(o, NULL);
}
