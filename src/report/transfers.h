/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef REPORT_TRANSFERS_H
#define REPORT_TRANSFERS_H

#include "report.h"

extern const struct analysis_ops transfers_ops;

#endif /* REPORT_TRANSFERS_H */
