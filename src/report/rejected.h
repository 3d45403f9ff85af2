/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Parts of a trace that the tables of a report rejected (util/memlimit.h). */
#ifndef REPORT_REJECTED_H
#define REPORT_REJECTED_H

#include "text/json.h"
#include "text/table.h"

/* Writes "rejected", by table; writes nothing if nothing was rejected. */
void rejected_json(struct json *j);

#endif /* REPORT_REJECTED_H */
