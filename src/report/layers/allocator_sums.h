/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Memory that PyTorch's allocator held on each device (--torch), apart from memory from the driver.
 */
#ifndef REPORT_LAYERS_ALLOCATOR_SUMS_H
#define REPORT_LAYERS_ALLOCATOR_SUMS_H

#include "model/event.h"
#include "text/json.h"
#include "text/term.h"

struct allocator_sums;

/* Returns NULL if out of memory. */
struct allocator_sums *allocator_sums__new(void);
void allocator_sums__free(struct allocator_sums *s);
/* Adds an event of the allocator, or a call that changed the driver's memory. */
void allocator_sums__event(struct allocator_sums *s, const struct trace_event *ev);
/* Prints nothing without events. */
void allocator_sums__print(struct allocator_sums *s, const struct term *term);
void allocator_sums__json(struct allocator_sums *s, struct json *j, const char *name);

#endif /* REPORT_LAYERS_ALLOCATOR_SUMS_H */
