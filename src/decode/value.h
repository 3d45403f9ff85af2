/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Passes the values of a call to a visitor. A sink implements struct visitor_ops; decode/ and
 * model/ walk arguments and fields and call it. So all outputs agree on a value.
 */
#ifndef DECODE_VALUE_H
#define DECODE_VALUE_H

#include "cuda.h"

#include "ct_spec.h"

struct visitor;

/* name is NULL for array elements. Strings passed to text come from the target: any bytes. */
struct visitor_ops {
	void (*u64)(struct visitor *v, const char *name, uint64_t x);
	void (*i64)(struct visitor *v, const char *name, int64_t x);
	void (*f64)(struct visitor *v, const char *name, double x);
	void (*hex)(struct visitor *v, const char *name, uint64_t x);
	/* a name from our tables */
	void (*sym)(struct visitor *v, const char *name, const char *s);
	/* cut: the string is longer than the part that was read */
	void (*text)(struct visitor *v, const char *name, const char *s, size_t len, bool cut);
	void (*bytes)(struct visitor *v, const char *name, const uint8_t *p, size_t len);
	/* a value that could not be read, or that a failed call did not write */
	void (*none)(struct visitor *v, const char *name);
	void (*open)(struct visitor *v, const char *name);
	void (*close)(struct visitor *v);
	void (*open_array)(struct visitor *v, const char *name);
	void (*close_array)(struct visitor *v);
	/* members of a saved event as JSON text, separated by commas; may be NULL: skipped */
	void (*raw)(struct visitor *v, const char *json, size_t len);
	/* may be NULL: u64 with 0 or 1 then */
	void (*boolean)(struct visitor *v, const char *name, bool x);
	/* several arguments that are numbers, one per word: the same as api_visit_number() for
	 * each; may be NULL */
	void (*numbers)(struct visitor *v, const struct api_arg *args, const uint64_t *words,
			unsigned cnt);
};

struct visitor {
	const struct visitor_ops *ops;
};

static inline void visit_bool(struct visitor *v, const char *name, bool x)
{
	if (v->ops->boolean)
		v->ops->boolean(v, name, x);
	else
		v->ops->u64(v, name, x);
}

/* How numbers of a type are printed: selects the function above. */
enum number_form {
	NUMBER_I64,
	NUMBER_U64,
	NUMBER_HEX,
	NUMBER_PTR,   /* hex, or none if 0 */
	NUMBER_NAMED, /* by names of an enum */
};
enum number_form api_number_form(const struct api_type *type);
/* Returns how many of the 64 bits are above the type's size: the ABI leaves them undefined. */
unsigned api_number_shift(const struct api_type *type);
/* Visits a value of at most 8 bytes. */
void api_visit_number(const struct api_type *type, const char *name, uint64_t x, struct visitor *v);

/* Returns whether the field is part of the struct at p, of which len bytes may be read. Members of
 * unions are if they are selected: see api_field. by_arg: the selecting argument, -1: none. */
bool api_field_is_there(const struct api_field *f, const uint8_t *p, size_t len, int64_t by_arg);

/* The recorded data of one ct_cap of the function's spec. */
struct pointee {
	const uint8_t *data;
	int len; /* bytes; 0: not read; negative: -errno */
};

/* Builds the spec of a function for the BPF programs. The pointees are in the order of the
 * arguments; only the first CT_MAX_CAPS are recorded. An attribute array behind a struct argument
 * (CUlaunchConfig) adds a pointee directly after the struct's. api_visit_args() relies on the same
 * order. */
void api_fn_spec(const struct api_fn *fn, struct ct_spec *spec);
/* As api_fn_spec(), without redacted data: this is the only place that defines it. Pointees keep
 * their index. */
void api_fn_spec_redacting(const struct api_fn *fn, enum ct_redact redact, struct ct_spec *spec);
/* Sets a bit for each named result of each family. */
void api_named_results(__u64 bits[CT_APIS_MAX][CT_RESULT_WORDS]);
/* Returns "strings" or "arguments", as in headers; NULL: nothing is redacted. */
const char *api_redact_name(enum ct_redact redact);

/* Calls v for each argument, by name. caps has cap_cnt entries in the order of api_fn_spec(). */
void api_visit_args(const struct api_fn *fn, const uint64_t *words, unsigned word_cnt,
		    const struct pointee *caps, unsigned cap_cnt, struct visitor *v);

/* Returns the index of the pointee of argument arg, or -1. */
int api_arg_cap(const struct api_fn *fn, unsigned arg);
/* Returns the index of the first argument word of argument arg, or -1 if it is not in the words (a
 * float). It is arg, except in functions that take floats or big structs by value. */
int api_arg_word(const struct api_fn *fn, unsigned arg);
/* Returns the index of the first argument with this name, or -1. */
int api_arg_by_name(const struct api_fn *fn, const char *name);

#endif /* DECODE_VALUE_H */
