/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Numbers inside of structs and arrays that a call was given, live or saved: what event_arg_u64()
 * does for plain arguments; and plain arguments that are enums. */
#ifndef MODEL_EVENT_PATH_H
#define MODEL_EVENT_PATH_H

#include "model/event.h"

/* path: "prop.location.id", "pCopy.srcHost", "attrib". Enums are their number. false: not there,
 * not read, or nothing (null). */
bool event_path_u64(const struct trace_event *ev, const char *path, uint64_t *val);
/* Elements of an array of numbers, at most max; how many there were. */
unsigned event_array_u64(const struct trace_event *ev, const char *arg, uint64_t *vals,
			 unsigned max);

#endif /* MODEL_EVENT_PATH_H */
