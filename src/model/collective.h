/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What a call of NCCL means: struct collective_info of an event, from the function's row and from
 * the communicators of its process. docs/COLLECTIVES.md */
#ifndef MODEL_COLLECTIVE_H
#define MODEL_COLLECTIVE_H

#include "annotate.h"
#include "ranks.h"

void collective__init(struct annotations *m);
void collective__apply(const struct annotations *m, struct trace_event *ev, struct proc *p,
		       struct thread *t);

/* A call that has not returned: which collective it is. false: it is none, or of a communicator of
 * which too little is known. */
bool collective__in_flight(const struct annotations *m, struct proc *p,
			   const __u64 words[CT_MAX_WORDS], struct rank_begun *b);

/* A kernel, maybe of NCCL: what it runs is its caller's algorithm. */
void collective__launched(const struct annotations *m, const struct trace_event *ev,
			  struct thread *t);

/* "float32" and its size in bytes; NULL, 0: not known. */
const char *nccl_type_name(uint64_t type, unsigned *size);
/* "sum"; NULL: not known. */
const char *nccl_redop_name(uint64_t op);
/* What nccl-tests multiply S / t by for the bus bandwidth. */
double nccl_bus_factor(enum api_op op, uint32_t nranks);

#endif /* MODEL_COLLECTIVE_H */
