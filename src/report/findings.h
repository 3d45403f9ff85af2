/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef REPORT_FINDINGS_H
#define REPORT_FINDINGS_H

#include "report.h"

extern const struct analysis_ops findings_ops;

#endif /* REPORT_FINDINGS_H */
