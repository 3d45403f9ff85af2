/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Helpers for the conditions of rows of calls in events.def, for files that generate code from the
 * rows. */
#ifndef MODEL_CALL_ROWS_H
#define MODEL_CALL_ROWS_H

#include "event.h"

#include <string.h>

#define WHEN_ALWAYS		  true
#define WHEN_HAS(x)		  (ev->has & HAS_##x)
#define WHEN_IF(condition)	  (condition)
#define WHEN_IF_HAS(x, condition) (condition)

static inline const char *kernel_name(const struct trace_event *ev)
{
	if (!(ev->has & (HAS_LAUNCH | HAS_KERNEL)))
		return NULL;
	return ev->launch.kernel ? ev->launch.kernel : ev->launch.kernel_mangled;
}

static inline bool has_other_name(const struct trace_event *ev)
{
	const char *name = kernel_name(ev), *mangled = ev->launch.kernel_mangled;

	return name && mangled && name != mangled && strcmp(name, mangled);
}

static inline bool has_config(const struct trace_event *ev)
{
	return (ev->has & HAS_LAUNCH) && ev->launch.has_config;
}

#endif /* MODEL_CALL_ROWS_H */
