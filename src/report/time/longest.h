/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef REPORT_TIME_LONGEST_H
#define REPORT_TIME_LONGEST_H

#include "report/report.h"

extern const struct analysis_ops longest_ops;

#endif /* REPORT_TIME_LONGEST_H */
