/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Number and time of calls by stack. */
#ifndef REPORT_CALLERS_H
#define REPORT_CALLERS_H

#include "collect.h"
#include "text/json.h"

#include "model/event.h"

struct caller {
	const struct api_fn *fn;
	const struct stack *stack;
	uint64_t cnt, total_ns;
};

/* A zeroed struct is empty. */
struct callers {
	struct keys keys;
	struct caller *rows;
	unsigned cap;
};
extern const struct section_table caller_table; /* of a struct caller */
void callers__free(struct callers *c);
/* Does nothing if the event has no stack. */
void callers__add(struct callers *c, const struct trace_event *ev, uint64_t ns);
/* Sorts by time, longest first. */
void callers__sort(struct callers *c);

/* "inner < outer < main", cut to size. */
void stack_line(const struct stack *s, char *buf, size_t size);

#endif /* REPORT_CALLERS_H */
