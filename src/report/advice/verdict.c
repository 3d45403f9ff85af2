/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The limit of a program. The steady state decides, because start-up happens once. Without a steady
 * state, start-up is the limit if it takes half of the time. With GPU times, the GPU's largest
 * share decides; if that is idle time, the host's activity does. Without GPU times only the host's
 * time is used. docs/REPORT.md has the rules.
 */
#include "verdict_priv.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "report/advice/findings_priv.h"
#include "report/failure/failure.h"
#include "report/step/step.h"
#include "report/time/idle.h"
#include "report/time/overview.h"
#include "saved/reader.h"
#include "text/not_recorded.h"

/* Share of start-up that is mentioned, and that makes it the limit without a steady state. */
#define STARTUP_SHARE 0.5
/* Shares of the host's time: a limit although GPU times do not show it; waits that imply a busy
 * GPU; waits that imply an idle GPU. */
#define HOST_SHARE 0.3
#define WAITS_MANY 0.5
#define WAITS_FEW  0.1
/* A copy slower than this waited for earlier work: bytes per nanosecond. */
#define COPY_WAITS_GBPS 1.0
/* With fewer than VERDICT_ITERATIONS there is no steady state, if they take less than this share of
 * the trace. */
#define STEADY_SHARE 0.05
/* Shares of a summary are so inaccurate. */
#define UNSURE 0.05
/* If this share of the trace is missing, there is no verdict. */
#define MISSING_SHARE 0.1

const char *verdict_limit_name(enum verdict_limit limit)
{
	static const char *const names[] = {
#define LIMIT(id, name) [LIMIT_##id] = name,
		VERDICT_LIMITS(LIMIT)
#undef LIMIT
	};

	return names[limit];
}

static void __attribute__((format(printf, 2, 3))) say(struct verdict *v, const char *fmt, ...)
{
	size_t len = strlen(v->sentence);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(v->sentence + len, sizeof(v->sentence) - len, fmt, ap);
	va_end(ap);
}

const char *verdict_scope(const struct report *r)
{
	const struct verdict *v = r->an[AN_VERDICT];

	return v->scope;
}

const char *verdict_not_recorded(const struct report *r)
{
	const struct verdict *v = r->an[AN_VERDICT];
	static char text[96];

	return v && v->not_recorded ? verdict_not_recorded_text(v, text, sizeof(text)) : NULL;
}

static void decide(struct verdict *v, enum verdict_limit limit, const char *basis, double ns,
		   double of_ns)
{
	v->limit = limit;
	v->basis = basis;
	v->ns = ns;
	v->of_ns = of_ns;
	v->at_most_ns = ratio_of(ns, of_ns) * v->run_ns;
}

/* Formats the share that supports the verdict. */
static const char *share_text(const struct verdict *v, char cell[CELL_SZ])
{
	human_share(cell, v->ns, v->of_ns);
	return cell;
}

static void print_gain(struct verdict *v, const char *how)
{
	v->gain_from = strlen(v->sentence);
	say(v, ". %s at most %s of %s", how, HUMAN_TIME(v->at_most_ns), HUMAN_TIME(v->run_ns));
	v->gain_to = strlen(v->sentence);
}

static uint64_t part(const struct verdict *v, enum stage_part p)
{
	return v->stages.steady.ns[p];
}

/* Host time outside waits, copies, and calls for memory or modules. */
static uint64_t host_ns(const struct verdict *v)
{
	return part(v, PART_OUTSIDE) + part(v, PART_LAUNCH) + part(v, PART_OTHER);
}

static void print_host(struct verdict *v)
{
	static const struct {
		enum stage_part part;
		const char *what;
	} parts[] = {{PART_OUTSIDE, "outside CUDA calls"},
		     {PART_LAUNCH, "in launches"},
		     {PART_OTHER, "in libraries and other CUDA calls"}};
	unsigned most = 0;

	for (unsigned i = 1; i < 3; i++)
		if (part(v, parts[i].part) > part(v, parts[most].part))
			most = i;
	say(v, "; the host spends %s of it %s", HUMAN_SHARE(part(v, parts[most].part), v->run_ns),
	    parts[most].what);
}

/* The GPU is idle: the cause is the host, or what the host waits for. */
static void decide_idle(struct verdict *v)
{
	const struct {
		enum stage_part part;
		double share;
		enum verdict_limit limit;
		const char *start, *what, *how;
	} rows[] = {
		{PART_MEMORY, HOST_SHARE, LIMIT_MEMORY, "Memory allocation is the limit",
		 "in allocations and frees", "Allocating once gains"},
		{PART_MODULE, HOST_SHARE, LIMIT_MODULES, "Loading of code is the limit",
		 "in calls that load code", "Loading it before the loop gains"},
		{PART_TRANSFER, HOST_SHARE, LIMIT_TRANSFERS, "Transfers are the limit", "in copies",
		 "Copying less, or during other work, gains"},
		{PART_SYNC, WAITS_MANY, LIMIT_WAITS, "Waits are the limit",
		 "in waits although the GPU is idle", "Waiting less gains"},
	};
	char share[CELL_SZ];

	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		double ns = part(v, rows[i].part);

		if (ns < rows[i].share * v->run_ns || ns < host_ns(v) / 2.0)
			continue;
		decide(v, rows[i].limit, "measured", ns, v->run_ns);
		say(v, "%s: the host spends %s of %s %s", rows[i].start, share_text(v, share),
		    v->scope, rows[i].what);
		print_gain(v, rows[i].how);
		return;
	}
	decide(v, LIMIT_HOST, "measured", v->gpu.idle_ns, v->gpu.whole_ns);
	say(v, "The host is the limit: the GPU is idle for %s of %s", share_text(v, share),
	    v->scope);
	print_host(v);
	print_gain(v, "Keeping the GPU busy gains");
}

static void decide_measured(struct verdict *v)
{
	const struct {
		uint64_t ns;
		enum verdict_limit limit;
		const char *what, *how;
	} rows[] = {
		{v->gpu.compute_ns, LIMIT_GPU, "The GPU is the limit: it computes for",
		 "Faster or fewer kernels gain"},
		{v->gpu.comm_alone_ns, LIMIT_COLLECTIVES,
		 "Collectives are the limit: the GPU only communicates, or waits for other ranks, for",
		 "Overlapping them with other work gains"},
		{v->gpu.copy_alone_ns, LIMIT_TRANSFERS,
		 "Transfers are the limit: the GPU only copies for",
		 "Overlapping copies with kernels gains"},
	};
	unsigned most = 0;
	char share[CELL_SZ];

	for (unsigned i = 1; i < 3; i++)
		if (rows[i].ns > rows[most].ns)
			most = i;
	if (v->gpu.idle_ns > rows[most].ns) {
		decide_idle(v);
		return;
	}
	decide(v, rows[most].limit, "measured", rows[most].ns, v->gpu.whole_ns);
	/* As bound_by_rest() in findings_rules.c. */
	if (most && v->at_most_ns > v->run_ns - v->at_most_ns)
		v->at_most_ns = v->run_ns - v->at_most_ns;
	say(v, "%s %s of %s", rows[most].what, share_text(v, share), v->scope);
	print_gain(v, rows[most].how);
}

static bool copies_wait(const struct verdict *v)
{
	return v->stages.run_bytes < part(v, PART_TRANSFER) * COPY_WAITS_GBPS;
}

static uint64_t host_waits(const struct verdict *v)
{
	return part(v, PART_SYNC) + (copies_wait(v) ? part(v, PART_TRANSFER) : 0);
}

static void decide_unknown(struct verdict *v, uint64_t waits)
{
	char share[CELL_SZ];

	decide(v, LIMIT_UNKNOWN, "host", waits, v->run_ns);
	v->at_most_ns = 0;
	say(v,
	    "Not known: the host waits for the GPU for %s of %s, and works otherwise. Trace with --gpu-time to "
	    "measure the GPU",
	    share_text(v, share), v->scope);
}

/* Without GPU times only the host's time is known. */
static void decide_from_host(struct verdict *v)
{
	uint64_t waits = host_waits(v), copies = part(v, PART_TRANSFER);
	uint64_t memory = part(v, PART_MEMORY), modules = part(v, PART_MODULE);
	const char *scope = v->scope;
	char share[CELL_SZ];

	if (waits >= WAITS_MANY * v->run_ns) {
		decide(v, LIMIT_GPU, "host", waits, v->run_ns);
		say(v,
		    "The GPU seems to be the limit: the host waits for it for %s of %s; --gpu-time "
		    "measures it",
		    share_text(v, share), scope);
		print_gain(v, "Less work for the GPU gains");
	} else if (memory >= HOST_SHARE * v->run_ns && memory > modules) {
		decide(v, LIMIT_MEMORY, "host", memory, v->run_ns);
		say(v,
		    "Memory allocation is the limit: the host spends %s of %s in allocations and frees",
		    share_text(v, share), scope);
		print_gain(v, "Allocating once gains");
	} else if (modules >= HOST_SHARE * v->run_ns) {
		decide(v, LIMIT_MODULES, "host", modules, v->run_ns);
		say(v, "Loading of code is the limit: the host spends %s of %s in it",
		    share_text(v, share), scope);
		print_gain(v, "Loading it before the loop gains");
	} else if (!copies_wait(v) && copies >= HOST_SHARE * v->run_ns) {
		decide(v, LIMIT_TRANSFERS, "host", copies, v->run_ns);
		say(v, "Transfers are the limit: the host spends %s of %s in copies",
		    share_text(v, share), scope);
		print_gain(v, "Copying less, or during other work, gains");
	} else if (waits < WAITS_FEW * v->run_ns) {
		decide(v, LIMIT_HOST, "host", v->run_ns - waits, v->run_ns);
		human_share(share, waits, v->run_ns);
		say(v, "The host is the limit: it waits for the GPU for only %s of %s", share,
		    scope);
		print_host(v);
		print_gain(v, "Less work for the host gains");
	} else {
		decide_unknown(v, waits);
	}
}

/* Whether the report, which knows the iterations, may find another limit. */
static bool is_unsure(const struct verdict *v)
{
	const struct gpu_period *gpu = &v->gpu;
	uint64_t waits = host_waits(v);
	const struct {
		double ns, share;
	} rows[] = {{waits, WAITS_MANY},
		    {waits, WAITS_FEW},
		    {part(v, PART_MEMORY), HOST_SHARE},
		    {part(v, PART_MODULE), HOST_SHARE},
		    {part(v, PART_TRANSFER), HOST_SHARE}};
	uint64_t most = gpu->compute_ns;

	if (v->is_unsure)
		return true;
	if (gpu->whole_ns) {
		most = gpu->comm_alone_ns > most ? gpu->comm_alone_ns : most;
		most = gpu->copy_alone_ns > most ? gpu->copy_alone_ns : most;
		if (fabs((double)most - (double)gpu->idle_ns) < 2 * UNSURE * gpu->whole_ns)
			return true;
		if (most > gpu->idle_ns)
			return false;
	}
	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (fabs(rows[i].ns - rows[i].share * v->run_ns) < UNSURE * v->run_ns)
			return true;
	return false;
}

/* The summary's: a number without a limit. */
static void decide_less(struct verdict *v)
{
	char share[CELL_SZ];

	if (v->proc_cnt > 1) {
		say(v,
		    "Not known: %s processes made CUDA calls, whose iterations only a report "
		    "distinguishes",
		    HUMAN_COUNT(v->proc_cnt));
	} else if (v->gpu.whole_ns) {
		decide(v, LIMIT_UNKNOWN, "measured", v->gpu.idle_ns, v->gpu.whole_ns);
		say(v, "Not known: the GPU is idle for %s of %s", share_text(v, share), v->scope);
	} else {
		decide_unknown(v, host_waits(v));
	}
	v->at_most_ns = 0;
}

/* Replaces what decide_limit() found, if the hang is long enough. */
static bool decide_hang(struct verdict *v, uint64_t ns, bool is_wait)
{
	if (ns < WAITS_MANY * v->run_ns)
		return false;
	decide(v, LIMIT_WAITS, "host", ns, v->whole_ns);
	v->at_most_ns = ns;
	*v->sentence = '\0';
	v->gain_from = v->gain_to = 0;
	say(v, "The program hangs: %s for %s, %s of the trace",
	    is_wait ? "a wait has not returned" : "a collective has not been joined",
	    HUMAN_TIME(ns), HUMAN_SHARE(ns, v->whole_ns));
	return true;
}

static void find_hang(struct verdict *v)
{
	const struct findings *f = v->r->an[AN_FINDINGS];

	for (unsigned i = 0; i < f->list_cnt; i++)
		if (f->list[i].rule->severity == SEVERITY_HANG &&
		    decide_hang(v, f->list[i].lost_ns, f->list[i].fn))
			return;
}

/* A program that failed has no limit but this, unless it had a steady state before, or hangs. */
static void decide_failure(struct verdict *v, const struct api_fn *fn, int32_t result)
{
	char was[sizeof(v->sentence)];
	size_t len;

	memcpy(was, v->sentence, sizeof(was));
	*v->sentence = '\0';
	say(v, "The program failed: %s returned %s, and its context is unusable", fn->name,
	    fn_result_name(fn, result));
	if (v->limit == LIMIT_UNKNOWN || v->limit == LIMIT_STARTUP) {
		decide(v, LIMIT_FAILURE, "host", 0, 0);
		v->gain_from = v->gain_to = 0;
		return;
	}
	say(v, ". Until then: ");
	len = strlen(v->sentence);
	say(v, "%s", was);
	if (v->gain_to) {
		v->gain_from += len;
		v->gain_to += len;
	}
}

static void find_fault(struct verdict *v)
{
	struct failure_fault fault;

	if (failure_first_fault(v->r, &fault) && failure_is_sticky(fault.fn, fault.result))
		decide_failure(v, fault.fn, fault.result);
}

/* The possible gain of collectives: that of the first finding about them whose gain a replay of the
 * steps shows. */
static void find_gain_of_collectives(struct verdict *v)
{
	const struct findings *f = v->r->an[AN_FINDINGS];
	const struct step_result *res = step_result(v->r);
	const struct finding *x = f->list;

	if (v->limit != LIMIT_COLLECTIVES || !res || !res->is_joined ||
	    !res->topics[STEP_TOPIC_COMM].cnt)
		return;
	while (x < f->list + f->list_cnt && !(x->is_limit && x->is_replayed))
		x++;
	v->sentence[v->gain_from] = '\0';
	if (x == f->list + f->list_cnt) {
		v->at_most_ns = ratio_of(v->ns, v->of_ns) * v->run_ns;
		say(v, ". There is hardly any other work to overlap them with");
		print_gain(v, "Fewer, smaller or faster ones gain");
		return;
	}
	v->at_most_ns = finding_steady_ns(x);
	say(v, ". %s %s of %s",
	    x->rule == &finding_rules[FINDING_late_rank] ? "Removing the delays of one rank gains"
	    : x->rule == &finding_rules[FINDING_small_collectives]
		    ? "Combining small ones gains"
		    : "Overlapping them with other work gains",
	    HUMAN_TIME(v->at_most_ns), HUMAN_TIME(v->run_ns));
	v->gain_to = strlen(v->sentence);
}

static bool has_steady_state(const struct verdict *v)
{
	if (v->of_summary)
		return v->wait_cnt >= VERDICT_ITERATIONS;
	return v->it.count && (v->it.count - v->it.warmup >= VERDICT_ITERATIONS ||
			       v->run_ns >= STEADY_SHARE * v->whole_ns);
}

enum phase verdict_longest_startup(const struct verdict *v)
{
	enum phase most = PHASE_BEFORE;

	for (enum phase p = PHASE_BEFORE; p < PHASE_RUN; p++)
		if (v->stages.phase_ns[p] > v->stages.phase_ns[most])
			most = p;
	return most;
}

bool verdict_notes_startup(const struct verdict *v)
{
	return v->startup_ns && v->startup_ns >= STARTUP_SHARE * v->whole_ns;
}

/* "97.5 % of the trace, of that 63.3 s from the first call to the first context" */
static void say_startup(struct verdict *v)
{
	enum phase most = verdict_longest_startup(v);
	char share[CELL_SZ], name[96];

	human_share(share, v->startup_ns, v->whole_ns);
	verdict_phase(v, most, name, sizeof(name));
	say(v, "%s%s of the trace, of that %s %s", v->of_summary ? "at least " : "", share,
	    HUMAN_TIME(v->stages.phase_ns[most]), name);
}

static bool decide_startup(struct verdict *v)
{
	if (has_steady_state(v) || !verdict_notes_startup(v))
		return false;
	decide(v, LIMIT_STARTUP, "host", v->startup_ns, v->whole_ns);
	v->at_most_ns = v->startup_ns;
	say(v, "Start-up is the limit: it takes ");
	say_startup(v);
	return true;
}

static void note_startup(struct verdict *v)
{
	if (v->limit == LIMIT_STARTUP || v->limit == LIMIT_FAILURE || v->not_recorded ||
	    !verdict_notes_startup(v))
		return;
	say(v, ". Start-up, paid once, takes ");
	say_startup(v);
}

double verdict_missing(const struct losses *lost, double call_cnt, double line_cnt, bool *are_calls)
{
	static const enum loss of_calls[] = {LOSS_CALLS,     LOSS_THREADS, LOSS_THREADS_SHARE,
					     LOSS_PROCESSES, LOSS_DEPTH,   LOSS_INPROC,
					     LOSS_EVENTS};
	/* A damaged end line may hold any number: their sums would overflow as integers. */
	double lines = (double)lost->cnt[LOSS_LINES] + lost->cnt[LOSS_MISSING_LINES];
	double calls = 0, of_lines = ratio_of(lines, line_cnt + lines);

	for (unsigned i = 0; i < sizeof(of_calls) / sizeof(of_calls[0]); i++)
		calls += lost->cnt[of_calls[i]];
	*are_calls = calls;
	/* Recorded, the dropped calls would have lost the same share of their lines. */
	calls *= 1 - of_lines;
	return of_lines + (1 - of_lines) * ratio_of(calls, call_cnt + calls);
}

static double missing_share(const struct report *r, bool *are_calls)
{
	struct overview_totals t;
	double read = 0;

	overview_totals(r, &t);
	for (unsigned i = 0; i < r->file_cnt; i++)
		read += r->files[i].lines;
	return verdict_missing(&r->lost, t.call_cnt, read, are_calls);
}

/* If much is missing, the recorded part may not represent the program. */
static void doubt(struct verdict *v, double missing, bool are_calls)
{
	char was[sizeof(v->sentence)];

	if (missing < MISSING_SHARE)
		return;
	/* Nothing is known of what could be gained. */
	snprintf(was, sizeof(was), "%.*s%s", (int)v->gain_from, v->sentence,
		 v->sentence + v->gain_to);
	*v->sentence = '\0';
	say(v, "Not known: %s of the trace is missing", HUMAN_SHARE(missing, 1));
	if (v->of_summary)
		say(v, ".");
	else
		say(v, "%s. From the rest: %s",
		    are_calls ? ", and missing calls count as time outside CUDA calls" : "", was);
	v->limit = LIMIT_UNKNOWN;
	v->basis = "none";
	v->at_most_ns = 0;
}

static void find_idle(struct verdict *v)
{
	struct idle_result d;

	if (v->gpu.whole_ns) {
		v->idle = (struct gpu_idle){true, true,
					    (double)v->gpu.idle_ns *
						    (v->stages.run_to_ns - v->stages.run_from_ns) /
						    v->gpu.whole_ns,
					    v->stages.run_to_ns - v->stages.run_from_ns};
		return;
	}
	idle_result(v->r, &d);
	v->idle.known = d.span_ns;
	v->idle.ns = v->it.count ? d.in_iter_ns : d.total_ns;
	v->idle.of_ns = v->it.count ? v->it.last_ns - v->it.first_ns : d.span_ns;
}

void verdict_note_not_recorded(struct verdict *v, const struct trace_info *info,
			       const struct losses *lost, double call_cnt)
{
	const struct not_recorded left = {
		.traced = info->traced,
		.counted = info->counted,
		.entry_only = info->entry_only,
		.counted_cnt = lost->chosen[CHOSEN_COUNTED],
		.filtered_cnt = lost->chosen[CHOSEN_FILTERED],
		.call_cnt = call_cnt,
		.min_duration_ns = info->min_duration_ns,
	};

	v->not_recorded = not_recorded_by(&left, HOST_CLASSES, false);
}

const char *verdict_not_recorded_text(const struct verdict *v, char *text, size_t size)
{
	snprintf(text, size, "%s were not recorded (%s)",
		 strcmp(v->not_recorded, "--entry-only") ? "some calls" : "durations",
		 v->not_recorded);
	return text;
}

/* Time that was not recorded would count as time outside CUDA calls. */
static void decide_not_recorded(struct verdict *v)
{
	char text[96];

	say(v, "Not known: %s. Trace without %s", verdict_not_recorded_text(v, text, sizeof(text)),
	    v->not_recorded);
}

static void decide_limit(struct verdict *v)
{
	v->basis = "none";
	if (!v->has_args)
		say(v, "Not known: arguments were not recorded. Trace without --no-args");
	else if (!v->has_calls)
		say(v, "Not known: no CUDA call was recorded");
	else if (v->not_recorded && (!v->gpu.whole_ns || v->gpu.idle_ns * 2 > v->gpu.whole_ns))
		decide_not_recorded(v);
	else if (!v->not_recorded && decide_startup(v))
		;
	else if (!v->has_work)
		say(v, "Not known: no work for the GPU was recorded");
	else if (!has_steady_state(v) && v->run_ns < STEADY_SHARE * v->whole_ns)
		say(v, "Not known: too little was recorded between start-up and end. Trace more "
		       "iterations");
	else if (v->of_summary && (!has_steady_state(v) || v->proc_cnt > 1 || is_unsure(v)))
		decide_less(v);
	else if (v->gpu.whole_ns)
		decide_measured(v);
	else
		decide_from_host(v);
}

void verdict_decide(struct verdict *v)
{
	struct overview_totals t;

	stage_result(v->r, &v->stages);
	iter_result(v->r, &v->it);
	gpu_period(v->r, v->it.pid, v->stages.run_from_ns, v->stages.run_to_ns, &v->gpu);
	overview_totals(v->r, &t);
	for (unsigned i = 0; i < PHASE_CNT; i++)
		v->whole_ns += v->stages.phase_ns[i];
	for (unsigned i = 0; i < PHASE_RUN; i++)
		v->startup_ns += v->stages.phase_ns[i];
	v->run_ns = v->stages.phase_ns[PHASE_RUN];
	find_idle(v);
	v->scope = v->it.count	   ? "the steady state"
		   : v->startup_ns ? "the time after start-up"
				   : "the trace";
	v->has_args = !v->r->args_redacted;
	if (v->r->info)
		verdict_note_not_recorded(v, v->r->info, &v->r->lost, t.call_cnt);
	if (v->not_recorded && !v->gpu.whole_ns)
		v->idle = (struct gpu_idle){0};
	v->has_calls = v->has_args && t.call_cnt;
	v->has_work = t.launch_cnt || t.graph_launch_cnt || t.class_cnt[CLASS_TRANSFER];
	decide_limit(v);
}

static void verdict_finish(void *a)
{
	struct verdict *v = a;
	bool are_calls;
	double missing = missing_share(v->r, &are_calls);

	if (v->has_calls) {
		find_gain_of_collectives(v);
		find_hang(v);
		find_fault(v);
		note_startup(v);
	}
	say(v, ".");
	if (v->has_calls)
		doubt(v, missing, are_calls);
}

void verdict_of_summary(struct verdict *v, uint64_t hang_ns, const struct api_fn *failed,
			int32_t result, double missing, bool are_calls)
{
	decide_limit(v);
	if (v->has_calls && hang_ns)
		decide_hang(v, hang_ns, true);
	if (v->has_calls && failed)
		decide_failure(v, failed, result);
	if (v->has_calls)
		note_startup(v);
	say(v, ".");
	if (v->has_calls)
		doubt(v, missing, are_calls);
}

void verdict_idle(const struct report *r, struct gpu_idle *res)
{
	const struct verdict *v = r->an[AN_VERDICT];

	*res = v->idle;
}

const struct analysis_ops verdict_ops = {
	.name = "verdict",
	.size = STATE_SIZE(struct verdict),
	.finish = verdict_finish,
	.section = &verdict_table,
	.print = verdict_print,
};
