/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The pipeline map: what was done, from stage and iteration down to kernels. docs/MAP.md */
#ifndef REPORT_MAP_MAP_H
#define REPORT_MAP_MAP_H

#include "report/report.h"
#include "util/out.h"

/* Lines "frame;frame;... weight", as flame graph tools read them; the weight is that of
 * opts.map. */
void map_fold(const struct report *r, struct out *o);

/* Does a Python frame say nothing of the program? */
bool map_is_noise(const struct stack_frame *f);

#endif /* REPORT_MAP_MAP_H */
