/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* cudatrace diff OLD NEW: what changed between two saved traces. Exit status like diff(1): 0: no
 * change, 1: a change, 2: an error; 3: no recorded value changed, but a trace is incomplete. With
 * --budget: that of report --budget. */
#include "cmd.h"
#include "report_budget.h"

#include "report/diff.h"
#include "report/format.h"
#include "saved/reader.h"
#include "util/log.h"
#include "util/memlimit.h"
#include "util/out.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXIT_SAME      0
#define EXIT_DIFFERENT 1
#define EXIT_TROUBLE   2
#define EXIT_UNKNOWN   3

struct diff_cmd {
	struct diff *diff;
	int side;
	bool has_begun; /* the trace of this side */
	bool failed;
};

static int on_begin(void *ctx, const char *path, const struct trace_info *info)
{
	struct diff_cmd *c = ctx;

	c->has_begun = true;
	if (diff__begin(c->diff, c->side, info)) {
		err("out of memory: close other programs");
		c->failed = true;
	}
	return c->failed ? -1 : 0;
}

static void on_event(void *ctx, const struct trace_event *ev)
{
	struct diff_cmd *c = ctx;

	diff__event(c->diff, c->side, ev);
}

static void on_end(void *ctx, const struct trace_info *info, const struct trace_end *end)
{
	struct diff_cmd *c = ctx;

	if (c->has_begun)
		diff__end(c->diff, c->side, info, end);
}

static int write_json(const struct diff *d)
{
	struct out *o = out__open("-");
	struct json j;

	if (!o)
		return -1;
	json__init(&j, o);
	diff__json(d, &j);
	out_char(o, '\n');
	out__commit(o);
	return out__close(o);
}

static int compare(const struct opts *o)
{
	static const struct reader_ops ops = {.begin = on_begin, .event = on_event, .end = on_end};
	const struct report_opts ro = {
		.top = o->top, .iter = o->iterations, .marker = o->marker, .gap_ns = o->gap_ns};
	struct reader *readers[2] = {NULL, NULL};
	struct diff_cmd c = {.diff = diff__new(&ro)};
	struct saved_file file;
	/* The second trace has as much memory as the first. */
	void *reserve = memlimit_new(MEMLIMIT_TRACES, MEMLIMIT_SZ / 2);
	int status = EXIT_TROUBLE;
	struct term term;
	unsigned differ;

	if (!c.diff)
		goto out;
	/* The strings of the first must outlive the second. */
	for (; c.side < 2; c.side++) {
		c.has_begun = false;
		if (c.side) {
			memlimit_free(reserve);
			reserve = NULL;
		}
		readers[c.side] = reader__new(&ops, &c);
		if (!readers[c.side]) {
			err("out of memory: close other programs");
			goto out;
		}
		if (reader__files(readers[c.side], &o->files.v[c.side], 1, &file) || c.failed)
			goto out;
		if (!c.has_begun) {
			err("cannot compare %s: its header cannot be read: trace again",
			    o->files.v[c.side]);
			goto out;
		}
		diff__file(c.diff, c.side, &file);
	}
	differ = diff__finish(c.diff);
	if (o->trace.json) {
		if (write_json(c.diff))
			goto out;
	} else {
		term = term_of_fd(STDOUT_FILENO);
		if (o->width)
			term.width = o->width;
		term.f = stdout;
		diff__print(c.diff, &term, o->top);
		if (fflush(stdout)) {
			err("cannot write to stdout: %s", strerror(errno));
			goto out;
		}
	}
	status = differ ? EXIT_DIFFERENT : diff__is_unknown(c.diff) ? EXIT_UNKNOWN : EXIT_SAME;
out:
	memlimit_free(reserve);
	diff__free(c.diff);
	reader__free(readers[0]);
	reader__free(readers[1]);
	return status;
}

int cmd_diff(const struct opts *o)
{
	return o->budget ? diff_budget(o) : compare(o);
}
