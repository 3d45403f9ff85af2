/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Loads the in-process library into running processes: by ctl inject, and by rules with inject. */
#include "daemon_priv.h"

#include "util/log.h"

#include <stdlib.h>
#include <string.h>

/* By rules, a process is entered after this time: one that starts makes no calls yet. */
#define AFTER_NS 10000000000ull
/* Each process once; so many in a second. */
#define TURN_MAX 4

static void set_result(struct dproc *p, const char *text)
{
	free(p->inject);
	p->inject = strdup(text);
}

static void count(struct daemon *d, struct dproc *p, const char *why)
{
	d->injections[why ? LATE_REFUSED : LATE_ENTERED]++;
	if (p)
		set_result(p, why ?: "entered");
}

static void on_result(void *ctx, pid_t pid, const char *why)
{
	struct daemon *d = ctx;

	dbg("process %d: %s", pid, why ?: "the library was loaded");
	count(d, dprocs__find(&d->procs, pid), why);
	if (why)
		daemon__gpu_refused(d, pid, why);
}

int daemon__serve_inject(struct daemon *d)
{
	if (!d->cfg->trace.inject)
		return 0;
	return source_inject__serve_late(&d->t.sources, d->o->sandbox, on_result, d);
}

const char *daemon__inject(struct daemon *d, struct dproc *p, bool gently)
{
	const char *why;

	if (!d->cfg->trace.inject)
		return "trace.inject is off: set it, and restart the daemon";
	if (d->t.arbiter && arbiter__is_inproc(d->t.arbiter, p->pid))
		return "it is traced in-process already";
	set_result(p, "requested");
	why = source_inject__request_late(&d->t.sources, p->pid, gently);
	if (why)
		count(d, p, why);
	return why;
}

void daemon__inject_by_rules(struct daemon *d)
{
	unsigned cnt = 0;

	hash_each (p, &d->procs.by_pid) {
		if (!p->wants_inject || p->inject || d->now < p->known_ns + AFTER_NS ||
		    cnt == TURN_MAX)
			continue;
		if (d->t.arbiter && arbiter__is_inproc(d->t.arbiter, p->pid))
			continue;
		daemon__inject(d, p, true);
		cnt++;
	}
}
