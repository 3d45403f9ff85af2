/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef REPORT_ADVICE_ANSWERS_H
#define REPORT_ADVICE_ANSWERS_H

#include "report/report.h"

extern const struct analysis_ops answers_ops;

#endif /* REPORT_ADVICE_ANSWERS_H */
