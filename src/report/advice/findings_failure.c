/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Rules of findings.def for explained failures: see findings_rules.c. */
#include "findings_priv.h"
#include "report/failure/failure.h"

/* Lost: not known. */
bool gpu_fault(const struct findings *f, struct finding *x)
{
	struct failure_fault fault;

	if (!failure_first_fault(f->r, &fault))
		return false;
	x->at_ns = fault.at_ns;
	x->fn = fault.fn;
	x->v.gpu_fault = (struct gpu_fault){
		.n = fault.suspect_cnt,
		.calls = fault.call_cnt,
		.result = fault.result,
		.certain = fault.certain ? 1 : 2,
	};
	return true;
}

/* Lost: not known. */
bool out_of_memory(const struct findings *f, struct finding *x)
{
	struct failure_oom oom;

	if (!failure_first_oom(f->r, &oom) || !oom.requested)
		return false;
	x->at_ns = oom.at_ns;
	x->fn = oom.fn;
	x->v.out_of_memory = (struct out_of_memory){
		.n = oom.cnt,
		.size = oom.requested,
		.held = oom.held_bytes,
		.blocks = oom.held_cnt,
	};
	return true;
}
