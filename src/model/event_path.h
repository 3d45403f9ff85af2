/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Reads numbers inside structs and arrays that a call received, live or saved. It is
 * event_arg_u64() for nested values and for enums. */
#ifndef MODEL_EVENT_PATH_H
#define MODEL_EVENT_PATH_H

#include "model/event.h"

/* path: "prop.location.id", "pCopy.srcHost", "attrib". Enums are returned as numbers. Returns false
 * if the value does not exist, was not read, or is null. */
bool event_path_u64(const struct trace_event *ev, const char *path, uint64_t *val);
/* Reads at most max elements of an array of numbers. Returns how many. */
unsigned event_array_u64(const struct trace_event *ev, const char *arg, uint64_t *vals,
			 unsigned max);

#endif /* MODEL_EVENT_PATH_H */
