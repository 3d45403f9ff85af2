/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef REPORT_LONGEST_H
#define REPORT_LONGEST_H

#include "report.h"

extern const struct analysis_ops longest_ops;

#endif /* REPORT_LONGEST_H */
