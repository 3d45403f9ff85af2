/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Rules of findings.def: whether a finding applies, its values, and the lost time. The comment
 * above each rule defines its lost time. It is host time; two findings may count the same time.
 */
#include <math.h>

#include "findings_priv.h"
#include "report/time/idle.h"
#include "report/memory/memory.h"
#include "report/step/step.h"
#include "report/time/overview.h"
#include "report/time/stage.h"
#include "report/time/wait.h"
#include "report/layers/communication.h"
#include "report/gpu/gpu.h"
#include "report/gpu/streams.h"
#include "report/gpu/transfers.h"

/* Speed of PCIe 4.0 x16 with pinned memory, in bytes per nanosecond. */
#define PINNED_GBPS 25.0

static bool has_gpu_times(const struct findings *f)
{
	struct gpu_result g;

	gpu_result(f->r, &g);
	return g.executions;
}

/* The ratio, at most 1. */
static double part_of(double part, double whole)
{
	double share = ratio_of(part, whole);

	return share < 1 ? share : 1;
}

/* The share of a loss that lies in the steady state. */
static double steady_part(const struct findings *f, const struct spread *loss)
{
	return loss ? part_of(spread__share(loss, f->run_from_ns, f->run_to_ns), 1) : 0;
}

/* lost_ns is a sum over that many threads or devices. */
static void over(struct finding *x, unsigned clocks, const char *clock)
{
	x->clocks = clocks;
	x->clock = clock;
}

/* Lost: what a replay of the steps saves; without a replay, the time of the iterations in which no
 * device was busy. */
static bool host_bound(const struct findings *f, struct finding *x)
{
	struct gpu_period steady;
	struct gpu_result g;
	double share;

	gpu_result(f->r, &g);
	if (g.gpu_bound + g.host_bound < 3 || g.host_bound <= g.gpu_bound)
		return false;
	gpu_period(f->r, f->it.pid, f->run_from_ns, f->run_to_ns, &steady);
	finding_launches(f, x);
	x->is_replayed = x->is_of_steps = step_host_share(f, &share);
	if (!x->is_replayed)
		share = ratio_of(steady.idle_ns, steady.whole_ns);
	x->lost_ns = f->run_ns * share;
	x->steady = 1;
	x->at_ns = f->it.steady_ns;
	x->v.host_bound = (struct host_bound){
		.n = g.host_bound,
		.all = g.gpu_bound + g.host_bound,
		.busy = g.iter_busy_median,
		.queue = g.queue_p50_ns,
		.replays = f->it.dist[ITS_GRAPHS].median >= 1 &&
			   f->it.dist[ITS_KERNELS].median <= f->it.dist[ITS_GRAPHS].median,
	};
	return true;
}

/* Device time of the process that iterates, as in the verdict: in the whole trace, and in the
 * steady state. */
static void gpu_times(const struct findings *f, struct gpu_result *all, struct gpu_period *steady)
{
	double scale;

	gpu_result_of(f->r, f->it.pid, all);
	gpu_period(f->r, f->it.pid, f->run_from_ns, f->run_to_ns, steady);
	scale = ratio_of(f->run_ns, f->run_to_ns - f->run_from_ns);
	steady->copy_alone_ns *= scale;
	steady->comm_alone_ns *= scale;
}

/* Overlapping it with other work saves at most the time of the shorter of the two. */
static void bound_by_rest(const struct findings *f, struct finding *x)
{
	uint64_t steady_ns = finding_steady_ns(x);
	uint64_t rest_ns = f->run_ns > steady_ns ? f->run_ns - steady_ns : 0;

	if (steady_ns <= rest_ns)
		return;
	x->lost_ns -= steady_ns - rest_ns;
	x->steady = part_of(rest_ns, x->lost_ns);
}

/* Lost: the time in which a device copied and did not compute. */
static bool copies_alone(const struct findings *f, struct finding *x)
{
	struct gpu_period steady;
	struct gpu_result all;
	uint64_t alone;

	gpu_times(f, &all, &steady);
	alone = all.copy_ns - all.overlap_ns;
	if (!all.copy_ns ||
	    (alone * 10 < all.span_ns && steady.copy_alone_ns * 10 <= steady.whole_ns))
		return false;
	x->lost_ns = alone;
	x->steady = part_of(steady.copy_alone_ns, alone);
	over(x, all.device_cnt, "device");
	bound_by_rest(f, x);
	finding_replay(f, x, STEP_TOPIC_OVERLAP);
	x->at_ns = all.first_ns;
	x->v.copies_alone = (struct copies_alone){
		.copies = all.copy_ns,
		.alone = alone,
		.share = ratio_of(alone, all.span_ns),
	};
	return true;
}

/* A smaller share of a step is not reported. */
#define ALONE_SHARE 0.05

/* Lost: the time in which a device communicated and did nothing else, but not more than it did
 * otherwise. */
static bool comm_alone(const struct findings *f, struct finding *x)
{
	struct gpu_result g, all;
	struct gpu_period steady;
	double share;
	bool steps;

	gpu_result(f->r, &g);
	gpu_times(f, &all, &steady);
	steps = g.gpu_bound + g.host_bound;
	share = steps ? g.iter_alone_median : ratio_of(all.alone_ns, all.span_ns);
	if (share < ALONE_SHARE)
		return false;
	x->lost_ns = all.alone_ns;
	x->steady = part_of(steady.comm_alone_ns, all.alone_ns);
	over(x, all.device_cnt, "device");
	bound_by_rest(f, x);
	finding_replay(f, x, STEP_TOPIC_COMM);
	x->at_ns = g.first_ns;
	if (steps)
		exposed_collective(f, x);
	x->v.comm_alone = (struct comm_alone){
		.comm = all.comm_ns,
		.alone = all.alone_ns,
		.share = share,
		.step = steps,
	};
	return true;
}

/*
 * Iterations with many short launches and few waits: the GPU finishes as soon as the host does.
 * Lost: time of the iterations outside waits and copies that may have waited. This is an upper
 * bound, as the GPU needs part of it.
 */
static bool launch_bound(const struct findings *f, struct finding *x)
{
	const struct iter_dist *d = f->it.dist;
	uint64_t waits = d[ITS_SYNC].total + f->hot[HOT_MAY_WAIT].ns;
	uint64_t time = d[ITS_TIME].total, launches = d[ITS_KERNELS].total + d[ITS_GRAPHS].total;

	/* host_bound() is more accurate with GPU times. */
	if (has_gpu_times(f))
		return false;
	if (f->steady_cnt < 3 || d[ITS_KERNELS].mean < 10 || waits * 10 >= time ||
	    d[ITS_LAUNCH].total >= launches * 20000)
		return false;
	finding_launches(f, x);
	x->lost_ns = time - waits;
	x->steady = 1;
	x->at_ns = f->it.steady_ns;
	x->v.launch_bound = (struct launch_bound){
		.n = llround(d[ITS_KERNELS].mean),
		.each = ratio_of(time, f->steady_cnt),
		.every = ratio_of(time - waits, launches),
		.wait = ratio_of(waits, f->steady_cnt),
		.share = part_of(waits, time),
		.waits = d[ITS_SYNC].total != 0,
	};
	if (!d[ITS_SYNC].total)
		x->confidence = 0.4;
	return true;
}

/* Applies to at least 1 s, and ten times the longest wait that returned. Lost: until the end. */
static bool never_returned(const struct findings *f, struct finding *x)
{
	struct wait_result w;

	wait_result(f->r, &w);
	if (!wait_is_hang(w.unfinished.ns, w.longest_returned_ns))
		return false;
	x->lost_ns = w.unfinished.ns;
	x->at_ns = w.unfinished.start_ns;
	x->fn = w.unfinished.fn;
	x->v.never_returned = (struct never_returned){
		.time = w.unfinished.ns,
		.most = w.longest_returned_ns,
	};
	return true;
}

/* Sets who to the process's rank in the job, or to its pid. Returns false for a pid. */
static bool who_is(const struct findings *f, uint32_t pid, double *who)
{
	uint32_t rank;
	bool job = communication_rank(f->r, pid, &rank);

	*who = job ? rank : pid;
	return job;
}

/* Lost: from the first rank's start to the end. */
static bool hanging(const struct findings *f, struct finding *x)
{
	struct communication_result c;
	double who;
	bool job;

	communication_result(f->r, &c);
	if (!c.open_seq)
		return false;
	job = who_is(f, c.open_pid, &who);
	x->lost_ns = c.open_ns;
	x->at_ns = c.open_at_ns;
	x->v.hanging = (struct hanging){
		.seq = c.open_seq,
		.time = c.open_ns,
		.in = c.open_in_cnt,
		.who = who,
		.job = job,
	};
	return true;
}

/* Applies to at least 10 ms and 1 % of the steady state, or of a trace without iterations. Lost:
 * the lateness. */
static bool late_rank(const struct findings *f, struct finding *x)
{
	uint64_t whole = f->steady_cnt ? f->run_ns : report_wall_ns(f->r);
	struct communication_result c;
	struct communication_late l;
	double who;
	bool job;

	if (!communication_late(f->r, f->steady_cnt ? f->run_from_ns : 0,
				f->steady_cnt ? f->run_to_ns : UINT64_MAX, &l) ||
	    l.total_ns < 10000000 || l.total_ns * 100 < whole)
		return false;
	communication_result(f->r, &c);
	job = who_is(f, l.pid, &who);
	x->lost_ns = l.total_ns;
	x->steady = f->steady_cnt ? 1 : steady_part(f, c.late);
	finding_replay_late(f, x, l.pid);
	x->at_ns = l.at_ns;
	x->v.late_rank = (struct late_rank){
		.n = l.cnt,
		.all = l.all_cnt,
		.time = l.total_ns,
		.by = l.typical_ns,
		.most = l.max_ns,
		.who = who,
		.job = job,
	};
	return true;
}

/* Applies to at least 100 calls and half of all. Lost: the time in these calls. */
static bool small_collectives(const struct findings *f, struct finding *x)
{
	struct communication_result c;

	communication_result(f->r, &c);
	if (c.small_cnt < 100 || c.small_cnt * 2 < c.call_cnt)
		return false;
	x->lost_ns = c.small_ns;
	x->steady = steady_part(f, c.small);
	over(x, c.small_threads, "thread");
	finding_replay(f, x, STEP_TOPIC_COLLECTIVE);
	x->at_ns = c.small_at_ns;
	x->v.small_collectives = (struct small_collectives){
		.n = c.small_cnt,
		.all = c.call_cnt,
		.time = c.small_ns,
	};
	return true;
}

/*
 * Waits after at most 4 submissions with less than 1 MiB of copies. Lost: from the end of each wait
 * to the thread's next submission, at most 1 ms each, as the GPU is idle then.
 */
static bool small_syncs(const struct findings *f, struct finding *x)
{
	if (f->small_wait_cnt < 20 || f->small_wait_cnt * 2 < f->wait_cnt)
		return false;
	x->lost_ns = f->bubble_ns;
	x->steady = steady_part(f, &f->bubbles);
	over(x, f->small_threads, "thread");
	x->fn = f->small_fn;
	if (f->small_frame)
		step_frame(f->small_frame, x->place, sizeof(x->place));
	finding_replay(f, x, STEP_TOPIC_WAIT);
	x->at_ns = f->small_wait_at;
	x->v.small_syncs = (struct small_syncs){
		.n = f->small_wait_cnt,
		.all = f->wait_cnt,
		.time = f->small_wait_ns,
		.pause = ratio_of(f->bubble_ns, f->small_wait_cnt),
	};
	return true;
}

/* Lost: the time in these calls, less the time for these bytes at 25 GB/s. */
static bool pageable(const struct findings *f, struct finding *x)
{
	struct transfers_result t;
	double needed;

	transfers_result(f->r, &t);
	needed = t.pageable_bytes / PINNED_GBPS;
	if (t.pageable_bytes < 1 << 20 || t.pageable_ns < needed * 1.25)
		return false;
	x->lost_ns = t.pageable_ns - (uint64_t)needed;
	x->steady = steady_part(f, t.pageable);
	over(x, t.pageable_threads, "thread");
	finding_replay(f, x, STEP_TOPIC_PINNED);
	x->v.pageable = (struct pageable){
		.n = t.pageable_cnt,
		.bytes = t.pageable_bytes,
		.time = t.pageable_ns,
		.rate = ratio_of(t.pageable_bytes, t.pageable_ns),
	};
	return true;
}

/* Lost: the time in these calls, except for the first of each row. */
static bool small_copies(const struct findings *f, struct finding *x)
{
	if (f->row_cnt < 50)
		return false;
	x->lost_ns = f->row_ns;
	x->steady = steady_part(f, &f->rows);
	over(x, f->row_threads, "thread");
	finding_replay(f, x, STEP_TOPIC_COPY);
	x->at_ns = f->row_at;
	x->v.small_copies = (struct small_copies){.n = f->row_cnt, .time = f->row_ns};
	return true;
}

/* Lost: the time in these calls. */
static bool hot_alloc(const struct findings *f, struct finding *x)
{
	const struct hot_sum *a = &f->hot[HOT_ALLOC], *r = &f->hot[HOT_FREE];

	if (!f->steady_cnt || a->cnt + r->cnt < 4 || (a->cnt + r->cnt) * 2 < f->steady_cnt)
		return false;
	x->lost_ns = a->ns + r->ns;
	x->steady = 1;
	over(x, f->memory_threads.cnt, "thread");
	finding_replay(f, x, STEP_TOPIC_ALLOC);
	x->at_ns = a->at_ns ? a->at_ns : r->at_ns;
	x->v.hot_alloc = (struct hot_alloc){a->cnt, r->cnt, a->ns + r->ns};
	return true;
}

/* Lost: the time in these calls. */
static bool hot_module(const struct findings *f, struct finding *x)
{
	const struct hot_sum *m = &f->hot[HOT_MODULE];

	if (!m->cnt)
		return false;
	x->lost_ns = m->ns;
	x->steady = 1;
	over(x, m->threads.cnt, "thread");
	finding_replay(f, x, STEP_TOPIC_MODULE);
	x->at_ns = m->at_ns;
	x->v.hot_module = (struct hot_module){.n = m->cnt, .time = m->ns};
	return true;
}

/* Lost: the time in these calls. A graph for a new shape now and then is normal. */
static bool hot_graph(const struct findings *f, struct finding *x)
{
	const struct hot_sum *g = &f->hot[HOT_GRAPH];

	if (!g->cnt || 2 * g->cnt < f->steady_cnt || g->ns * 100 < f->run_ns)
		return false;
	x->lost_ns = g->ns;
	x->steady = 1;
	over(x, g->threads.cnt, "thread");
	finding_replay(f, x, STEP_TOPIC_GRAPH);
	x->at_ns = g->at_ns;
	x->v.hot_graph = (struct hot_graph){.n = g->cnt, .time = g->ns, .of = f->steady_cnt};
	return true;
}

/* Lost: the time in queries in the iterations; without iterations, in all queries. */
static bool chatty(const struct findings *f, struct finding *x)
{
	const struct trace_end *end = f->r->end;
	const struct hot_sum *q = &f->hot[HOT_QUERY];
	uint64_t cnt = f->query_cnt, ns = f->query_ns;
	struct overview_totals t;
	bool hot;

	for (unsigned i = 0; end && i < end->count_cnt; i++) {
		if (end->counts[i].fn->op != OP_QUERY)
			continue;
		cnt += end->counts[i].calls;
		ns += end->counts[i].total_ns;
	}
	overview_totals(f->r, &t);
	hot = f->steady_cnt && q->cnt >= 20 * f->steady_cnt;
	if (!hot && (cnt < 1000 || ns * 100 < t.call_ns))
		return false;
	x->lost_ns = hot ? q->ns : ns;
	x->steady = hot;
	over(x, hot ? q->threads.cnt : f->query_threads.cnt, "thread");
	if (hot)
		finding_replay(f, x, STEP_TOPIC_QUERY);
	x->at_ns = hot ? q->at_ns : 0;
	x->v.chatty =
		(struct chatty){.n = hot ? q->cnt : cnt, .time = hot ? q->ns : ns, .hot = hot};
	return true;
}

/* Lost: the idle periods within rounds of iterations. */
static bool idle_between(const struct findings *f, struct finding *x)
{
	struct stage_result stages;
	struct idle_result i;

	idle_result(f->r, &i);
	stage_result(f->r, &stages);
	if (f->steady_cnt < 3 || i.in_iter_cnt < 3 ||
	    i.in_iter_ns * 50 < f->it.dist[ITS_TIME].total)
		return false;
	x->lost_ns = i.in_iter_ns;
	/* Some of it is in warm-up iterations. */
	x->steady = fmin(1, ratio_of(stages.phase_ns[PHASE_RUN], i.in_iter_ns));
	finding_replay(f, x, STEP_TOPIC_IDLE);
	/* With GPU times, more of it may be known than from the host alone. */
	x->lost_ns = x->lost_ns < i.in_iter_ns ? x->lost_ns : i.in_iter_ns;
	x->v.idle_between = (struct idle_between){
		.n = i.in_iter_cnt,
		.time = i.in_iter_ns,
		.each = ratio_of(i.in_iter_ns, i.in_iter_cnt),
		.share = part_of(i.in_iter_ns, f->it.last_ns - f->it.first_ns),
		.queries = !report_left_out(f->r, "query", false),
	};
	return true;
}

/* Lost: not known, as the rule does not see when the GPU ran the work. */
static bool default_stream(const struct findings *f, struct finding *x)
{
	struct streams_result s;

	streams_result(f->r, &s);
	if (s.switches < 10)
		return false;
	x->at_ns = s.first_switch_ns;
	x->v.default_stream =
		(struct default_stream){.n = s.switches, .work = s.default_work, .all = s.work};
	return true;
}

static bool errors_ignored(const struct findings *f, struct finding *x)
{
	const struct find_error *first = NULL;
	uint64_t cnt = 0, kinds = 0;

	for (unsigned i = 0; i < f->error_cnt; i++) {
		if (!f->errors[i].ignored)
			continue;
		cnt += f->errors[i].cnt;
		kinds++;
		if (!first)
			first = &f->errors[i];
	}
	if (!first)
		return false;
	x->fn = first->fn;
	x->at_ns = first->first_ns;
	x->v.errors_ignored = (struct errors_ignored){
		.n = cnt,
		.kinds = kinds,
		.result = first->result,
		.deinit = f->deinit_cnt,
	};
	return true;
}

/* Allocations minus frees in the iterations; 0 if the difference may be chance, or ends in their
 * first half: a cache fills until it has enough. */
static uint64_t grows_by(const struct findings *f)
{
	const struct hot_sum *made = &f->hot[HOT_ALLOC], *freed = &f->hot[HOT_FREE];
	uint64_t left = made->cnt > freed->cnt ? made->cnt - freed->cnt : 0;
	bool goes_on = made->late_cnt >= freed->late_cnt + (f->steady_cnt + 3) / 4;

	return f->steady_cnt >= 3 && left * 2 >= f->steady_cnt && goes_on ? left : 0;
}

static bool leaks_grow(const struct findings *f, struct finding *x)
{
	uint64_t left = grows_by(f);
	struct memory_result m;

	memory_result(f->r, &m);
	x->v.leaks_grow = (struct leaks_grow){.n = left, .bytes = m.leak_bytes, .freed = m.frees};
	return left;
}

/*
 * Memory that did not grow was forgotten only if the program frees other memory of that kind: its
 * context was destroyed first, or it freed nine tenths of its allocations. A program
 * that frees none of a kind before its exit does so on purpose, such as PyTorch's cache, while NCCL
 * frees other kinds.
 */
static bool leaks(const struct findings *f, struct finding *x)
{
	struct memory_result m;

	memory_result(f->r, &m);
	x->v.leaks = (struct leaks){
		.n = m.leak_cnt,
		.bytes = m.leak_bytes,
		.freed = m.frees,
		.orphans = m.left_behind_cnt != 0,
	};
	return !grows_by(f) && (m.left_behind_cnt || (m.leak_cnt && m.frees >= 9 * m.leak_cnt));
}

static bool dropped(const struct findings *f, struct finding *x)
{
	struct loss_row row;
	double n = 0;

	for (unsigned i = 0; losses__next(&f->r->lost, &i, &row);)
		n++;
	x->v.dropped.n = n;
	return n > 0;
}

const struct rule finding_rules[FINDING_CNT] = {
#define VALUE(kind, name, what) {VALUE_##kind, #name, what},
#define FINDING(rule, id, severity, title, values, brief, text, advice, confidence,                \
		confidence_reason)                                                                 \
	{id,                                                                                       \
	 title,                                                                                    \
	 SEVERITY_##severity,                                                                      \
	 rule,                                                                                     \
	 (const struct finding_value[]){values{VALUE_END, NULL, NULL}},                            \
	 brief,                                                                                    \
	 text,                                                                                     \
	 advice,                                                                                   \
	 confidence_reason,                                                                        \
	 confidence},
#include "findings.def"
#undef FINDING
#undef VALUE
};
