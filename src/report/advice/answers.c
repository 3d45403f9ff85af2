/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Answers seven common questions about a trace in plain text, from the other analyses. */
#include "report/report.h"
#include "text/losses_text.h"

#include <stdarg.h>
#include <string.h>

#include "answers_priv.h"
#include "verdict.h"
#include "report/collect.h"
#include "report/section.h"
#include "report/gpu/gpu.h"
#include "report/time/idle.h"
#include "report/iter/iter.h"
#include "report/time/overview.h"
#include "report/time/stage.h"
#include "report/time/wait.h"

enum {
	ANSWER_LOAD,
	ANSWER_ITER,
	ANSWER_RATIO,
	ANSWER_IDLE,
	ANSWER_WAIT,
	ANSWER_IOCTL,
	ANSWER_SCHED,
	ANSWER_CNT
};

struct answers {
	struct report *r;
	struct answer list[ANSWER_CNT];
};

void answer_print(struct answer *a, const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(a->text + a->len, sizeof(a->text) - a->len, fmt, ap);
	va_end(ap);
	a->len += (size_t)n;
	if (a->len >= sizeof(a->text))
		a->len = sizeof(a->text) - 1;
}

void answer_number(struct answer *a, const char *name, double value)
{
	if (a->number_cnt < NUMBERS_MAX)
		a->numbers[a->number_cnt++] = (struct number){name, value};
}

const char *answer_count(struct cells *c, uint64_t n)
{
	char *cell = c->cell[c->next++ % 12];

	human_count(cell, n);
	return cell;
}

/* A time of calls: unknown in a trace of their starts. */
static const char *call_time(const struct report *r, struct cells *c, uint64_t ns)
{
	return ns || report_has_times(r) ? answer_time(c, ns) : "an unknown time";
}

static void call_number(const struct report *r, struct answer *a, const char *name, uint64_t ns)
{
	if (ns || report_has_times(r))
		answer_number(a, name, ns);
}

const char *answer_time(struct cells *c, double ns)
{
	char *cell = c->cell[c->next++ % 12];

	human_time(cell, ns);
	return cell;
}

static const char *bytes_of(struct cells *c, uint64_t n)
{
	char *cell = c->cell[c->next++ % 12];

	human_bytes(cell, n);
	return cell;
}

static void answer_load(const struct report *r, struct answer *a)
{
	struct stage_result s;
	const struct stage_sum *load = &s.stages[STAGE_LOAD], *init = &s.stages[STAGE_INIT];
	struct cells c = {0};

	stage_result(r, &s);
	answer_number(a, "calls", load->call_cnt);
	call_number(r, a, "call_ns", load->call_ns);
	answer_number(a, "wall_ns", load->wall_ns);
	answer_number(a, "alloc_bytes", load->alloc_bytes);
	answer_number(a, "htod_bytes", load->htod_bytes);
	answer_number(a, "init_calls", init->call_cnt);
	call_number(r, a, "init_call_ns", init->call_ns);
	if (!load->call_cnt) {
		answer_print(
			a,
			"No loading was recorded: nothing was copied to the device before the first iteration, or the trace "
			"began later.");
		return;
	}
	answer_print(a, "%s call%s, %s in them, in %s: %s allocated, %s copied to the device.",
		     answer_count(&c, load->call_cnt), plural(load->call_cnt),
		     call_time(r, &c, load->call_ns), answer_time(&c, load->wall_ns),
		     bytes_of(&c, load->alloc_bytes), bytes_of(&c, load->htod_bytes));
	if (init->call_cnt)
		answer_print(a, " Before that, %s call%s initialised CUDA in %s.",
			     answer_count(&c, init->call_cnt), plural(init->call_cnt),
			     call_time(r, &c, init->call_ns));
}

static void answer_iter(const struct report *r, struct answer *a)
{
	struct iter_result it;
	const struct iter_dist *kernels = &it.dist[ITS_KERNELS], *calls = &it.dist[ITS_CALLS];
	const struct iter_dist *graphs = &it.dist[ITS_GRAPHS], *time = &it.dist[ITS_TIME];
	struct cells c = {0};

	iter_result(r, &it);
	answer_number(a, "iterations", it.count);
	answer_number(a, "warmup", it.warmup);
	answer_number(a, "rounds", it.rounds);
	answer_number(a, "kernels_median", kernels->median);
	answer_number(a, "kernels_min", kernels->min);
	answer_number(a, "kernels_max", kernels->max);
	answer_number(a, "graph_launches_median", graphs->median);
	answer_number(a, "calls_median", calls->median);
	answer_number(a, "time_ns_median", time->median);
	answer_number(a, "confidence", it.confidence);
	if (!it.count) {
		answer_print(
			a,
			"No iterations were found: %s. --marker FUNCTION names the call that begins one.",
			it.why ? it.why : "the trace was not searched");
		return;
	}
	answer_print(a, "%s kernel launch%s", answer_count(&c, kernels->median),
		     plural_es(kernels->median));
	if (graphs->median)
		answer_print(a, " and %s graph launch%s", answer_count(&c, graphs->median),
			     plural_es(graphs->median));
	answer_print(a,
		     " per iteration (median; %s to %s), %s CUDA call%s, %s: %s iteration%s in %s "
		     "round%s, %s of them warm-up.",
		     answer_count(&c, kernels->min), answer_count(&c, kernels->max),
		     answer_count(&c, calls->median), plural(calls->median),
		     answer_time(&c, time->median), answer_count(&c, it.count), plural(it.count),
		     answer_count(&c, it.rounds), plural(it.rounds), answer_count(&c, it.warmup));
	answer_print(a, " Confidence %.0f %%.", it.confidence * 100);
}

static void answer_parts(struct answer *a, const struct stage_parts *p)
{
	static const char *const names[PART_CNT] = {
		[PART_LAUNCH] = "launches", [PART_TRANSFER] = "transfers", [PART_SYNC] = "waits",
		[PART_MEMORY] = "memory",   [PART_MODULE] = "modules",	   [PART_OTHER] = "other",
	};

	for (unsigned i = 0; i < PART_OUTSIDE; i++)
		answer_print(a, "%s%s %.1f %%", i ? ", " : "", names[i],
			     100 * stage_part_share(p, i));
}

/* Adds how the GPU spent its time, if that is known. */
static void answer_gpu(const struct report *r, struct answer *a, struct cells *c)
{
	struct gpu_result g;

	gpu_result(r, &g);
	if (!g.executions) {
		answer_print(a,
			     "The host's calls do not show how long the GPU computed; --gpu-time "
			     "measures it. ");
		return;
	}
	answer_number(a, "gpu_compute_ns", g.compute_ns);
	answer_number(a, "gpu_copy_ns", g.copy_ns);
	answer_number(a, "gpu_idle_ns", g.span_ns - g.busy_ns);
	answer_print(
		a,
		"In %s on %u GPU%s: computing %s, copying %s (%s of that while computing), idle %s. ",
		answer_time(c, g.span_ns), g.device_cnt, plural(g.device_cnt),
		answer_time(c, g.compute_ns), answer_time(c, g.copy_ns),
		answer_time(c, g.overlap_ns), answer_time(c, g.span_ns - g.busy_ns));
}

static void answer_ratio(const struct report *r, struct answer *a)
{
	static const char *const names[STAGE_CNT] = {
		[STAGE_INIT] = "init_ns",	    [STAGE_LOAD] = "load_ns",
		[STAGE_INPUT] = "input_ns",	    [STAGE_WARMUP] = "warmup_ns",
		[STAGE_INFERENCE] = "inference_ns", [STAGE_SYNC] = "sync_ns",
		[STAGE_OUTPUT] = "output_ns",	    [STAGE_CLEANUP] = "cleanup_ns",
		[STAGE_OTHER] = "other_ns",
	};
	struct stage_result s;
	struct cells c = {0};
	unsigned item_cnt = 0;

	stage_result(r, &s);
	if (!verdict_not_recorded(r)) {
		answer_number(a, "compute_share", stage_part_share(&s.all, PART_LAUNCH));
		answer_number(a, "io_share", stage_part_share(&s.all, PART_TRANSFER));
		answer_number(a, "outside_ns", s.all.ns[PART_OUTSIDE]);
	}
	for (unsigned i = 0; i < STAGE_CNT; i++)
		answer_number(a, names[i], s.stages[i].wall_ns);
	if (verdict_not_recorded(r)) {
		answer_print(a, "The host's time in CUDA calls is not known: %s. ",
			     verdict_not_recorded(r));
	} else {
		answer_print(a, "Host time in CUDA calls: ");
		answer_parts(a, &s.all);
		answer_print(a, ". ");
	}
	answer_gpu(r, a, &c);
	for (unsigned i = 0; i < STAGE_CNT; i++)
		if (s.stages[i].wall_ns)
			answer_print(a, "%s%s %s", item_cnt++ ? ", " : "By stage: ", stage_name(i),
				     answer_time(&c, s.stages[i].wall_ns));
	answer_print(a, "%s", item_cnt ? "." : "");
}

/* With GPU times, idle time comes from them alone. */
static void print_measured_idle(struct answer *a, const struct gpu_idle *steady,
				const struct gpu_result *g, const struct idle_result *d,
				struct cells *c)
{
	uint64_t idle = g->span_ns - g->busy_ns;

	answer_number(a, "gpu_idle_ns", idle);
	answer_number(a, "gpu_span_ns", g->span_ns);
	answer_print(a, "Measured on the GPU: ");
	if (steady->measured)
		answer_print(a, "idle for %.1f %% of the steady state (%s of %s). With start-up: ",
			     100 * ratio_of(steady->ns, steady->of_ns), answer_time(c, steady->ns),
			     answer_time(c, steady->of_ns));
	answer_print(a,
		     "%s of %s, from the first execution to the last; the longest period was %s.",
		     answer_time(c, idle), answer_time(c, g->span_ns),
		     answer_time(c, g->longest_gap_ns));
	for (unsigned i = 0, item_cnt = 0; i < IDLE_CAUSE_CNT; i++)
		if (d->cause_ns[i])
			answer_print(a, "%s%s %.0f %%",
				     item_cnt++ ? ", " : " Meanwhile, by the host's calls: ",
				     idle_cause_name(i),
				     100 * ratio_of(d->cause_ns[i], d->total_ns));
	answer_print(a, "%s", d->count ? "." : "");
}

static void print_proven_idle(struct answer *a, const struct idle_result *d, struct cells *c)
{
	if (!d->count) {
		answer_print(
			a,
			"No idle time can be proven for the whole process: at no moment was all submitted work known to be "
			"done.");
		if (d->stream_cnt)
			answer_print(a, " Stream 0x%llx alone was idle at least %s in %s period%s.",
				     (unsigned long long)d->stream, answer_time(c, d->stream_ns),
				     answer_count(c, d->stream_cnt), plural(d->stream_cnt));
		return;
	}
	answer_print(
		a,
		"At least %s in %s period%s, %.1f %% of the %s between the first work and the last",
		answer_time(c, d->total_ns), answer_count(c, d->count), plural(d->count),
		100 * ratio_of(d->total_ns, d->span_ns), answer_time(c, d->span_ns));
	answer_print(a, "; %s of it within iterations. Meanwhile: ", answer_time(c, d->in_iter_ns));
	for (unsigned i = 0, item_cnt = 0; i < IDLE_CAUSE_CNT; i++)
		if (d->cause_ns[i])
			answer_print(a, "%s%s %s", item_cnt++ ? ", " : "", idle_cause_name(i),
				     answer_time(c, d->cause_ns[i]));
	answer_print(a, ". The longest, %s, came after %s and before %s.",
		     answer_time(c, d->longest_ns), d->longest_after, d->longest_before);
}

static void answer_idle(const struct report *r, struct answer *a)
{
	struct gpu_idle steady;
	struct idle_result d;
	struct gpu_result g;
	struct cells c = {0};

	idle_result(r, &d);
	gpu_result(r, &g);
	verdict_idle(r, &steady);
	if (g.executions)
		print_measured_idle(a, &steady, &g, &d, &c);
	else if (verdict_not_recorded(r))
		answer_print(a, "Not known: %s.", verdict_not_recorded(r));
	else
		print_proven_idle(a, &d, &c);
	if (!verdict_not_recorded(r)) {
		answer_number(a, "total_ns", d.total_ns);
		answer_number(a, "count", d.count);
		answer_number(a, "span_ns", d.span_ns);
		answer_number(a, "in_iterations_ns", d.in_iter_ns);
		answer_number(a, "longest_ns", d.longest_ns);
		answer_number(a, "stream_ns", d.stream_ns);
		answer_number(a, "stream_count", d.stream_cnt);
	}
}

static void answer_wait(const struct report *r, struct answer *a)
{
	struct wait_result w;
	struct cells c = {0};

	wait_result(r, &w);
	answer_number(a, "count", w.count);
	call_number(r, a, "total_ns", w.total_ns);
	answer_number(a, "threads", w.thread_cnt);
	if (!w.count)
		answer_print(a, "No blocking call was made.");
	else
		answer_print(a, "%s in %s blocking call%s: ", call_time(r, &c, w.total_ns),
			     answer_count(&c, w.count), plural(w.count));
	for (unsigned i = 0; i < w.fn_cnt && i < 4; i++)
		answer_print(a, "%s%s %s in %s", i ? ", " : "", w.fns[i].name,
			     call_time(r, &c, w.fns[i].total_ns), answer_count(&c, w.fns[i].cnt));
	if (w.count && !w.total_ns && !report_has_times(r))
		answer_print(a, ".");
	else if (w.count)
		answer_print(a, ". Thread %u (%s) waited longest: %s.", w.thread_tid,
			     w.thread_comm ? w.thread_comm : "?", answer_time(&c, w.thread_ns));
	for (unsigned i = 0; i < w.may_cnt; i++)
		answer_print(a, "%s%s %s in %s",
			     i ? ", " : " Calls that may have waited: ", w.may[i].name,
			     call_time(r, &c, w.may[i].total_ns), answer_count(&c, w.may[i].cnt));
	answer_print(a, "%s", w.may_cnt ? "." : "");
}

static void answers_finish(void *p)
{
	static const struct {
		const char *id, *question;
		void (*fill)(const struct report *r, struct answer *a);
		bool of_args;
		const char *needs; /* as of an analysis */
	} questions[ANSWER_CNT] = {
		{"load", "How many CUDA calls load the model, and what do they cost?", answer_load,
		 true, "memory transfer module"},
		{"per-iteration", "How many kernels does an iteration launch?", answer_iter, true,
		 "launch graph"},
		{"ratio",
		 "How much is computing, how much is moving data, and where did the time go?",
		 answer_ratio, true, NULL},
		{"idle", "When was the GPU idle, as far as the host can see?", answer_idle, true,
		 NULL},
		{"blocking", "How much time do blocking calls take, and who makes them?",
		 answer_wait, false, "sync transfer"},
		{"ioctls", "Which ioctls reach the driver, from which CUDA calls?", answer_ioctls,
		 false, NULL},
		{"scheduler", "When is the GPU's scheduler invoked, when are contexts switched?",
		 answer_sched, true, NULL},
	};
	struct answers *a = p;

	for (unsigned i = 0; i < ANSWER_CNT; i++) {
		const char *needs = questions[i].needs;
		const char *option = needs ? report_not_recorded(a->r, needs) : NULL;

		a->list[i].id = questions[i].id;
		a->list[i].question = questions[i].question;
		if (a->r->args_redacted && questions[i].of_args)
			answer_print(&a->list[i], "Not known: arguments are redacted (--no-args).");
		else if (option)
			answer_print(&a->list[i], "Not known: these calls were not recorded (%s).",
				     option);
		else
			questions[i].fill(a->r, &a->list[i]);
	}
}

#define SECTION_STATE struct answers
#define SECTION_ROWS  "report/advice/answers.section"
#include "report/section_rows.h"

static void answers_print(const void *p, const struct term *term)
{
	const struct answers *a = p;

	term_section(term, "Answers", "seven questions");
	for (unsigned i = 0; i < ANSWER_CNT; i++) {
		term_para(term, "%s", a->list[i].question);
		term_para(term, "  %s%s", a->list[i].text,
			  report_is_incomplete(a->r) ? LOSSES_MARK : "");
	}
}

const struct analysis_ops answers_ops = {
	.name = "answers",
	.size = STATE_SIZE(struct answers),
	.finish = answers_finish,
	.section = &answers_table,
	.is_list = true,
	.print = answers_print,
};
