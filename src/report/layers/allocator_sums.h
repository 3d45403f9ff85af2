/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What PyTorch's allocator held of each device (--torch), beside what the driver was asked for. */
#ifndef REPORT_LAYERS_ALLOCATOR_SUMS_H
#define REPORT_LAYERS_ALLOCATOR_SUMS_H

#include "model/event.h"
#include "text/json.h"
#include "text/term.h"

struct allocator_sums;

/* NULL: no memory. */
struct allocator_sums *allocator_sums__new(void);
void allocator_sums__free(struct allocator_sums *s);
/* Of the allocator, and of calls that changed what the driver has given. */
void allocator_sums__event(struct allocator_sums *s, const struct trace_event *ev);
/* Nothing when there was none. */
void allocator_sums__print(struct allocator_sums *s, const struct term *term);
void allocator_sums__json(struct allocator_sums *s, struct json *j, const char *name);

#endif /* REPORT_LAYERS_ALLOCATOR_SUMS_H */
