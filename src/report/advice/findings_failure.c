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
