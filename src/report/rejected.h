/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What of a trace found no place in the tables of a report (util/memlimit.h). */
#ifndef REPORT_REJECTED_H
#define REPORT_REJECTED_H

#include "text/json.h"
#include "text/table.h"

/* "rejected", by table; nothing when all found its place. */
void rejected_json(struct json *j);

#endif /* REPORT_REJECTED_H */
