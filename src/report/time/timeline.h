/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What was done when: the time in calls of each class and thread, in steps of the trace. */
#ifndef REPORT_TIME_TIMELINE_H
#define REPORT_TIME_TIMELINE_H

#include "report/report.h"

extern const struct analysis_ops timeline_ops;

#endif /* REPORT_TIME_TIMELINE_H */
