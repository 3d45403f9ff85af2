/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Answers seven common questions about a trace in plain text, from the other analyses. */
#include "report/report.h"
#include "text/losses_text.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "verdict.h"
#include "report/collect.h"
#include "report/layers/driver_calls.h"
#include "report/gpu/gpu.h"
#include "report/gpu/switches.h"
#include "report/time/idle.h"
#include "report/iter/iter.h"
#include "report/time/overview.h"
#include "report/time/stage.h"
#include "report/time/wait.h"

#define NUMBERS_MAX 16

struct number {
	const char *name;
	double value;
};

struct answer {
	const char *id, *question;
	char text[1024];
	size_t len;
	struct number numbers[NUMBERS_MAX];
	unsigned number_cnt;
};

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

static void *answers__new(struct report *r)
{
	struct answers *a = calloc(1, sizeof(*a));

	if (a)
		a->r = r;
	return a;
}

static void answers__free(void *a)
{
	free(a);
}

static void __attribute__((format(printf, 2, 3))) say(struct answer *a, const char *fmt, ...)
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

static void number(struct answer *a, const char *name, double value)
{
	if (a->number_cnt < NUMBERS_MAX)
		a->numbers[a->number_cnt++] = (struct number){name, value};
}

/* Numbers formatted for people; valid for one sentence. */
struct cells {
	char cell[12][CELL_SZ];
	unsigned next;
};

static const char *count_of(struct cells *c, uint64_t n)
{
	char *cell = c->cell[c->next++ % 12];

	human_count(cell, n);
	return cell;
}

static const char *time_of(struct cells *c, double ns)
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
	number(a, "calls", load->call_cnt);
	number(a, "call_ns", load->call_ns);
	number(a, "wall_ns", load->wall_ns);
	number(a, "alloc_bytes", load->alloc_bytes);
	number(a, "htod_bytes", load->htod_bytes);
	number(a, "init_calls", init->call_cnt);
	number(a, "init_call_ns", init->call_ns);
	if (!load->call_cnt) {
		say(a, "No loading was seen: nothing was copied to the device before the first "
		       "iteration (or the trace began later).");
		return;
	}
	say(a, "%s call%s, %s in them, in %s: %s allocated, %s copied to the device.",
	    count_of(&c, load->call_cnt), plural(load->call_cnt), time_of(&c, load->call_ns),
	    time_of(&c, load->wall_ns), bytes_of(&c, load->alloc_bytes),
	    bytes_of(&c, load->htod_bytes));
	if (init->call_cnt)
		say(a, " Before that, %s call%s initialised CUDA in %s.",
		    count_of(&c, init->call_cnt), plural(init->call_cnt),
		    time_of(&c, init->call_ns));
}

static void answer_iter(const struct report *r, struct answer *a)
{
	struct iter_result it;
	const struct iter_dist *kernels = &it.dist[ITS_KERNELS], *calls = &it.dist[ITS_CALLS];
	const struct iter_dist *graphs = &it.dist[ITS_GRAPHS], *time = &it.dist[ITS_TIME];
	struct cells c = {0};

	iter_result(r, &it);
	number(a, "iterations", it.count);
	number(a, "warmup", it.warmup);
	number(a, "rounds", it.rounds);
	number(a, "kernels_median", kernels->median);
	number(a, "kernels_min", kernels->min);
	number(a, "kernels_max", kernels->max);
	number(a, "graph_launches_median", graphs->median);
	number(a, "calls_median", calls->median);
	number(a, "time_ns_median", time->median);
	number(a, "confidence", it.confidence);
	if (!it.count) {
		say(a,
		    "No iterations were found: %s. A marker (--marker FUNCTION) can name the "
		    "call that begins one.",
		    it.why ? it.why : "nothing was looked at");
		return;
	}
	say(a, "%s kernel launch%s", count_of(&c, kernels->median), plural_es(kernels->median));
	if (graphs->median)
		say(a, " and %s graph launch%s", count_of(&c, graphs->median),
		    plural_es(graphs->median));
	say(a,
	    " per iteration (median; %s to %s), %s CUDA call%s, %s: %s iteration%s in %s "
	    "round%s, %s of them warm-up.",
	    count_of(&c, kernels->min), count_of(&c, kernels->max), count_of(&c, calls->median),
	    plural(calls->median), time_of(&c, time->median), count_of(&c, it.count),
	    plural(it.count), count_of(&c, it.rounds), plural(it.rounds), count_of(&c, it.warmup));
	say(a, " Confidence %.2f.", it.confidence);
}

static void say_parts(struct answer *a, const struct stage_parts *p)
{
	static const char *const names[PART_CNT] = {
		[PART_LAUNCH] = "launches", [PART_TRANSFER] = "transfers", [PART_SYNC] = "waits",
		[PART_MEMORY] = "memory",   [PART_MODULE] = "modules",	   [PART_OTHER] = "other",
	};

	for (unsigned i = 0; i < PART_OUTSIDE; i++)
		say(a, "%s%s %.1f %%", i ? ", " : "", names[i], 100 * stage_part_share(p, i));
}

/* How the GPU spent its time, if that is known. */
static void say_gpu(const struct report *r, struct answer *a, struct cells *c)
{
	struct gpu_result g;

	gpu_result(r, &g);
	if (!g.executions) {
		say(a, "The host does not see how long the GPU computed; --gpu-time does. ");
		return;
	}
	number(a, "gpu_compute_ns", g.compute_ns);
	number(a, "gpu_copy_ns", g.copy_ns);
	number(a, "gpu_idle_ns", g.span_ns - g.busy_ns);
	say(a,
	    "Of %s on %u GPU%s it computed for %s, copied for %s (%s of that while it computed), and was idle "
	    "for %s. ",
	    time_of(c, g.span_ns), g.device_cnt, plural(g.device_cnt), time_of(c, g.compute_ns),
	    time_of(c, g.copy_ns), time_of(c, g.overlap_ns), time_of(c, g.span_ns - g.busy_ns));
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
	unsigned said = 0;

	stage_result(r, &s);
	number(a, "compute_share", stage_part_share(&s.all, PART_LAUNCH));
	number(a, "io_share", stage_part_share(&s.all, PART_TRANSFER));
	number(a, "outside_ns", s.all.ns[PART_OUTSIDE]);
	for (unsigned i = 0; i < STAGE_CNT; i++)
		number(a, names[i], s.stages[i].wall_ns);
	say(a, "Of the host's time in CUDA calls: ");
	say_parts(a, &s.all);
	say(a, ". ");
	say_gpu(r, a, &c);
	for (unsigned i = 0; i < STAGE_CNT; i++)
		if (s.stages[i].wall_ns)
			say(a, "%s%s %s", said++ ? ", " : "By stage: ", stage_name(i),
			    time_of(&c, s.stages[i].wall_ns));
	say(a, "%s", said ? "." : "");
}

/* With GPU times, idle time comes from them alone. */
static void say_measured_idle(struct answer *a, const struct gpu_idle *steady,
			      const struct gpu_result *g, const struct idle_result *d,
			      struct cells *c)
{
	uint64_t idle = g->span_ns - g->busy_ns;

	number(a, "gpu_idle_ns", idle);
	number(a, "gpu_span_ns", g->span_ns);
	say(a, "Measured on the GPU: ");
	if (steady->measured)
		say(a, "idle for %.1f %% of the steady state (%s of %s). With start-up: ",
		    100 * ratio_of(steady->ns, steady->of_ns), time_of(c, steady->ns),
		    time_of(c, steady->of_ns));
	say(a, "%s of %s, from the first execution to the last; the longest period was %s.",
	    time_of(c, idle), time_of(c, g->span_ns), time_of(c, g->longest_gap_ns));
	for (unsigned i = 0, said = 0; i < IDLE_CAUSE_CNT; i++)
		if (d->cause_ns[i])
			say(a, "%s%s %.0f %%",
			    said++ ? ", " : " As far as the host shows it, meanwhile: ",
			    idle_cause_name(i), 100 * ratio_of(d->cause_ns[i], d->total_ns));
	say(a, "%s", d->count ? "." : "");
}

static void say_proven_idle(struct answer *a, const struct idle_result *d, struct cells *c)
{
	if (!d->count) {
		say(a, "No idle time can be proven for the whole process: there was no moment at "
		       "which all submitted work was known to be done and more came later.");
		if (d->stream_cnt)
			say(a, " Stream 0x%llx alone was idle at least %s in %s period%s.",
			    (unsigned long long)d->stream, time_of(c, d->stream_ns),
			    count_of(c, d->stream_cnt), plural(d->stream_cnt));
		return;
	}
	say(a, "At least %s in %s period%s, %.1f %% of the %s between the first work and the last",
	    time_of(c, d->total_ns), count_of(c, d->count), plural(d->count),
	    100 * ratio_of(d->total_ns, d->span_ns), time_of(c, d->span_ns));
	say(a, "; %s of it within iterations. Meanwhile: ", time_of(c, d->in_iter_ns));
	for (unsigned i = 0, said = 0; i < IDLE_CAUSE_CNT; i++)
		if (d->cause_ns[i])
			say(a, "%s%s %s", said++ ? ", " : "", idle_cause_name(i),
			    time_of(c, d->cause_ns[i]));
	say(a, ". The longest, %s, came after %s and before %s.", time_of(c, d->longest_ns),
	    d->longest_after, d->longest_before);
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
		say_measured_idle(a, &steady, &g, &d, &c);
	else
		say_proven_idle(a, &d, &c);
	number(a, "total_ns", d.total_ns);
	number(a, "count", d.count);
	number(a, "span_ns", d.span_ns);
	number(a, "in_iterations_ns", d.in_iter_ns);
	number(a, "longest_ns", d.longest_ns);
	number(a, "stream_ns", d.stream_ns);
	number(a, "stream_count", d.stream_cnt);
}

static void answer_wait(const struct report *r, struct answer *a)
{
	struct wait_result w;
	struct cells c = {0};

	wait_result(r, &w);
	number(a, "count", w.count);
	number(a, "total_ns", w.total_ns);
	number(a, "threads", w.thread_cnt);
	if (!w.count)
		say(a, "No blocking call was made.");
	else
		say(a, "%s in %s blocking call%s: ", time_of(&c, w.total_ns), count_of(&c, w.count),
		    plural(w.count));
	for (unsigned i = 0; i < w.fn_cnt && i < 4; i++)
		say(a, "%s%s %s in %s", i ? ", " : "", w.fns[i].name,
		    time_of(&c, w.fns[i].total_ns), count_of(&c, w.fns[i].cnt));
	if (w.count)
		say(a, ". Thread %u (%s) waited longest: %s.", w.thread_tid,
		    w.thread_comm ? w.thread_comm : "?", time_of(&c, w.thread_ns));
	for (unsigned i = 0; i < w.may_cnt; i++)
		say(a, "%s%s %s in %s", i ? ", " : " Others may have waited: ", w.may[i].name,
		    time_of(&c, w.may[i].total_ns), count_of(&c, w.may[i].cnt));
	say(a, "%s", w.may_cnt ? "." : "");
}

static void answer_ioctls(const struct report *r, struct answer *a)
{
	struct driver_result d;
	struct cells c = {0};

	driver_result(r, &d);
	number(a, "ioctls", d.ioctl_cnt);
	number(a, "total_ns", d.total_ns);
	number(a, "errors", d.error_cnt);
	number(a, "outside", d.outside_cnt);
	if (!d.traced) {
		say(a, "Not traced: --kernel shows the ioctls.");
		return;
	}
	say(a, "%s ioctl%s of %u kind%s in %s, %s of them outside of CUDA calls",
	    count_of(&c, d.ioctl_cnt), plural(d.ioctl_cnt), d.command_cnt, plural(d.command_cnt),
	    time_of(&c, d.total_ns), count_of(&c, d.outside_cnt));
	for (unsigned i = 0; i < d.call_cnt; i++)
		say(a, "%s%s %s", i ? ", " : "; from ", d.calls[i].name,
		    count_of(&c, d.calls[i].cnt));
	for (unsigned i = 0; i < d.top_cnt; i++)
		say(a, "%s%s %s", i ? ", " : "; most time in ", d.commands[i].name,
		    time_of(&c, d.commands[i].total_ns));
	say(a, ".");
}

/* Summarizes the driver's log of context switches for one GPU. */
static void say_resident(struct answer *a, const struct resident_gpu *g)
{
	uint64_t span = resident_span_ns(g);
	struct cells c = {0};
	char name[64];

	say(a, " GPU %u switched contexts %s time%s in %s", g->minor, count_of(&c, g->switch_cnt),
	    plural(g->switch_cnt), time_of(&c, span));
	if (span)
		say(a, " (%.1f/s), %.1f %% of the time went into that", g->switch_cnt * 1e9 / span,
		    100 * ratio_of(g->between_ns, span));
	for (unsigned i = 0; i < g->proc_cnt && i < 4; i++) {
		resident_name(&g->procs[i], name, sizeof(name));
		say(a, "%s%s had it %.1f %% of it in slices of %s", i ? ", " : "; ", name,
		    100 * ratio_of(g->procs[i].ns, span),
		    time_of(&c, ratio_of(g->procs[i].ns, g->procs[i].cnt)));
	}
	say(a, ".");
}

static void say_switches(const struct report *r, struct answer *a)
{
	const struct residency *res = switches_result(r);
	uint64_t cnt = 0, between = 0;

	for (unsigned i = 0; res && i < res->cnt; i++) {
		cnt += res->gpus[i]->switch_cnt;
		between += res->gpus[i]->between_ns;
	}
	if (res && res->cnt) {
		number(a, "switches", cnt);
		number(a, "switching_ns", between);
	}
	for (unsigned i = 0; res && i < res->cnt && i < 2; i++)
		say_resident(a, res->gpus[i]);
	if (res && res->cnt)
		return;
	if (!r->info->gpu_ctxsw)
		say(a, " No ioctl shows when the GPU switches contexts; --gpu-ctxsw records it.");
	else if (!strcmp(r->info->gpu_ctxsw, "on"))
		say(a, " No context switch was recorded: no other process used a GPU.");
	else
		say(a, " Context switches were not recorded: %s.", r->info->gpu_ctxsw);
}

static void answer_sched(const struct report *r, struct answer *a)
{
	struct driver_result d;
	struct iter_result it;
	struct cells c = {0};

	driver_result(r, &d);
	iter_result(r, &it);
	number(a, "events", d.sched_total);
	number(a, "xids", d.xid_cnt);
	if (!d.traced) {
		say(a, "Not traced: --kernel records requests to the driver.");
		say_switches(r, a);
		return;
	}
	say(a, "%s time%s, as far as the kernel can know", count_of(&c, d.sched_total),
	    plural(d.sched_total));
	for (unsigned i = 0; i < d.sched_cnt; i++)
		say(a, "%s%s %s", i ? ", " : ": ", d.sched[i].name, count_of(&c, d.sched[i].cnt));
	if (d.sched_total) {
		uint64_t last = d.sched_last_ns > r->base_ns ? d.sched_last_ns - r->base_ns : 0;

		number(a, "last_ts", last / 1e6);
		say(a, "; the last %s after the start", time_of(&c, last));
		if (it.count && d.sched_last_ns < it.steady_ns)
			say(a, ", none in iterations after the warm-up");
	}
	say(a, ". A launch makes no ioctl.");
	say_switches(r, a);
}

static void answers_finish(void *p)
{
	static const struct {
		const char *id, *question;
		void (*fill)(const struct report *r, struct answer *a);
		bool of_args;
	} questions[ANSWER_CNT] = {
		{"load", "How many CUDA calls load the model, and what do they cost?", answer_load,
		 true},
		{"per-iteration", "How many kernels does an iteration launch?", answer_iter, true},
		{"ratio",
		 "How much is computing, how much is moving data, and where did the time go?",
		 answer_ratio, true},
		{"idle", "When was the GPU idle, as far as the host can see?", answer_idle, true},
		{"blocking", "How much time do blocking calls take, and who makes them?",
		 answer_wait, false},
		{"ioctls", "Which ioctls reach the driver, from which CUDA calls?", answer_ioctls,
		 false},
		{"scheduler", "When is the GPU's scheduler invoked, when are contexts switched?",
		 answer_sched, true},
	};
	struct answers *a = p;

	for (unsigned i = 0; i < ANSWER_CNT; i++) {
		a->list[i].id = questions[i].id;
		a->list[i].question = questions[i].question;
		if (a->r->args_redacted && questions[i].of_args)
			say(&a->list[i], "Not known: arguments are redacted (--no-args).");
		else
			questions[i].fill(a->r, &a->list[i]);
	}
}

static void put_number(struct json *j, const struct number *n)
{
	if (n->value >= 0 && n->value < 9e15 && n->value == (double)(uint64_t)n->value)
		json_u64(j, n->name, (uint64_t)n->value);
	else
		json_f64(j, n->name, n->value);
}

static void answers_json(const void *p, struct json *j)
{
	const struct answers *a = p;

	json_open_array(j, "answers");
	for (unsigned i = 0; i < ANSWER_CNT; i++) {
		json_open(j, NULL);
		json_str(j, "id", a->list[i].id);
		json_str(j, "question", a->list[i].question);
		json_text(j, "text", a->list[i].text, a->list[i].len);
		json_bool(j, "incomplete", report_is_incomplete(a->r));
		json_open(j, "numbers");
		for (unsigned n = 0; n < a->list[i].number_cnt; n++)
			put_number(j, &a->list[i].numbers[n]);
		json_close(j);
		json_close(j);
	}
	json_close_array(j);
}

static void answers_print(const void *p, const struct term *term)
{
	const struct answers *a = p;

	term_section(term, "Answers", "seven questions");
	for (unsigned i = 0; i < ANSWER_CNT; i++) {
		fprintf(term->f, "  %s\n", a->list[i].question);
		term_para(term, "  %s%s", a->list[i].text,
			  report_is_incomplete(a->r) ? LOSSES_MARK : "");
	}
}

const struct analysis_ops answers_ops = {
	.name = "answers",
	.new = answers__new,
	.finish = answers_finish,
	.json = answers_json,
	.print = answers_print,
	.free = answers__free,
};
