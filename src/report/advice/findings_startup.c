/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Rules of findings.def for start-up and for the limit in the verdict: see findings_rules.c. */
#include "findings_priv.h"
#include "report/failure/failure.h"
#include "verdict_priv.h"

/* A shorter start-up has no finding, unless it is the limit. */
#define STARTUP_LONG_NS 1000000000

/* "4.97 s before the first CUDA call, 63.3 s from the first call to the first context, ..." */
static void list_phases(const struct verdict *v, char *text, size_t size)
{
	char name[96];
	size_t n = 0;

	for (enum phase p = PHASE_BEFORE; p < PHASE_RUN && n < size; p++)
		if (v->stages.phase_ns[p])
			n += snprintf(text + n, size - n, "%s%s %s", n ? ", " : "",
				      HUMAN_TIME(v->stages.phase_ns[p]),
				      verdict_phase(v, p, name, sizeof(name)));
}

/* Lost: start-up, if its longest phase is of this kind. PHASE_BEFORE: any phase that is mostly
 * outside CUDA calls. */
static bool startup(const struct findings *f, struct finding *x, enum phase kind)
{
	const struct verdict *v = f->r->an[AN_VERDICT];
	enum phase p = verdict_longest_startup(v);
	uint64_t ns = v->stages.phase_ns[p], call_ns = v->stages.phase_call_ns[p];
	struct failure_fault fault;

	if (v->startup_ns < STARTUP_LONG_NS &&
	    (v->limit != LIMIT_STARTUP || failure_first_fault(f->r, &fault)))
		return false;
	if (!verdict_notes_startup(v))
		return false;
	if (kind != (call_ns * 2 < ns ? PHASE_BEFORE : p))
		return false;
	x->lost_ns = v->startup_ns;
	verdict_phase(v, p, x->period, sizeof(x->period));
	list_phases(v, x->other, sizeof(x->other));
	x->v.startup_host = (struct startup_host){
		.time = v->startup_ns,
		.share = ratio_of(v->startup_ns, v->whole_ns),
		.longest = ns,
		.calls = call_ns,
		.outside = ns - call_ns,
	};
	return true;
}

bool startup_host(const struct findings *f, struct finding *x)
{
	return startup(f, x, PHASE_BEFORE);
}

bool startup_init(const struct findings *f, struct finding *x)
{
	return startup(f, x, PHASE_INIT);
}

bool startup_load(const struct findings *f, struct finding *x)
{
	return startup(f, x, PHASE_LOAD);
}

bool startup_warmup(const struct findings *f, struct finding *x)
{
	return startup(f, x, PHASE_WARMUP);
}

/* Lost: the time in which the GPU computes, or the host waits for it. */
bool gpu_bound(const struct findings *f, struct finding *x)
{
	const struct verdict *v = f->r->an[AN_VERDICT];

	if (v->limit != LIMIT_GPU)
		return false;
	x->lost_ns = v->at_most_ns;
	x->steady = 1;
	x->at_ns = f->it.steady_ns;
	snprintf(x->period, sizeof(x->period), "%s", verdict_scope(f->r));
	longest_kernels(f, x);
	x->v.gpu_bound = (struct gpu_bound){
		.share = ratio_of(v->ns, v->of_ns),
		.measured = v->gpu.whole_ns != 0,
	};
	return true;
}
