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
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* Timeout for the first values, so that the trace begins with them. Drivers without persistence
 * take seconds to start. */
#define TIMEOUT_MS 5000
#define STEP_MS	   50
/* Interval between checks that the process runs. */
#define ALIVE_NS 500000000ull
/* Limit of warnings; the trace contains all of them. */
#define WARNINGS_MAX 8

/* At the end: limit for reading what remains. */
#define LAST_NS 1000000000ull
/* Samples of this time may not have been read yet when the process ends. */
#define UNREAD_NS 500000000ull
/* More than the age of samples when they are read. */
#define SKEW_NS	 30000000000ull
#define GPUS_MAX 64

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
	/* Hardware counters: the time between two samples; the end of each GPU's newest, 0: not
	 * sampled. The process itself counts what is missing, until it has sent its END. */
	uint64_t interval_ns, until_ns[GPUS_MAX];
	bool has_end, is_closed;
	uint64_t stopped_ns;
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
	if (!helper__has_ended(g->program, &status) || g->is_closed)
		return;
	if (WIFSIGNALED(status))
		warn("%s: %s was ended by signal %d: there are no more samples", g->option, g->name,
		     WTERMSIG(status));
	else if (WEXITSTATUS(status) == 127 || (!g->saw_any && !g->warned_cnt))
		warn("%s: %s cannot run here (it needs the machine's glibc): no samples", g->option,
		     g->name);
	else if (!WEXITSTATUS(status) && !g->stopped_ns)
		warn("%s: %s has ended: no more samples", g->option, g->name);
}

/* A clock of a GPU may be wrong. */
static void note_sample(struct source_gpu *g, const struct ct_gpu *rec)
{
	uint64_t until = rec->op == CT_GPU_PM_SAMPLE ? rec->end_ns : rec->rec.ts_ns, now = now_ns();

	g->has_end |= rec->op == CT_GPU_PM_END;
	if (rec->gpu >= GPUS_MAX || (rec->op != CT_GPU_PM_SAMPLE && rec->op != CT_GPU_PM_DEVICE))
		return;
	if (until > now || now - until > SKEW_NS)
		until = now;
	if (until > g->until_ns[rec->gpu])
		g->until_ns[rec->gpu] = until;
}

/* Samples that are missing at the end, because the process has ended or hangs. */
static uint64_t missing_at_end(const struct source_gpu *g)
{
	uint64_t end = g->stopped_ns ?: g->looked_ns, sum = 0;

	if (g->has_end || (g->program->pid && !g->stopped_ns && !g->is_closed))
		return 0;
	for (unsigned i = 0; i < GPUS_MAX; i++)
		if (g->until_ns[i] && end > g->until_ns[i])
			sum += (end - g->until_ns[i]) / g->interval_ns;
	return sum;
}

/* NVIDIA's library has closed the connection, which would be readable for ever. */
static void give_up(struct source_gpu *g)
{
	struct helper *h = g->program;

	warn("%s: %s has closed its connection: there are no more samples", g->option, g->name);
	if (h->pid)
		kill(h->pid, SIGKILL);
	dup2(h->socks[1], h->socks[0]);
	g->is_closed = true;
}

/* Notes in the trace, and on stderr, since when each GPU's samples are missing. */
static void pm_unfinished(struct source *s)
{
	struct source_gpu *g = (void *)s;

	for (unsigned i = 0; i < GPUS_MAX && !g->has_end; i++) {
		struct ct_gpu rec = {
			.rec = {.size = sizeof(rec), .kind = CT_REC_GPU, .ts_ns = g->stopped_ns},
			.op = CT_GPU_PM_MISSING,
			.gpu = i,
			.gpu_instance = CT_GPU_WHOLE,
			.compute_instance = CT_GPU_WHOLE,
			.minor = CT_GPU_NONE,
		};

		if (!g->until_ns[i] || g->stopped_ns < g->until_ns[i] + UNREAD_NS)
			continue;
		snprintf(rec.name, sizeof(rec.name),
			 "%s ended, or has not responded, %.1f s before the end", g->name,
			 (g->stopped_ns - g->until_ns[i]) / 1e9);
		report_missing(g, &rec);
		source__give(s, &rec, sizeof(rec));
	}
}

/* A record is ordered by the time at which it is read; its own time is in it. */
static void read_next(struct source_gpu *g)
{
	ssize_t n;

	g->s.next_ns = SOURCE_NONE;
	if (g->stopped_ns && now_ns() - g->stopped_ns > LAST_NS)
		return;
	while ((n = g->is_closed ? -1
				 : recv(g->program->socks[0], &g->rec, sizeof(g->rec),
					MSG_DONTWAIT)) < 0 &&
	       errno == EINTR)
		;
	/* Nothing was read: check that the process still runs. */
	if (n < 0 && g->program->pid && g->looked_ns - g->alive_ns > ALIVE_NS)
		look_whether_ended(g);
	if (!n)
		give_up(g);
	if (n <= 0)
		return;
	if ((size_t)n != sizeof(g->rec)) {
		memset(&g->rec, 0, sizeof(g->rec));
	} else {
		g->saw_any = true;
		g->rec.rec.ts_ns -= clock_own_offset();
		if (g->rec.op == CT_GPU_PM_SAMPLE)
			g->rec.end_ns -= clock_own_offset();
		g->lost_cnt = g->rec.lost_cnt;
		note_sample(g, &g->rec);
		if (g->has_end)
			return;
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
	g->interval_ns = 1000000000 / (t->o.gpu_metrics_hz ?: 1);
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
	unsigned cnt = g->lost_cnt + missing_at_end(g);
	bool was = cnt != g->reported_cnt;

	g->reported_cnt = cnt;
	return was;
}

static void gpu_totals(struct source *s, struct ct_totals *sum)
{
	sum->drops[CT_DROP_NV] = ((struct source_gpu *)s)->lost_cnt;
}

static void pm_totals(struct source *s, struct ct_totals *sum)
{
	const struct source_gpu *g = (void *)s;

	sum->drops[CT_DROP_PM] = g->lost_cnt + missing_at_end(g);
}

static void gpu_stop(struct source *s)
{
	((struct source_gpu *)s)->stopped_ns = now_ns();
}

/* The process reads once more. */
static void pm_stop(struct source *s)
{
	gpu_stop(s);
	shutdown(((struct source_gpu *)s)->program->socks[0], SHUT_WR);
}

static bool pm_is_over(struct source *s)
{
	struct source_gpu *g = (void *)s;

	return g->has_end || !g->program->pid || now_ns() - g->stopped_ns > LAST_NS;
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
	.stop = gpu_stop,
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
	.stop = pm_stop,
	.is_over = pm_is_over,
	.unfinished = pm_unfinished,
};
