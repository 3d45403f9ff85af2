/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "progress.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "text/table.h"

#define REDRAW_NS 250000000

struct progress {
	FILE *f;
	int width; /* 0: query the terminal, because it may change */
	bool shown;
	uint64_t drawn_ns; /* 0: never */
	uint64_t event_cnt, launch_cnt;
};

struct progress *progress__new_width(FILE *f, int width)
{
	struct progress *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->f = f;
	p->width = width;
	return p;
}

struct progress *progress__new(FILE *f)
{
	const char *term = getenv("TERM");

	if (!isatty(fileno(f)) || (term && !strcmp(term, "dumb")))
		return NULL;
	return progress__new_width(f, 0);
}

/* A stopped terminal (Ctrl-S) must not stop the trace. */
static bool is_stopped(const struct progress *p)
{
	struct pollfd out = {.fd = fileno(p->f), .events = POLLOUT};

	return out.fd >= 0 && poll(&out, 1, 0) == 0;
}

void progress__clear(struct progress *p)
{
	if (!p || !p->shown || is_stopped(p))
		return;
	p->shown = false;
	fputs("\r\033[K", p->f);
	fflush(p->f);
}

void progress__free(struct progress *p)
{
	progress__clear(p);
	free(p);
}

static int term_width(const struct progress *p)
{
	struct winsize ws;

	if (p->width)
		return p->width;
	if (!ioctl(fileno(p->f), TIOCGWINSZ, &ws) && ws.ws_col)
		return ws.ws_col;
	return 80;
}

static void per_second(char cell[CELL_SZ], uint64_t now, uint64_t before, uint64_t ns)
{
	human_count(cell, (now - before) * 1e9 / ns + 0.5);
}

/* A line that wraps cannot be drawn over, so parts that do not fit are omitted, the least important
 * first. */
static void put_parts(struct progress *p, char parts[][64], int cnt)
{
	int col = 0, len, i, width = term_width(p) - 1;

	fputs("\r", p->f);
	for (i = 0; i < cnt; i++) {
		/* every part is ASCII */
		len = strlen(parts[i]) + (i ? 2 : 0);
		if (!parts[i][0] || col + len > width)
			continue;
		fprintf(p->f, "%s%s", i ? "  " : "", parts[i]);
		col += len;
	}
	fputs("\033[K", p->f);
	fflush(p->f);
}

void progress__update(struct progress *p, uint64_t now_ns, const struct summary_totals *t,
		      uint64_t drop_cnt)
{
	char parts[5][64] = {}, cell[CELL_SZ];
	uint64_t ns;

	if (!p || (p->drawn_ns && now_ns - p->drawn_ns < REDRAW_NS) || is_stopped(p))
		return;
	ns = p->drawn_ns ? now_ns - p->drawn_ns : 0;
	snprintf(parts[0], sizeof(parts[0]), "%s", HUMAN_NOUNS(t->event_cnt, "event"));
	if (drop_cnt) {
		snprintf(parts[1], sizeof(parts[1]), "%s LOST", HUMAN_COUNT(drop_cnt));
	}
	if (ns) {
		per_second(cell, t->event_cnt, p->event_cnt, ns);
		snprintf(parts[2], sizeof(parts[2]), "%s/s", cell);
		per_second(cell, t->launch_cnt, p->launch_cnt, ns);
		snprintf(parts[3], sizeof(parts[3]), "%s launches/s", cell);
	}
	human_bytes(cell, t->device_bytes);
	if (!t->no_bytes)
		snprintf(parts[4], sizeof(parts[4]), "%s on the device", cell);
	put_parts(p, parts, 5);
	p->shown = true;
	p->drawn_ns = now_ns;
	p->event_cnt = t->event_cnt;
	p->launch_cnt = t->launch_cnt;
}
