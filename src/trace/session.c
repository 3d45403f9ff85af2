/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A trace from start to end:
 *   parse the selection (-e), load the BPF side, measure the cost, fork the command (it waits),
 *   attach libraries, open outputs and write their header, release the command, loop, detach, drain
 *   the sources, write calls in flight, end lines, summary.
 */
#include "session.h"

#include "util/clock.h"
#include "util/log.h"
#include "util/opener.h"
#include "util/reader.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

void session__event(void *session, const struct trace_event *ev)
{
	struct session *s = session;

	if (ev->kind == EVENT_PROCESS && !strcmp(ev->op, "exit")) {
		session__count_exit(s, ev->pid, ev->generation);
		tracer__exited(&s->t, ev);
	}
	if (s->o->view)
		s->o->view->event(s->o->view, ev);
	if (s->budget && ev->kind == EVENT_CALL)
		budget__call(s->budget, ev);
	capture_range__event(&s->capture, ev);
	if (!capture_range__has(&s->capture, ev)) {
		s->outside_cnt += ev->kind == EVENT_CALL;
		return;
	}
	if (s->o->max_events && s->end.event_cnt >= s->o->max_events)
		return;
	s->lib_cnt += ev->kind == EVENT_LIBRARY;
	s->missed_cnt += ev->kind == EVENT_LIBRARY && !strcmp(ev->op, "failed");
	/* The next file's header names the library. */
	if (s->o->max_file && ev->kind == EVENT_LIBRARY)
		tracer__fill_libs(&s->t);
	losses__event(&s->lost, ev);
	waits__event(s->waits, ev);
	s->end.event_cnt += ev->kind != EVENT_STACK; /* a stack is not an event by itself */
	s->end.type_cnt[ev->type]++;
	s->end.call_cnt += ev->kind == EVENT_CALL;
	s->end.level_cnt += ev->kind == EVENT_TRACER && ev->tracer.from;
	if (!ev->unfinished && ev->end_ns > s->end.end_ns)
		s->end.end_ns = ev->end_ns;
	for (unsigned i = 0; i < s->sink_cnt; i++)
		sink__event(s->sinks[i], ev);
	if (s->summary)
		summary__event(s->summary, ev);
	/* A stack may come before any event. */
	if (s->o->max_events && s->end.event_cnt == s->o->max_events) {
		/* This is the reason also if the command has ended meanwhile, because later events
		 * are not written. */
		s->end.reason = "max-events";
		s->stopping = true;
	}
}

static bool finish(struct session *s)
{
	uint64_t stop_ns = now_ns();
	bool ok;

	progress__free(s->progress);
	s->progress = NULL;
	/* Continue stopped processes before slow steps, and again those stopped in between. */
	attach__go_on_all(s->t.att);
	model__calls_end(s->t.model, stop_ns);
	attach__detach(s->t.att);
	sources__stop(&s->t.sources);
	attach__go_on_all(s->t.att);
	/* Without a command, signals that end the trace stay pending, so no output waits for its
	 * reader. */
	if (s->cmd.pid)
		session__take_signals(s);
	if (!s->hurry)
		tracer__finish(&s->t);
	if (s->cmd.pid)
		session__take_signals(s);
	session__report_lost(s, now_ns(), true);
	if (s->o->view)
		s->o->view->end(s->o->view);
	/* Detaching takes time, and calls are recorded until it is done. */
	if (s->end.end_ns < stop_ns)
		s->end.end_ns = stop_ns;
	ok = session__close_outputs(s);
	session__summarize(s);
	/* --all-layers (with torch) records what exists. */
	if (s->o->python.cnt && !s->o->torch && s->end.stats[CT_STAT_ENTRIES] && !s->t.has_python &&
	    !s->t.unknown_python_cnt)
		warn("--python: no CPython (3.8 to 3.14) was found in the processes that made "
		     "calls: no call has Python frames");
	session__warn_no_call(s);
	return ok;
}

static void release(struct session *s)
{
	progress__free(s->progress);
	while (s->sink_cnt)
		sink__close(s->sinks[--s->sink_cnt], NULL);
	for (unsigned i = 0; i < SESSION_MAX_SINKS; i++)
		free((char *)s->files[i].path);
	command__cancel(&s->cmd);
	/* A process of -p may be stopped already although the start failed. */
	if (s->guard.pid && s->t.att) {
		attach__detach(s->t.att);
		attach__go_on_all(s->t.att);
	}
	late__end(&s->late);
	guard__end(&s->guard);
	command_user__free(&s->user);
	free(s->nvtx);
	summary__free(s->summary);
	waits__free(s->waits);
	budget__free(s->budget);
	capture_range__free(&s->capture);
	unreached__free(s->unreached);
	tracer__close(&s->t);
	reader__end();
	opener__end();
	session__close_signals(s);
}

int session__run(const struct session_opts *o)
{
	static struct session s;
	int ret, status = 1;

	s.own = *o;
	s.o = &s.own;
	s.capture.kind = o->capture;
	s.capture.name = o->capture_name;
	log_set_wait(LOG_WAIT_MS);
	s.signals.fd = s.signals.quit_fd = -1;
	s.t.fns = fnset__new();
	ret = s.t.fns ? session__start(&s) : -ENOMEM;
	if (ret == EXIT_USAGE)
		status = EXIT_USAGE;
	if (!ret) {
		session__loop(&s);
		status = finish(&s) ? 0 : 1;
		session__await_command(&s);
		if (s.cmd.pid && !command__ended(&s.cmd))
			status = 128 + SIGINT;
		else if (s.cmd.pid && command__status(&s.cmd))
			status = command__status(&s.cmd);
	} else if (s.sink_cnt) {
		/* Another output or the command failed: close the outputs that exist. */
		session__stop(&s, "could not start");
		s.end.end_ns = now_ns();
		session__close_outputs(&s);
	}
	release(&s);
	return status;
}
