// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The rules. Each says when it applies, and estimates the time that is lost: how, is written above
 * it. An estimate is of the host's time; losses of two rules may be the same time.
 */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "findings_priv.h"
#include "report/time/idle.h"
#include "report/memory/memory.h"
#include "report/time/overview.h"
#include "report/work/streams.h"
#include "report/work/transfers.h"

/* What PCIe 4.0 x16 moves from and to pinned memory, in bytes per nanosecond. */
#define PINNED_GBPS 25.0

static struct evidence *evidence(struct finding *x, const char *what, double number)
{
	struct evidence *e = &x->evidence[x->evidence_cnt];

	x->evidence_cnt += x->evidence_cnt < EVIDENCE_MAX - 1;
	e->what = what;
	e->number = number;
	return e;
}

static const char *count(struct finding *x, const char *what, uint64_t n)
{
	struct evidence *e = evidence(x, what, n);

	human_count(e->value, n);
	return e->value;
}

static const char *time_of(struct finding *x, const char *what, double ns)
{
	struct evidence *e = evidence(x, what, ns);

	human_time(e->value, ns);
	return e->value;
}

static const char *bytes_of(struct finding *x, const char *what, uint64_t n)
{
	struct evidence *e = evidence(x, what, n);

	human_bytes(e->value, n);
	return e->value;
}

static const char *part(struct finding *x, const char *what, double share)
{
	struct evidence *e = evidence(x, what, share);

	human_share(e->value, share, 1);
	return e->value;
}

__attribute__((format(printf, 2, 3))) static void say(struct finding *x, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(x->text, sizeof(x->text), fmt, ap);
	va_end(ap);
}

/*
 * Iterations of many short launches, after which the GPU is not waited for: it was done as soon as
 * the host was. Lost: the time of the iterations outside of waits and of copies that may have
 * waited; at most, for a part of it the GPU needs itself.
 */
static bool launch_bound(const struct findings *f, struct finding *x)
{
	const struct iter_dist *d = f->it.dist;
	uint64_t waits = d[ITS_SYNC].total + f->hot[HOT_MAY_WAIT].ns;
	uint64_t time = d[ITS_TIME].total, launches = d[ITS_KERNELS].total + d[ITS_GRAPHS].total;
	const char *n, *each, *every, *wait, *share;

	if (f->steady_cnt < 3 || d[ITS_KERNELS].mean < 10 || waits * 10 >= time ||
	    d[ITS_LAUNCH].total >= launches * 20000)
		return false;
	x->lost_ns = time - waits;
	n = count(x, "kernel launches per iteration", llround(d[ITS_KERNELS].mean));
	each = time_of(x, "time of an iteration", ratio_of(time, f->steady_cnt));
	every = time_of(x, "between two launches", ratio_of(time - waits, launches));
	wait = time_of(x, "waited in an iteration", ratio_of(waits, f->steady_cnt));
	share = part(x, "part of the time that waits take", ratio_of(waits, time));
	say(x,
	    "An iteration launches %s kernels in %s, one every %s, and waits %s (%s): the GPU is "
	    "done when the host asks, so it runs faster than the host can launch.",
	    n, each, every, wait, share);
	x->advice = "Capture the iteration as a CUDA graph, or make fewer and larger kernels "
		    "(fusion, torch.compile, larger batches).";
	x->sure = d[ITS_SYNC].total ? 0.8 : 0.4;
	x->how_sure =
		d[ITS_SYNC].total
			? "The loss is what iterations take outside of waits: at most that, "
			  "for how long the kernels run is not seen."
			: "Nothing waits in the iterations, so whether the GPU lags behind is "
			  "not seen.";
	x->at_ns = f->it.steady_ns;
	return true;
}

/*
 * Waits after at most 4 launches and copies with less than 1 MiB. Lost: from the end of each to
 * the next launch or copy of its thread, at most 1 ms each, for the GPU has nothing to do then.
 */
static bool small_sync(const struct findings *f, struct finding *x)
{
	const char *n, *all, *time, *pause;

	if (f->small_wait_cnt < 20 || f->small_wait_cnt * 2 < f->wait_cnt)
		return false;
	x->lost_ns = f->bubble_ns;
	n = count(x, "waits for at most 4 launches or copies", f->small_wait_cnt);
	all = count(x, "waits for any", f->wait_cnt);
	time = time_of(x, "time in them", f->small_wait_ns);
	pause = time_of(x, "from a wait to the next launch or copy",
			ratio_of(f->bubble_ns, f->small_wait_cnt));
	say(x,
	    "%s of %s waits came after at most 4 launches or copies of less than 1 MiB; they took "
	    "%s. After each the GPU has nothing to do until the host has launched again: %s.",
	    n, all, time, pause);
	x->advice = "Wait once for many pieces; leave results on the GPU until they are needed; "
		    "use events and a second stream.";
	x->sure = 0.6;
	x->how_sure = "Whether other streams or threads keep the GPU busy meanwhile is not "
		      "considered.";
	x->at_ns = f->small_wait_at;
	return true;
}

/* Lost: the time in these calls, less what the bytes would take at 25 GB/s. */
static bool pageable(const struct findings *f, struct finding *x)
{
	const char *n, *bytes, *time, *rate;
	struct transfers_result t;
	struct evidence *e;
	double needed;

	transfers_result(f->r, &t);
	needed = t.pageable_bytes / PINNED_GBPS;
	if (t.pageable_bytes < 1 << 20 || t.pageable_ns < needed * 1.25)
		return false;
	x->lost_ns = t.pageable_ns - (uint64_t)needed;
	n = count(x, "copies from or to pageable memory", t.pageable_cnt);
	bytes = bytes_of(x, "bytes", t.pageable_bytes);
	time = time_of(x, "time in them", t.pageable_ns);
	e = evidence(x, "GB/s", ratio_of(t.pageable_bytes, t.pageable_ns));
	human_rate(e->value, t.pageable_bytes, t.pageable_ns);
	rate = e->value;
	say(x,
	    "%s copies with %s in all from or to pageable host memory took %s, %s: the driver "
	    "takes them through a buffer of its own, and async ones make the host wait.",
	    n, bytes, time, rate);
	x->advice = "Use pinned memory (cuMemHostAlloc, pin_memory=True) for what is copied "
		    "often.";
	x->sure = 0.5;
	x->how_sure = "The loss assumes 25 GB/s for pinned memory, as over PCIe 4.0 x16; pinning "
		      "costs time too, so it pays for memory that is used again.";
	return true;
}

/* Lost: the time in these calls, all but the first of each row. */
static bool small_copies(const struct findings *f, struct finding *x)
{
	const char *n, *time;

	if (f->row_cnt < 50)
		return false;
	x->lost_ns = f->row_ns;
	n = count(x, "small copies right after another", f->row_cnt);
	time = time_of(x, "time in them", f->row_ns);
	say(x,
	    "%s copies of less than 64 KiB came right after another in the same direction; they "
	    "took %s.",
	    n, time);
	x->advice = "Gather them in one buffer and copy it at once, or use cuMemcpyBatchAsync.";
	x->sure = 0.7;
	x->how_sure = "The loss is the host's time in all but the first of each row.";
	x->at_ns = f->row_at;
	return true;
}

/* Lost: the time in these calls. */
static bool hot_alloc(const struct findings *f, struct finding *x)
{
	const struct hot_sum *a = &f->hot[HOT_ALLOC], *r = &f->hot[HOT_FREE];
	const char *n, *frees, *time;

	if (!f->steady_cnt || a->cnt + r->cnt < 4 || (a->cnt + r->cnt) * 2 < f->steady_cnt)
		return false;
	x->lost_ns = a->ns + r->ns;
	n = count(x, "allocations in the iterations", a->cnt);
	frees = count(x, "frees in the iterations", r->cnt);
	time = time_of(x, "time in them", x->lost_ns);
	say(x,
	    "The iterations after the warm-up allocate %s times and free %s times, which takes "
	    "%s; a free may wait for the GPU as well.",
	    n, frees, time);
	x->advice = "Allocate before the loop, or from a pool (cuMemAllocAsync).";
	x->sure = 0.9;
	x->how_sure = "The loss is the host's time in these calls.";
	x->at_ns = a->at_ns ? a->at_ns : r->at_ns;
	return true;
}

/* Lost: the time in these calls. */
static bool hot_module(const struct findings *f, struct finding *x)
{
	const struct hot_sum *m = &f->hot[HOT_MODULE];
	const char *n, *time;

	if (!m->cnt)
		return false;
	x->lost_ns = m->ns;
	n = count(x, "modules loaded or linked in the iterations", m->cnt);
	time = time_of(x, "time in these calls", m->ns);
	say(x, "The iterations after the warm-up load or link modules: %s in %s.", n, time);
	x->advice = "Warm up with every shape that comes later, keep compiled code in a cache, or "
		    "set CUDA_MODULE_LOADING=EAGER.";
	x->sure = 0.9;
	x->how_sure = "The loss is the host's time in these calls.";
	x->at_ns = m->at_ns;
	return true;
}

/* Lost: the time in queries of the iterations; without iterations, in all of them. */
static bool chatty(const struct findings *f, struct finding *x)
{
	const struct trace_end *end = f->r->end;
	uint64_t cnt = f->query_cnt, ns = f->query_ns;
	struct overview_totals t;
	const char *n, *time;
	bool hot;

	for (unsigned i = 0; end && i < end->count_cnt; i++) {
		if (end->counts[i].fn->op != OP_QUERY)
			continue;
		cnt += end->counts[i].calls;
		ns += end->counts[i].total_ns;
	}
	overview_totals(f->r, &t);
	hot = f->steady_cnt && f->hot[HOT_QUERY].cnt >= 20 * f->steady_cnt;
	if (!hot && (cnt < 1000 || ns * 100 < t.call_ns))
		return false;
	x->lost_ns = hot ? f->hot[HOT_QUERY].ns : ns;
	n = count(x, "queries", hot ? f->hot[HOT_QUERY].cnt : cnt);
	time = time_of(x, "time in them", x->lost_ns);
	say(x, "%s queries (of attributes, states, events) %s took %s.", n,
	    hot ? "in the iterations" : "in all", time);
	x->advice = "Ask once and keep the answer; wait for an event and do not poll it.";
	x->sure = 0.7;
	x->how_sure = "The loss is the host's time in these calls; polling may be meant.";
	x->at_ns = hot ? f->hot[HOT_QUERY].at_ns : 0;
	return true;
}

/* Lost: the idle periods within rounds of iterations. */
static bool idle_between(const struct findings *f, struct finding *x)
{
	const char *n, *time, *each, *share;
	struct idle_result i;

	idle_result(f->r, &i);
	if (f->steady_cnt < 3 || i.in_iter_cnt < 3 ||
	    i.in_iter_ns * 50 < f->it.dist[ITS_TIME].total)
		return false;
	x->lost_ns = i.in_iter_ns;
	n = count(x, "idle periods within rounds of iterations", i.in_iter_cnt);
	time = time_of(x, "their time", i.in_iter_ns);
	each = time_of(x, "each", ratio_of(i.in_iter_ns, i.in_iter_cnt));
	share = part(x, "of the iterations' time",
		     ratio_of(i.in_iter_ns, f->it.last_ns - f->it.first_ns));
	say(x,
	    "Within rounds of iterations the GPU had nothing to do %s times, %s in all, %s each: "
	    "%s of the time from the first iteration to the last.",
	    n, time, each, share);
	x->advice = "Submit the next iteration before the result of the last is fetched; prepare "
		    "input in another thread.";
	x->sure = 0.9;
	x->how_sure = "A lower bound: the host does not see when the GPU ends its work before "
		      "it is waited for.";
	return true;
}

/* Lost: not known, for when the GPU ran what is not seen. */
static bool default_stream(const struct findings *f, struct finding *x)
{
	const char *n, *work, *all;
	struct streams_result s;

	streams_result(f->r, &s);
	if (s.switches < 10)
		return false;
	n = count(x, "changes between the two", s.switches);
	work = count(x, "launches and copies on the legacy default stream", s.default_work);
	all = count(x, "launches and copies", s.work);
	say(x,
	    "%s of %s launches and copies went to the legacy default stream, between those on "
	    "streams that wait for it, %s changes in all: what is on both never runs at once.",
	    work, all, n);
	x->advice = "Create streams with CU_STREAM_NON_BLOCKING, or use a default stream for each "
		    "thread.";
	x->sure = 0.6;
	x->how_sure = "That they wait is certain; whether they could run at once is not seen.";
	x->at_ns = s.first_switch_ns;
	return true;
}

static bool errors_ignored(const struct findings *f, struct finding *x)
{
	uint64_t cnt = 0, kinds = 0;
	const struct find_error *first = NULL;
	const char *n;

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
	n = count(x, "failed calls after which the program went on", cnt);
	count(x, "kinds of them", kinds);
	count(x, "result of the first", first->result);
	count(x, "at exit, CUDA_ERROR_DEINITIALIZED: harmless", f->deinit_cnt);
	say(x, "%s call%s failed and the program went on; the first is %s with error %d.", n,
	    plural(cnt), first->fn->name, first->result);
	x->advice = "Check the result of each call: what comes after a failed launch or copy works "
		    "with wrong data.";
	x->sure = 0.5;
	x->how_sure = "The program may have dealt with them. CUDA_ERROR_DEINITIALIZED at exit is "
		      "harmless and not counted, nor are failed queries.";
	x->at_ns = first->first_ns;
	return true;
}

/*
 * Never freed counts as a mistake only where the program frees: its context was destroyed before,
 * it freed nine tenths of what it allocated, or each iteration leaves some. A program that leaves
 * all of it to its exit does so on purpose.
 */
static bool leaks(const struct findings *f, struct finding *x)
{
	uint64_t hot_left = f->hot[HOT_ALLOC].cnt > f->hot[HOT_FREE].cnt
				    ? f->hot[HOT_ALLOC].cnt - f->hot[HOT_FREE].cnt
				    : 0;
	bool grows = f->steady_cnt >= 3 && hot_left * 2 >= f->steady_cnt;
	const char *n, *bytes, *why;
	struct memory_result m;

	memory_result(f->r, &m);
	if (grows)
		why = "Its iterations allocate more often than they free.";
	else if (m.left_behind_cnt)
		why = "Their context was destroyed, or the program replaced, before.";
	else if (m.leak_cnt && m.frees >= 9 * m.leak_cnt)
		why = "The program freed everything else.";
	else
		return false;
	n = count(x, "allocations never freed", grows ? hot_left : m.leak_cnt);
	bytes = bytes_of(x, "bytes", m.leak_bytes);
	count(x, "freed", m.frees);
	if (grows)
		say(x, "%s more allocations than frees in the iterations. %s", n, why);
	else
		say(x, "%s allocation%s with %s never freed. %s", n, plural(m.leak_cnt), bytes,
		    why);
	x->advice = "Free what is allocated; the section on memory lists where.";
	x->sure = grows ? 0.7 : 0.8;
	x->how_sure = grows ? "What a cache keeps for later looks the same."
			    : "What ends with the process costs nothing any more.";
	return true;
}

static bool dropped(const struct findings *f, struct finding *x)
{
	const struct trace_end *end = f->r->end;
	uint64_t cnt = 0;
	const char *n;

	for (unsigned i = 0; end && i < CT_DROP_CNT; i++)
		cnt += end->drops[i];
	if (end && !cnt)
		return false;
	n = count(x, "events that were lost", cnt);
	if (end)
		say(x,
		    "%s event%s lost: the buffer was full. Numbers of this report are too "
		    "small.",
		    n, cnt == 1 ? " was" : "s were");
	else
		say(x, "The trace has no end: it was cut off, so the last part is missing.");
	x->advice = end ? "Trace with a larger buffer (--buffer-size) or fewer classes."
			: "Let cudatrace end by itself, or interrupt it with Ctrl-C.";
	x->sure = 1;
	x->how_sure = "The trace says so.";
	return true;
}

const struct rule *finding_rules(unsigned *cnt)
{
	static const struct rule rules[] = {
		{"dropped-events", "The trace is incomplete", dropped},
		{"launch-bound", "The host launches too slowly", launch_bound},
		{"idle-between", "The GPU is idle between iterations", idle_between},
		{"small-syncs", "A wait after every small piece", small_sync},
		{"pageable-copies", "Copies of pageable memory", pageable},
		{"small-copies", "Many small copies", small_copies},
		{"hot-allocations", "Allocations in the hot loop", hot_alloc},
		{"hot-modules", "Modules are loaded in the hot loop", hot_module},
		{"chatty-queries", "Many queries", chatty},
		{"default-stream", "The default stream holds others up", default_stream},
		{"ignored-errors", "Errors were ignored", errors_ignored},
		{"leaks", "Memory was not freed", leaks},
	};

	*cnt = sizeof(rules) / sizeof(rules[0]);
	return rules;
}
