/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "top.h"

#include "plain.h"
#include "stats.h"
#include "screen.h"
#include "util/clock.h"
#include "util/log.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

struct top {
	struct session_view view;
	const struct top_opts *o;
	struct session *session;
	struct top_stats rows;
	bool is_screen;
	struct tty tty;
	struct screen screen;
	uint64_t due_ns; /* 0: nothing was read yet */
	uint64_t tables; /* tables still to be printed */
	bool has_failed; /* a table could not be written */
};

static int on_open(struct session_view *v, struct session *s)
{
	struct top *t = (struct top *)v;
	int ret;

	t->session = s;
	ret = stats__open(&t->rows, s);
	return ret || !t->is_screen ? ret : screen__open(&t->screen, &t->tty);
}

static void on_event(struct session_view *v, const struct trace_event *ev)
{
	stats__event(&((struct top *)v)->rows, ev);
}

static void on_use(struct session_view *v, uint32_t pid, const char comm[16])
{
	stats__use(&((struct top *)v)->rows, pid, comm);
}

static void on_reuse(struct session_view *v, unsigned func_id)
{
	stats__forget_fn(&((struct top *)v)->rows, func_id);
}

/* Earlier work of running processes belongs to no interval; a command has none. */
static void begin(struct top *t, uint64_t now)
{
	const struct session_opts *o = t->session->o;

	for (unsigned i = 0; i < o->pid_cnt; i++)
		stats__expect(&t->rows, o->pids[i]);
	if (o->argv)
		t->rows.to_ns = t->session->t.info.base_ns;
	else
		stats__read(&t->rows, now);
	t->due_ns = t->rows.to_ns + t->o->interval_ns;
	if (t->is_screen)
		screen__draw(&t->screen, &t->rows);
}

static void print(struct top *t, uint64_t now)
{
	int ret;

	stats__read(&t->rows, now);
	ret = top_print(&t->rows, t->o->json);
	if (ret && ret != -EPIPE && !t->has_failed) {
		err("cannot write the table to standard output: %s: free space there, or send it elsewhere",
		    strerror(-ret));
		t->has_failed = true;
	}
	if (ret)
		session__stop(t->session, NO_OUTPUT);
	else if (!--t->tables)
		session__stop(t->session, ENOUGH);
}

static uint64_t on_tick(struct session_view *v, uint64_t now)
{
	struct top *t = (struct top *)v;

	if (!t->due_ns)
		begin(t, now);
	if (t->is_screen && (tty__is_lost(&t->tty) || !screen__keys(&t->screen, &t->rows)))
		session__stop(t->session, ENOUGH);
	if (now < t->due_ns)
		return t->due_ns;
	/* Skip missed intervals if the tracer was late. */
	t->due_ns += t->o->interval_ns;
	if (t->due_ns <= now)
		t->due_ns = now + t->o->interval_ns;
	if (!t->is_screen) {
		print(t, now);
	} else if (!t->screen.paused) {
		stats__read(&t->rows, now);
		screen__draw(&t->screen, &t->rows);
	}
	return t->due_ns;
}

/* Everything ended before the interval: prints the last one. */
static void on_end(struct session_view *v)
{
	struct top *t = (struct top *)v;
	const char *why = t->session->end.reason;

	if (t->is_screen) {
		screen__close(&t->screen);
		tty__restore(&t->tty);
		return;
	}
	if (t->tables && t->due_ns && why && strstr(why, "exited"))
		print(t, now_ns());
}

int top_run(const struct session_opts *trace, const struct top_opts *o)
{
	static struct top t;
	struct session_opts so = *trace;
	int status = 1;

	t.o = o;
	t.view = (struct session_view){on_open, on_event, on_use, on_reuse,
				       on_tick, on_end,	  -1,	  o->json};
	t.tables = o->tables ?: 1;
	t.is_screen = !o->tables && !o->json && isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
	if (t.is_screen && tty__open(&t.tty))
		return 1;
	if (t.is_screen)
		t.view.fd = fileno(t.tty.in);
	so.view = &t.view;
	status = session__run(&so);
	stats__close(&t.rows);
	if (t.is_screen) {
		screen__close(&t.screen);
		tty__close(&t.tty);
	}
	return status ?: t.has_failed;
}
