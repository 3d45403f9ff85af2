/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The pipeline map: the work of a program, from stage and iteration down to kernels. docs/MAP.md */
#ifndef REPORT_MAP_MAP_H
#define REPORT_MAP_MAP_H

#include "report/report.h"
#include "util/out.h"

/* Writes lines "frame;frame;... weight" for flame graph tools; opts.map selects the weight. */
void map_fold(const struct report *r, struct out *o);

/* Work of the iterations after the warm-up, after the finish. Returns false if there are none. */
struct roof_time;
bool map_of_steps(const struct report *r, uint64_t *steps, struct roof_time *time);

/* Returns true for a Python frame that is irrelevant to the program. */
bool map_is_noise(const struct stack_frame *f);

#endif /* REPORT_MAP_MAP_H */
