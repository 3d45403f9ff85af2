/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Findings that follow from the critical path of the iterations. Lost: what a replay without the
 * cause takes less. */
#include "findings_priv.h"
#include "report/step/step.h"

/* A smaller share of a step is not reported. */
#define PLANS_SHARE 0.02

static uint64_t steady_loss(const struct findings *f, const struct step_result *res,
			    uint64_t saved_ns)
{
	return f->run_ns * ratio_of(saved_ns, res->unchanged.total_ns);
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
	x->lost_ns = steady_loss(f, res, res->plans_saved_ns);
	x->steady = 1;
	x->at_ns = m->begin_ns;
	x->fn = longest->fn;
	step_place(longest, x->place, sizeof(x->place));
	x->v.plans_rebuilt = (struct plans_rebuilt){
		.n = cnt,
		.time = ns,
		.step = step_ns,
		.share = ratio_of(ns, step_ns),
	};
	return true;
}

bool step_host_share(const struct findings *f, double *share)
{
	const struct step_result *res = step_result(f->r);
	uint64_t saved;

	if (!res || !res->has_gpu_times || !res->unchanged.total_ns)
		return false;
	saved = res->graph_saved_ns;
	if (f->it.dist[ITS_GRAPHS].median >= 1)
		saved = res->no_host.total_ns < res->unchanged.total_ns
				? res->unchanged.total_ns - res->no_host.total_ns
				: 0;
	*share = ratio_of(saved, res->unchanged.total_ns);
	return true;
}
