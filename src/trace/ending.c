/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The output on stderr at the end of a trace: a summary, one line, or losses alone. */
#include "session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "text/losses_text.h"
#include "text/numbers.h"
#include "util/log.h"
#include "util/out.h"
#include "util/plain.h"

/* Columns without a terminal. */
#define WIDTH_DEFAULT 120
/* For the reader of stderr, which may be busy or stopped. */
#define LAST_WAIT_MS 2000

bool session__wants_summary(const struct session_opts *o)
{
	if (o->summary != TRI_UNSET)
		return o->summary == TRI_ON;
	return o->json || (!o->quiet && isatty(STDERR_FILENO));
}

static void print_summary(struct session *s)
{
	struct winsize ws;
	int width = WIDTH_DEFAULT;
	bool color = isatty(STDERR_FILENO) && !getenv("NO_COLOR");
	struct out *out;
	size_t size;
	char *text;
	FILE *f;

	if (!ioctl(STDERR_FILENO, TIOCGWINSZ, &ws) && ws.ws_col)
		width = ws.ws_col;
	if (s->o->json) {
		out = out__memory();
		if (!out)
			return;
		summary__json(s->summary, out, &s->t.info, &s->end);
		log_write(out->buf, out->len);
		out__close(out);
		return;
	}
	f = open_memstream(&text, &size);
	if (!f)
		return;
	if (s->o->full_summary)
		summary__print(s->summary, f, &s->t.info, &s->end, width, color);
	else
		summary__print_short(s->summary, f, &s->t.info, &s->end, s->files, s->file_cnt,
				     width, color);
	fclose(f);
	log_write(text, size);
	free(text);
}

/* "a.jsonl, b.json" */
static void put_files(const struct session *s, char *text, size_t size)
{
	char path[PLAIN_NAME_MAX(4096)];
	size_t n = 0;

	*text = '\0';
	for (unsigned i = 0; i < s->file_cnt && n < size; i++) {
		plain_name(path, strcmp(s->files[i].path, "-") ? s->files[i].path : "stdout");
		n += (size_t)snprintf(text + n, size - n, "%s%s", n ? ", " : "", path);
	}
}

/* Without a summary nothing else reports losses. Outputs have already reported their own, and
 * session__warn_no_call() reports LOSS_UNSEEN. */
static void print_line(struct session *s)
{
	char text[4096], calls[CELL_SZ], time[CELL_SZ];
	bool is_complete;

	losses__end(&s->lost, &s->end);
	is_complete = !losses__any(&s->lost);
	s->lost.cnt[LOSS_LINES] = s->lost.cnt[LOSS_OUTPUTS_GONE] = s->lost.cnt[LOSS_UNSEEN] = 0;
	s->lost.write_error = NULL;
	if (losses_line(&s->lost, text, sizeof(text)))
		warn("the trace is incomplete, missing: %s", text);
	if (s->o->quiet || s->o->view || s->o->collect || s->o->summary == TRI_OFF)
		return;
	/* Then session__warn_no_call() prints a line. */
	if (s->cmd.pid && !s->end.stats[CT_STAT_ENTRIES])
		return;
	human_count(calls, s->end.call_cnt);
	human_time(time, (double)(s->end.end_ns - s->t.info.base_ns));
	put_files(s, text, sizeof(text));
	info("%s CUDA call%s in %s, %s: %s", calls, plural(s->end.call_cnt), time,
	     is_complete ? "complete" : "INCOMPLETE", text);
}

void session__summarize(struct session *s)
{
	log_set_wait(LAST_WAIT_MS);
	if (s->summary && session__wants_summary(s->o))
		print_summary(s);
	else
		print_line(s);
}
