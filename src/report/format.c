/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "format.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "report/map/map.h"
#include "report/page/html.h"
#include "report/page/profile.h"
#include "report/page/stacks.h"
#include "util/log.h"

/* Columns for a file or a pipe. */
#define FILE_WIDTH 120

struct term term_of_fd(int fd)
{
	struct term term = {.width = FILE_WIDTH};
	struct winsize ws;

	if (!ioctl(fd, TIOCGWINSZ, &ws) && ws.ws_col)
		term.width = ws.ws_col;
	term.color = isatty(fd) && !getenv("NO_COLOR");
	return term;
}

static int write_ascii(const struct report *r, struct out *o, const struct term *term)
{
	struct term mem = *term;
	char *text = NULL;
	size_t len = 0;

	mem.f = open_memstream(&text, &len);
	if (!mem.f)
		return -ENOMEM;
	report__print(r, &mem);
	if (fclose(mem.f)) {
		free(text);
		return -ENOMEM;
	}
	out_bytes(o, text, len);
	free(text);
	return 0;
}

/* Width has no meaning there: no column is dropped, and no name is cut. */
#define MARKDOWN_WIDTH 1000

static int write_markdown(const struct report *r, struct out *o, const struct term *term)
{
	const struct term markdown = {.width = MARKDOWN_WIDTH, .is_markdown = true};

	return write_ascii(r, o, &markdown);
}

static int write_json(const struct report *r, struct out *o, const struct term *term)
{
	struct json j;

	json__init(&j, o);
	report__json(r, &j);
	out_char(o, '\n');
	return 0;
}

static int write_html(const struct report *r, struct out *o, const struct term *term)
{
	struct out *text = out__memory();
	struct json j;
	int ret = -ENOMEM;

	if (text) {
		text->is_checked = true;
		json__init(&j, text);
		report__json(r, &j);
		if (!text->failed)
			ret = html__write(o, text->buf, text->len, r->html);
	}
	out__close(text);
	if (ret)
		err("cannot write the HTML report: %s", strerror(-ret));
	return ret;
}

static int write_folded(const struct report *r, struct out *o, const struct term *term)
{
	if (r->opts.map)
		map_fold(r, o);
	else
		flame_fold(r, o);
	return 0;
}

static int write_svg(const struct report *r, struct out *o, const struct term *term)
{
	flame_svg(r, o);
	return 0;
}

static int write_pprof(const struct report *r, struct out *o, const struct term *term)
{
	return pprof_write(r, o);
}

static const struct report_format formats[] = {
	{"ascii", ".txt", false, write_ascii},	{"json", ".json", false, write_json},
	{"html", ".html", true, write_html},	{"flamegraph", ".folded", false, write_folded},
	{"svg", ".svg", true, write_svg},	{"markdown", ".md", false, write_markdown},
	{"pprof", ".pb.gz", true, write_pprof},
};

const struct report_format *report_formats(unsigned *cnt)
{
	*cnt = sizeof(formats) / sizeof(formats[0]);
	return formats;
}

const struct report_format *report_format_by_path(const char *path)
{
	size_t len = strlen(path);

	for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
		size_t n = strlen(formats[i].suffix);

		if (len > n && !strcmp(path + len - n, formats[i].suffix))
			return &formats[i];
	}
	return &formats[0];
}
