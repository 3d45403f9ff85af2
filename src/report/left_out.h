/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What of a trace found no place in the tables of a report (util/room.h). */
#ifndef REPORT_LEFT_OUT_H
#define REPORT_LEFT_OUT_H

#include "text/json.h"
#include "text/table.h"

/* "left_out", by table; nothing when all found its place. */
void left_out_json(struct json *j);

#endif /* REPORT_LEFT_OUT_H */
