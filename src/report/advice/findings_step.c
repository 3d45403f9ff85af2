/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Findings that follow from the critical path of the iterations. Lost: what a replay without the
 * cause takes less. */
#include <stdio.h>
#include <string.h>

#include "findings_priv.h"
#include "report/gpu/stalls.h"
#include "report/step/step.h"
#include "text/kernel_name.h"

/* A smaller share of a step is not reported. */
#define PLANS_SHARE   0.02
#define GAP_SHARE     0.02
#define BETWEEN_SHARE 0.1
#define KERNELS	      3 /* that a finding names */

static uint64_t steady_loss(const struct findings *f, const struct step_result *res,
			    uint64_t saved_ns)
{
	return f->run_ns * ratio_of(saved_ns, res->unchanged.total_ns);
}

static void set_replayed(const struct findings *f, struct finding *x, uint64_t saved_ns)
{
	x->lost_ns = steady_loss(f, step_result(f->r), saved_ns);
	x->steady = 1;
	x->is_replayed = true;
}

/* A place that the rule has found is of most of these calls. */
static void name_example(struct finding *x, const struct step_part *example)
{
	x->call_id = example->call_id;
	if (x->fn)
		return;
	x->fn = example->fn;
	step_place(example, x->place, sizeof(x->place));
}

void finding_launches(const struct findings *f, struct finding *x)
{
	const struct step_result *res = step_result(f->r);

	if (res)
		x->examples = res->launches;
}

void finding_examples(const struct findings *f, struct finding *x, unsigned topic)
{
	const struct step_result *res = step_result(f->r);

	if (res)
		x->examples = res->topics[topic].examples;
}

void finding_replay(const struct findings *f, struct finding *x, unsigned topic)
{
	const struct step_result *res = step_result(f->r);
	uint64_t outside_ns = x->lost_ns - finding_steady_ns(x), steady_ns;

	finding_examples(f, x, topic);
	if (!res || !res->unchanged.total_ns || !res->is_joined)
		return;
	x->is_of_steps = true;
	if (!res->topics[topic].cnt)
		return;
	if (res->topics[topic].longest_ns)
		name_example(x, &res->topics[topic].place);
	outside_ns /= x->clocks > 1 ? x->clocks : 1;
	set_replayed(f, x, res->topics[topic].saved_ns);
	steady_ns = x->lost_ns;
	x->lost_ns += outside_ns;
	x->steady = ratio_of(steady_ns, x->lost_ns);
	x->clocks = 0;
}

void finding_replay_late(const struct findings *f, struct finding *x, uint32_t pid)
{
	const struct step_result *res = step_result(f->r);
	const struct step_examples *lates = step_late_examples(f->r, pid);

	if (res && res->late_pid == pid)
		finding_replay(f, x, STEP_TOPIC_LATE);
	if (lates)
		x->examples = *lates;
}

bool plans_rebuilt(const struct findings *f, struct finding *x)
{
	const struct step_result *res = step_result(f->r);
	const struct step_part *longest = NULL;
	uint64_t ns = 0, cnt = 0, step_ns;
	const struct step *m;

	if (!res)
		return false;
	m = &res->steps[STEP_MEDIAN];
	step_ns = m->end_ns - m->begin_ns;
	for (unsigned i = 0; i < m->part_cnt; i++) {
		if (m->parts[i].kind != STEP_PLAN)
			continue;
		longest = longest ? longest : &m->parts[i];
		ns += m->parts[i].ns;
		cnt += m->parts[i].cnt;
	}
	if (!longest || ns < PLANS_SHARE * step_ns)
		return false;
	set_replayed(f, x, res->plans_saved_ns);
	x->at_ns = m->begin_ns;
	x->fn = longest->fn;
	x->call_id = longest->call_id;
	x->examples = res->plans;
	step_place(longest, x->place, sizeof(x->place));
	x->v.plans_rebuilt = (struct plans_rebuilt){
		.n = cnt,
		.time = ns,
		.step = step_ns,
		.share = ratio_of(ns, step_ns),
	};
	return true;
}

void exposed_collective(const struct findings *f, struct finding *x)
{
	const struct step_result *res = step_result(f->r);
	const struct step_part *p = res ? res->steps[STEP_MEDIAN].parts : NULL;
	const struct step_part *end = p ? p + res->steps[STEP_MEDIAN].part_cnt : NULL;
	const char *name;
	size_t len;
	int n;

	while (p < end && p->kind != STEP_COMMUNICATION)
		p++;
	if (p == end || !p->name)
		return;
	name = kernel_short_name(p->name, &len);
	n = snprintf(x->other, sizeof(x->other), ", longest in %.*s%s", (int)len, name,
		     p->frame ? " of " : "");
	if (p->frame && n < (int)sizeof(x->other))
		step_frame(p->frame, x->other + n, sizeof(x->other) - n);
}

void longest_kernels(const struct findings *f, struct finding *x)
{
	const struct step_result *res = step_result(f->r);
	const struct step *m = res ? &res->steps[STEP_MEDIAN] : NULL;
	size_t n = 0;

	for (unsigned i = 0, cnt = 0; m && i < m->part_cnt && cnt < KERNELS; i++) {
		const struct step_part *p = &m->parts[i];
		const char *name = "CUDA graphs";
		char words[96], limit[128] = "";
		size_t len = strlen(name);

		if (p->kind != STEP_GRAPH && (p->kind != STEP_KERNEL || !p->name))
			continue;
		if (p->kind == STEP_KERNEL)
			name = kernel_short_name(p->name, &len);
		if (p->kind == STEP_KERNEL && stalls_limit(f->r, p->name, words, sizeof(words)))
			snprintf(limit, sizeof(limit), " (%s)", words);
		len = n + snprintf(x->other + n, sizeof(x->other) - n, "%s%.*s %s%s",
				   n ? ", " : "; the longest in the median step: ", (int)len, name,
				   HUMAN_SHARE(p->ns, m->end_ns - m->begin_ns), limit);
		/* No name is cut. */
		if (len >= sizeof(x->other)) {
			x->other[n] = '\0';
			return;
		}
		n = len;
		cnt++;
	}
}

/* Writes two frames, of which each may be NULL: "train.py:15 main, after train.py:20 main". */
static void two_frames(const struct stack_frame *first, const char *between,
		       const struct stack_frame *second, char *buf, size_t size)
{
	size_t n;

	if (!first)
		return;
	step_frame(first, buf, size);
	n = strlen(buf);
	if (!second || n + strlen(between) + 1 >= size)
		return;
	n += sprintf(buf + n, "%s", between);
	step_frame(second, buf + n, size - n);
}

/* Returns the gaps of a kind and describes them in x; NULL: a replay without them saves too little.
 */
static const struct step_gap *costly_gap(const struct findings *f, enum step_gap_kind kind,
					 struct finding *x)
{
	const struct step_result *res = step_result(f->r);
	const struct step_gap *gap;

	if (!res)
		return NULL;
	gap = &res->gaps[kind];
	if (!gap->cnt || gap->saved_ns < GAP_SHARE * res->unchanged.total_ns)
		return NULL;
	set_replayed(f, x, gap->saved_ns);
	x->at_ns = gap->begin_ns;
	x->fn = gap->fn;
	x->call_id = gap->after_id;
	two_frames(gap->after, ", after ", gap->before, x->place, sizeof(x->place));
	/* These findings begin with the same values (GAP_VALUES). */
	x->v.data_loading = (struct data_loading){
		.n = gap->step_cnt,
		.all = res->step_cnt,
		.time = gap->typical_ns,
		.share = ratio_of(gap->ns, res->total_ns),
		.before = gap->before_id,
		.after = gap->after_id,
	};
	return gap;
}

bool data_loading(const struct findings *f, struct finding *x)
{
	const struct step_gap *gap = costly_gap(f, STEP_GAP_INPUT, x);

	if (!gap)
		return false;
	x->v.data_loading.loader = gap->loader != NULL;
	two_frames(gap->loader, ", called from ", gap->caller, x->other, sizeof(x->other));
	if (!gap->loader)
		x->confidence = 0.6;
	return true;
}

bool python_lock(const struct findings *f, struct finding *x)
{
	const struct step_gap *gap = costly_gap(f, STEP_GAP_LOCK, x);

	if (!gap)
		return false;
	x->v.python_lock.waits = gap->cnt - gap->longer_cnt;
	x->v.python_lock.places = gap->place_cnt;
	x->v.python_lock.longer = gap->longer_cnt;
	if (gap->longer_ns > gap->ns / 2)
		x->confidence = 0.6;
	return true;
}

bool other_thread(const struct findings *f, struct finding *x)
{
	const struct step_gap *gap = costly_gap(f, STEP_GAP_THREAD, x);

	if (!gap)
		return false;
	if (gap->other)
		step_frame(gap->other, x->other, sizeof(x->other));
	x->v.other_thread.thread = gap->tid;
	x->v.other_thread.calls = gap->call_cnt;
	return true;
}

bool host_work(const struct findings *f, struct finding *x)
{
	const struct step_result *res = step_result(f->r);
	const struct step_part *longest = NULL;
	uint64_t ns = 0, saved_ns, step_ns;
	const struct step *m;

	if (!res || !res->has_gpu_times || !res->is_joined)
		return false;
	saved_ns = res->topics[STEP_TOPIC_BETWEEN].saved_ns;
	m = &res->steps[STEP_MEDIAN];
	step_ns = m->end_ns - m->begin_ns;
	for (unsigned i = 0; i < m->part_cnt; i++) {
		if (m->parts[i].kind != STEP_BETWEEN)
			continue;
		longest = longest ? longest : &m->parts[i];
		ns += m->parts[i].ns;
	}
	if (!longest || saved_ns < BETWEEN_SHARE * res->unchanged.total_ns)
		return false;
	set_replayed(f, x, saved_ns);
	x->at_ns = m->begin_ns;
	step_place(longest, x->place, sizeof(x->place));
	x->v.host_work = (struct host_work){
		.time = ns,
		.step = step_ns,
		.share = ratio_of(ns, step_ns),
		.queries = !report_left_out(f->r, "query", false),
	};
	return true;
}

bool step_host_share(const struct findings *f, double *share)
{
	const struct step_result *res = step_result(f->r);

	if (!res || !res->has_gpu_times || !res->unchanged.total_ns || !res->is_joined)
		return false;
	*share = ratio_of(res->host_saved_ns, res->unchanged.total_ns);
	return true;
}
