/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Values of members: saved_value.c. What is not what it should be reads as nothing: 0, NULL. */
#ifndef SAVED_SAVED_VALUE_H
#define SAVED_SAVED_VALUE_H

#include "saved_priv.h"

/* A number, or hexadecimal in a string. */
uint64_t member_u64(const struct member *m);
int64_t member_i64(const struct member *m);
double member_f64(const struct member *m);
/* A decimal number times 10^decimals. negative NULL: such a number reads as 0. */
uint64_t member_fixed(const struct member *m, unsigned decimals, bool *negative);
bool member_dim(const struct member *m, uint32_t dim[3]);
enum copy_dir member_dir(const struct member *m);
uint32_t member_processor(const struct member *m);
uint32_t member_cause(const struct member *m);
/* Interned; NULL for what is no string. */
const char *member_str(struct saved *s, const struct member *m);
/* A word that needs no escapes anywhere; NULL for what is none. */
const char *member_op(struct saved *s, const struct member *m);

/* saved_field.c: is anything taken of a member; puts a line's members where their rows say. */
bool saved_takes(const struct event_field *f);
void saved_take(struct saved *s, struct trace_event *ev, enum event_kind kind,
		const struct json_value *p);

/* saved_order.c: makes s->text of fields and arguments in the order in which cudatrace writes them,
 * of an event whose fn is known. false: no memory. */
bool saved_put_in_order(struct saved *s, const struct json_value *p, const char *line,
			const struct trace_event *ev);
void saved_order_free(struct saved *s);

/* EVENT_DRIVER and EVENT_SCHED: fills s->drv and what it points to. */
void saved_driver(struct saved *s, const struct json_value *p, struct trace_event *ev);

#endif /* SAVED_SAVED_VALUE_H */
