/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The parts of meaning.c that fill a file of their own. */
#ifndef MODEL_MEANING_PRIV_H
#define MODEL_MEANING_PRIV_H

#include "meaning.h"

/* Value of a scalar argument: passed, or written by the call. false: not known. */
bool event_arg(const struct meaning *m, const struct trace_event *ev, int arg, uint64_t *val);
bool event_arg_by_name(const struct meaning *m, const struct trace_event *ev, const char *name,
		       uint64_t *val);

void meaning_launch(const struct meaning *m, struct trace_event *ev, struct proc *p);
void meaning_memory(const struct meaning *m, struct trace_event *ev, struct proc *p);
void meaning_gemm(const struct meaning *m, struct trace_event *ev, struct proc *p);
void meaning_transfer(const struct meaning *m, struct trace_event *ev, struct proc *p);

#endif /* MODEL_MEANING_PRIV_H */
