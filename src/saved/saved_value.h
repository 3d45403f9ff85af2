/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Reads the values of a line's members. An invalid value reads as 0 or NULL. */
#ifndef SAVED_SAVED_VALUE_H
#define SAVED_SAVED_VALUE_H

#include "saved_priv.h"

/* Reads a number, or a hexadecimal string. */
uint64_t member_u64(const struct member *m);
int64_t member_i64(const struct member *m);
double member_f64(const struct member *m);
/* A decimal number times 10^decimals. If negative is NULL, a negative number reads as 0. */
uint64_t member_fixed(const struct member *m, unsigned decimals, bool *negative);
bool member_dim(const struct member *m, uint32_t dim[3]);
enum copy_dir member_dir(const struct member *m);
uint32_t member_processor(const struct member *m);
uint32_t member_cause(const struct member *m);
/* Returns the interned string; NULL for anything else. */
const char *member_str(struct saved *s, const struct member *m);
/* Returns a word that needs no escapes in any format; NULL for anything else. */
const char *member_op(struct saved *s, const struct member *m);
/* Returns a word that cudatrace defines, which outputs do not escape; NULL if it needs escapes. */
const char *member_sym(struct saved *s, const struct member *m);

/* saved_params.c: returns NULL for anything else. Valid until the next event. */
const struct launch_params *saved_params(struct saved *s, const struct member *m);

/* saved_field.c: returns whether a member is read; reads the members of a line as their rows
 * describe. */
bool saved_takes(const struct event_field *f);
void saved_take(struct saved *s, struct trace_event *ev, enum event_kind kind,
		const struct json_value *p);

/* saved_order.c: fills s->text with fields and arguments in the order in which cudatrace writes
 * them, for an event whose fn is set. Returns false when out of memory. */
bool saved_put_in_order(struct saved *s, const struct json_value *p, const char *line,
			const struct trace_event *ev);
void saved_order_free(struct saved *s);

/* For EVENT_DRIVER and EVENT_SCHED: fills s->drv and what it points to. */
void saved_driver(struct saved *s, const struct json_value *p, struct trace_event *ev);

#endif /* SAVED_SAVED_VALUE_H */
