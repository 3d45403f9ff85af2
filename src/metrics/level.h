/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* How much is recorded of a process. */
#ifndef METRICS_LEVEL_H
#define METRICS_LEVEL_H

enum proc_level { LEVEL_OFF, LEVEL_METRICS, LEVEL_TRACE, LEVEL_SAMPLED, LEVEL_CNT };
const char *proc_level_name(enum proc_level l);
/* -1: there is no such level. */
int proc_level_by_name(const char *name);

#endif /* METRICS_LEVEL_H */
