/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Calls that failed: by code, as the full summary and JSON have them, and those to be shown. */
#include "summary_priv.h"

#include "model/call.h"
#include "model/failure.h"

static void note_failure(struct summary *s, const struct trace_event *ev)
{
	struct failure *f = s->failures;

	s->failure_cnt++;
	for (; f < s->failures + s->failure_kinds; f++) {
		if (f->code == ev->result && f->fn == ev->fn) {
			f->cnt++;
			return;
		}
	}
	if (s->failure_kinds == SUMMARY_ERRORS_MAX)
		return;
	s->failure_kinds++;
	*f = (struct failure){.fn = ev->fn,
			      .code = ev->result,
			      .has_size = ev->has & HAS_SIZE,
			      .cnt = 1,
			      .first_ns = ev->start_ns,
			      .size = ev->size};
}

void summary_error(struct summary *s, struct fn_stat *st, const struct trace_event *ev)
{
	struct error_stat *e = s->errors;

	s->error_cnt++;
	st->error_cnt++;
	if (call_is_outer(ev) && failure_matters(ev->fn, ev->result))
		note_failure(s, ev);
	for (; e < s->errors + s->error_kinds; e++) {
		if (e->code == ev->result && e->first->api == ev->fn->api) {
			e->cnt++;
			return;
		}
	}
	if (s->error_kinds == SUMMARY_ERRORS_MAX)
		return;
	s->error_kinds++;
	*e = (struct error_stat){ev->result, 1, ev->fn};
}
