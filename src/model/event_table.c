/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "event_table.h"

#include <stddef.h>

const char *const form_schemas[FORM_CNT] = {
#define FORM(form, c_type, schema) [FORM_##form] = schema,
#include "forms.def"
};

/* Conversion of a row's "when" for readers. */
#define ALWAYS_ALWAYS		    true
#define ALWAYS_HAS(x)		    false
#define ALWAYS_IF(condition)	    false
#define ALWAYS_IF_HAS(x, condition) false
#define SETS_ALWAYS		    0
#define SETS_HAS(x)		    HAS_##x
#define SETS_IF(condition)	    0
#define SETS_IF_HAS(x, condition)   HAS_##x

const struct event_field event_fields[EVENT_FIELD_CNT] = {
#define ROW(id, where_, form_, name_, place, value, when, unit_, text_)                            \
	[F_##id##_##name_] = {                                                                     \
		.name = #name_,                                                                    \
		.unit = unit_,                                                                     \
		.text = text_,                                                                     \
		.offset = offsetof(struct trace_event, place),                                     \
		.size = sizeof(((struct trace_event *)0)->place),                                  \
		.has = SETS_##when,                                                                \
		.form = FORM_##form_,                                                              \
		.where = where_,                                                                   \
		.always = ALWAYS_##when,                                                           \
	},
#include "events.def"
};

/* The size of a stored member must equal that of its form. */
#define ROW(id, where, form, name, place, value, when, unit, text)                                 \
	_Static_assert(!sizeof(((struct trace_event *)0)->place) ||                                \
			       sizeof(((struct trace_event *)0)->place) == sizeof(form_##form),    \
		       #id "." #name " differs in size from its form");                            \
	_Static_assert(sizeof(#name) <= 17, #name ": saved/parse.cc looks at 16 bytes");
#include "events.def"

/* Start and end of each kind's rows, numbered as in enum event_field_id. */
enum {
#define ROW(id, where, form, name, place, value, when, unit, text) AT_##id##_##name,
#define EVENT(ID, id, type, flags, ops, text)			   FIRST_##id, BACK_##id = FIRST_##id - 1,
#define END(id)							   END_##id, BACK_END_##id = END_##id - 1,
#include "events.def"
};

#define CALL_TYPES	   -1
#define OWN_TYPE(ID, name) TYPE_##ID
const struct event_kind_desc event_kinds[EVENT_KIND_CNT] = {
#define EVENT(ID, id, type_, flags_, ops_, text_)                                                  \
	[EVENT_##ID] = {                                                                           \
		.name = #id,                                                                       \
		.ops = ops_,                                                                       \
		.text = text_,                                                                     \
		.type = type_,                                                                     \
		.flags = flags_,                                                                   \
		.rows = {event_fields + FIRST_##id, event_fields + END_##id},                      \
	},
#include "events.def"
};

const struct event_rows line_rows = {event_fields, event_fields + FIRST_call};

#define TRACE_ROW(name_, form_, when, unit_, text_)                                                \
	{                                                                                          \
		.name = #name_,                                                                    \
		.unit = unit_,                                                                     \
		.text = text_,                                                                     \
		.form = FORM_##form_,                                                              \
		.where = CUSTOM,                                                                   \
		.always = ALWAYS_##when,                                                           \
	},
static const struct event_field header_fields[] = {
#define HEADER(form, name, place, when, unit, text) TRACE_ROW(name, form, when, unit, text)
#define HEADER_HAND(form, name, when, unit, text)   TRACE_ROW(name, form, when, unit, text)
#include "trace.def"
};

static const struct event_field end_fields[] = {
#define END(form, name, place, when, unit, text) TRACE_ROW(name, form, when, unit, text)
#define END_HAND(form, name, when, unit, text)	 TRACE_ROW(name, form, when, unit, text)
#include "trace.def"
};

#define ALL_OF(fields)                                                                             \
	{                                                                                          \
		fields, fields + sizeof(fields) / sizeof(fields[0])                                \
	}
const struct event_rows header_rows = ALL_OF(header_fields), end_rows = ALL_OF(end_fields);
