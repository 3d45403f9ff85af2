/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A report of a trace while it is made: a sink that writes at the end, in the form that its file's
 * name asks for (report_format_by_path()). */
#ifndef REPORT_LIVE_H
#define REPORT_LIVE_H

#include "sink/sink.h"

extern const struct sink_ops report_sink_ops;

#endif /* REPORT_LIVE_H */
