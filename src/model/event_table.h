/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The rows of events.def and trace.def as data, for code that reads or describes lines. */
#ifndef MODEL_EVENT_TABLE_H
#define MODEL_EVENT_TABLE_H

#include "event.h"

enum form {
#define FORM(form, c_type, schema) FORM_##form,
#include "forms.def"
	FORM_CNT
};
extern const char *const form_schemas[FORM_CNT]; /* JSON Schema of the value */

enum field_where {
	IN_BODY, /* event_visit_fields() visits it */
	COMMON,	 /* JSONL writes it before the body */
	CUSTOM
};

/* A row: F_line_ts, ..., F_call_symbol, ... */
enum event_field_id {
#define ROW(id, where, form, name, place, value, when, unit, text) F_##id##_##name,
#include "events.def"
	EVENT_FIELD_CNT
};

struct event_field {
	const char *name;
	const char *unit, *text;
	uint16_t offset, size; /* in struct trace_event; size 0: not stored */
	uint32_t has;	       /* enum event_has: the reader sets it */
	uint8_t form;	       /* enum form */
	uint8_t where;	       /* enum field_where */
	bool always;
};
extern const struct event_field event_fields[EVENT_FIELD_CNT];

/* Rows [first, end). */
struct event_rows {
	const struct event_field *first, *end;
};

enum kind_flag {
	NO_THREAD = 1 << 0, /* pid and tid are those of whichever thread was running */
	IS_GLOBAL = 1 << 1, /* it concerns all processes */
};

struct event_kind_desc {
	const char *name; /* as in events.def */
	const char *ops;  /* separated by blanks; "": any */
	const char *text;
	int type; /* enum event_type; -1: the types of calls */
	unsigned flags;
	struct event_rows rows;
};
extern const struct event_kind_desc event_kinds[EVENT_KIND_CNT];
/* The rows that every event has, whatever its kind. */
extern const struct event_rows line_rows;
/* Header and end: only name, form, unit, text and always are set. */
extern const struct event_rows header_rows, end_rows;

static inline bool event_is(const struct trace_event *ev, enum kind_flag flag)
{
	return event_kinds[ev->kind].flags & flag;
}

/* Returns whether values of the form point to text stored elsewhere. */
static inline bool form_is_text(enum form f)
{
	return f == FORM_sym || f == FORM_text || f == FORM_text_null;
}

#endif /* MODEL_EVENT_TABLE_H */
