/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Values of the GPUs by NVML (--gpu-stats) and by hardware counters (--gpu-metrics), each read by a
 * separate process: NVIDIA's libraries may hang or crash, and a static program cannot load them.
 * Values that are not available are reported once, and the trace continues.
 */
#include "source.h"
#include "tracer.h"

#include "util/clock.h"
#include "util/log.h"
#include "util/plain.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>

/* Timeout for the first values, so that the trace begins with them. Drivers without persistence
 * take seconds to start. */
#define TIMEOUT_MS 5000
#define STEP_MS	   50
/* Interval between checks that the process runs. */
#define ALIVE_NS 500000000ull
/* Limit of warnings; the trace contains all of them. */
#define WARNINGS_MAX 8

struct source_gpu {
	struct source s;
	/* The option of the command line; the process, and the library that it calls. */
	const char *option, *name, *library;
	struct helper *program;
	uint64_t looked_ns, alive_ns;
	struct ct_gpu rec; /* the next record, unless there is none */
	unsigned lost_cnt, reported_cnt;
	unsigned warned_cnt;
	bool saw_any;
};

static void report_missing(struct source_gpu *g, const struct ct_gpu *rec)
{
	char gpu[32] = "", text[sizeof(rec->name) + 1];

	if (g->warned_cnt++ >= WARNINGS_MAX)
		return;
	snprintf(text, sizeof(text), "%.*s", (int)sizeof(rec->name), rec->name);
	if (rec->gpu != CT_GPU_NONE)
		snprintf(gpu, sizeof(gpu), "GPU %u: ", rec->gpu);
	plain_text(text, strlen(text));
	warn("%s: %s%s: these samples are missing", g->option, gpu, text);
}

/* A process that ended by itself has reported the reason, unless it failed to start or crashed. */
static void look_whether_ended(struct source_gpu *g)
{
	int status = 0;

	g->alive_ns = g->looked_ns;
	if (!helper__has_ended(g->program, &status))
		return;
	if (WIFSIGNALED(status))
		warn("%s: %s was ended by signal %d: there are no more samples", g->option, g->name,
		     WTERMSIG(status));
	else if (WEXITSTATUS(status) == 127 || (!g->saw_any && !g->warned_cnt))
		warn("%s: %s cannot run here (it needs the machine's glibc): no samples", g->option,
		     g->name);
	else if (!WEXITSTATUS(status))
		warn("%s: %s has ended: no more samples", g->option, g->name);
}

/* A record is ordered by the time at which it is read; its own time is in it. */
static void read_next(struct source_gpu *g)
{
	ssize_t n;

	g->s.next_ns = SOURCE_NONE;
	while ((n = recv(g->program->socks[0], &g->rec, sizeof(g->rec), MSG_DONTWAIT)) < 0 &&
	       errno == EINTR)
		;
	/* Nothing was read: check that the process still runs. */
	if (n < 0 && g->program->pid && g->looked_ns - g->alive_ns > ALIVE_NS)
		look_whether_ended(g);
	if (n < 0)
		return;
	if ((size_t)n != sizeof(g->rec)) {
		memset(&g->rec, 0, sizeof(g->rec));
	} else {
		g->saw_any = true;
		g->rec.rec.ts_ns -= clock_own_offset();
		if (g->rec.op == CT_GPU_PM_SAMPLE)
			g->rec.end_ns -= clock_own_offset();
		g->lost_cnt = g->rec.lost_cnt;
		if (g->rec.op == CT_GPU_MISSING || g->rec.op == CT_GPU_PM_MISSING)
			report_missing(g, &g->rec);
	}
	g->s.next_ns = g->looked_ns;
}

/* Waits for its first message, or its end. */
static bool await_first(struct source_gpu *g)
{
	struct pollfd p = {.fd = g->program->socks[0], .events = POLLIN};

	for (int ms = 0; ms < TIMEOUT_MS && g->program->pid; ms += STEP_MS) {
		if (poll(&p, 1, STEP_MS) > 0)
			return true;
		look_whether_ended(g);
	}
	return !g->program->pid;
}

static int helper_open(struct source *s, struct tracer *t, struct helper *h)
{
	bool is_pm = h == &t->pm;
	const char *option = is_pm ? "--gpu-metrics" : "--gpu-stats";
	const char *name = is_pm ? "cudatrace-pm" : "cudatrace-nvml";
	struct source_gpu *g = (void *)s;

	g->program = h;
	g->option = option;
	g->name = name;
	if (h->error) {
		warn("%s: cannot start %s: %s: no samples", option, name, strerror(-h->error));
		return SOURCE_UNUSED;
	}
	/* Its own system calls do not belong in a trace of all processes. */
	if (!t->o.attach.filter_pids)
		sources__set_proc(&t->sources, h->pid, CT_PROC_OFF);
	if (!await_first(g))
		warn("%s: %s for %d s: samples are missing until it does", option,
		     is_pm ? "CUPTI has not responded" : "NVML has not responded",
		     TIMEOUT_MS / 1000);
	return 0;
}

static int gpu_open(struct source *s, struct tracer *t)
{
	return t->o.gpu_stats_ms ? helper_open(s, t, &t->nvml) : SOURCE_UNUSED;
}

static int pm_open(struct source *s, struct tracer *t)
{
	return t->o.gpu_metrics_hz ? helper_open(s, t, &t->pm) : SOURCE_UNUSED;
}

static int gpu_fd(const struct source *s)
{
	return ((const struct source_gpu *)s)->program->socks[0];
}

static bool gpu_look(struct source *s, uint64_t now)
{
	struct source_gpu *g = (void *)s;

	g->looked_ns = now;
	if (s->next_ns == SOURCE_NONE)
		read_next(g);
	return true;
}

static size_t gpu_take(struct source *s, size_t max, uint64_t until)
{
	struct source_gpu *g = (void *)s;
	size_t cnt = 0;

	for (; cnt < max && s->next_ns <= until; cnt++) {
		source__give(s, &g->rec, sizeof(g->rec));
		read_next(g);
	}
	return cnt;
}

static bool gpu_was_full(struct source *s)
{
	struct source_gpu *g = (void *)s;
	bool was = g->lost_cnt != g->reported_cnt;

	g->reported_cnt = g->lost_cnt;
	return was;
}

static void gpu_totals(struct source *s, struct ct_totals *sum)
{
	sum->drops[CT_DROP_NV] = ((struct source_gpu *)s)->lost_cnt;
}

static void pm_totals(struct source *s, struct ct_totals *sum)
{
	sum->drops[CT_DROP_PM] = ((struct source_gpu *)s)->lost_cnt;
}

const struct source_ops gpu_source_ops = {
	.size = sizeof(struct source_gpu),
	.name = "NVML",
	.why = "records arrived faster than they were read",
	.open = gpu_open,
	.fd = gpu_fd,
	.look = gpu_look,
	.take = gpu_take,
	.was_full = gpu_was_full,
	.totals = gpu_totals,
};

const struct source_ops pm_source_ops = {
	.size = sizeof(struct source_gpu),
	.name = "hardware counters",
	.why = "they were not read in time",
	.open = pm_open,
	.fd = gpu_fd,
	.look = gpu_look,
	.take = gpu_take,
	.was_full = gpu_was_full,
	.totals = pm_totals,
};
