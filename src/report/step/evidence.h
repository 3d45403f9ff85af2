/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Calls of the trace that show what a finding is about. */
#ifndef REPORT_STEP_EVIDENCE_H
#define REPORT_STEP_EVIDENCE_H

#include <stdint.h>

struct api_fn;

/* The longest ones, first. */
#define STEP_EXAMPLES 3
struct step_example {
	const char *what;	   /* what the time is, or what begins then */
	const struct api_fn *fn;   /* of the call */
	uint64_t call_id, next_id; /* next_id: the call at the end of the time; 0: none */
	uint64_t begin_ns, ns;
	uint32_t pid;
};
struct step_examples {
	struct step_example of[STEP_EXAMPLES];
	unsigned cnt;
};

#endif /* REPORT_STEP_EVIDENCE_H */
