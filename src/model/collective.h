/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Annotates NCCL calls: fills struct collective_info from the function's row and from the
 * communicators of the process. See docs/COLLECTIVES.md. */
#ifndef MODEL_COLLECTIVE_H
#define MODEL_COLLECTIVE_H

#include "annotate.h"
#include "ranks.h"

void collective__init(struct annotations *m);
void collective__apply(const struct annotations *m, struct trace_event *ev, struct proc *p,
		       struct thread *t);

/* Identifies the collective of a call that has not returned. Returns false if it is none, or if too
 * little is known of its communicator. */
bool collective__in_flight(const struct annotations *m, struct proc *p,
			   const __u64 words[CT_MAX_WORDS], struct rank_begun *b);

/* Records a launched kernel. If it is NCCL's, its number identifies the algorithm of the enclosing
 * call. */
void collective__launched(const struct annotations *m, const struct trace_event *ev,
			  struct thread *t);

/* Returns "float32" and its size in bytes; NULL and 0 if unknown. */
const char *nccl_type_name(uint64_t type, unsigned *size);
/* Returns "sum"; NULL if unknown. */
const char *nccl_redop_name(uint64_t op);
/* The factor by which nccl-tests multiplies S / t to get the bus bandwidth. */
double nccl_bus_factor(enum api_op op, uint32_t nranks);

#endif /* MODEL_COLLECTIVE_H */
