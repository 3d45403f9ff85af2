/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Shared by annotate.c and annotate_*.c. */
#ifndef MODEL_ANNOTATE_PRIV_H
#define MODEL_ANNOTATE_PRIV_H

#include "annotate.h"

/* Like event_arg(), for an argument of any type. */
bool event_any_arg(const struct annotations *m, const struct trace_event *ev, int arg,
		   uint64_t *val);
/* Gets the value of a scalar argument, passed in or written by the call. Returns false if
 * unknown. */
static inline bool event_arg(const struct annotations *m, const struct trace_event *ev, int arg,
			     uint64_t *val)
{
	if (arg < 0 || arg >= API_ARGS_MAX)
		return false;
	if (m->value_word[arg] < 0)
		return event_any_arg(m, ev, arg, val);
	if ((unsigned)m->value_word[arg] >= ev->word_cnt)
		return false;
	*val = ev->words[m->value_word[arg]] << m->value_shift[arg] >> m->value_shift[arg];
	return true;
}
bool event_arg_by_name(const struct annotations *m, const struct trace_event *ev, const char *name,
		       uint64_t *val);

static inline void name_kernel(struct trace_event *ev, const struct kernel_name *name, bool guessed)
{
	ev->launch.kernel = name->demangled;
	ev->launch.kernel_mangled = name->mangled;
	ev->launch.kernel_guessed = guessed;
	ev->kernel_id = name->id;
	ev->kernel_mangled_id = name->id ? name->id + (name->demangled != name->mangled) : 0;
	ev->has |= HAS_KERNEL;
}

void annotate_launch(const struct annotations *m, struct trace_event *ev, struct proc *p);
void annotate_memory(const struct annotations *m, struct trace_event *ev, struct proc *p);
void annotate_gemm(const struct annotations *m, struct trace_event *ev, struct proc *p);
void annotate_transfer(const struct annotations *m, struct trace_event *ev, struct proc *p);

#endif /* MODEL_ANNOTATE_PRIV_H */
