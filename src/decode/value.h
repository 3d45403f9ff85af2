/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * One way to print values. A sink implements struct visitor_ops; decode/ and model/ walk arguments
 * and fields and call it. So no two outputs can disagree on what a value is.
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
	/* cut: the string was longer than what was read */
	void (*text)(struct visitor *v, const char *name, const char *s, size_t len, bool cut);
	void (*bytes)(struct visitor *v, const char *name, const uint8_t *p, size_t len);
	/* a value that could not be read, or that a failed call did not write */
	void (*none)(struct visitor *v, const char *name);
	void (*open)(struct visitor *v, const char *name);
	void (*close)(struct visitor *v);
	void (*open_array)(struct visitor *v, const char *name);
	void (*close_array)(struct visitor *v);
	/* members of a saved event as they stand in JSON, commas between; may be NULL: left out */
	void (*raw)(struct visitor *v, const char *json, size_t len);
	/* may be NULL: 0 or 1 then */
	void (*boolean)(struct visitor *v, const char *name, bool x);
	/* arguments that are numbers, one in each word: the same as api_visit_number() of each, at
	 * once; may be NULL */
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

/* How numbers of a type are printed: which of the functions above they go to. */
enum number_form {
	NUMBER_I64,
	NUMBER_U64,
	NUMBER_HEX,
	NUMBER_PTR,   /* hex, and none of 0 */
	NUMBER_NAMED, /* by an enum's names */
};
enum number_form api_number_form(const struct api_type *type);
/* Bits above its size may be anything, for the ABI leaves them open: so many of 64. */
unsigned api_number_shift(const struct api_type *type);
/* A value of at most 8 bytes. */
void api_visit_number(const struct api_type *type, const char *name, uint64_t x, struct visitor *v);

/* Is the field part of the struct at p, of which len bytes may be read? Members of unions are,
 * where they are selected: see api_field. by_arg: the argument that selects, -1: none. */
bool api_field_is_there(const struct api_field *f, const uint8_t *p, size_t len, int64_t by_arg);

/* What a record has of one ct_cap of the function's spec. */
struct pointee {
	const uint8_t *data;
	int len; /* bytes; 0: not read; negative: -errno */
};

/* Builds what the BPF side needs to know of a function. The pointees are in the order of the
 * arguments that ask for one; the first CT_MAX_CAPS of them are made. An argument that is an
 * attribute array behind a struct (CUlaunchConfig) adds a pointee right after the struct's.
 * One value prints the same way everywhere, so api_visit_args() relies on the same order. */
void api_fn_spec(const struct api_fn *fn, struct ct_spec *spec);
/* The same without what is redacted: the one place that says what that is. A pointee keeps its
 * place.
 */
void api_fn_spec_redacting(const struct api_fn *fn, enum ct_redact redact, struct ct_spec *spec);
/* A bit for each result of each family that has a name. */
void api_named_results(__u64 bits[CT_APIS_MAX][CT_RESULT_WORDS]);
/* "strings", "arguments", as headers have it; NULL: nothing is redacted. */
const char *api_redact_name(enum ct_redact redact);

/* Calls v for each argument, by name. caps has cap_cnt entries as api_fn_spec() orders them. */
void api_visit_args(const struct api_fn *fn, const uint64_t *words, unsigned word_cnt,
		    const struct pointee *caps, unsigned cap_cnt, struct visitor *v);

/* Index of the pointee of argument arg, or -1. */
int api_arg_cap(const struct api_fn *fn, unsigned arg);
/* Index of the first argument word of argument arg, or -1 when it is not in the words: a float. It
 * is the argument's own index but for functions that take floats or big structs by value. */
int api_arg_word(const struct api_fn *fn, unsigned arg);
/* Index of the first argument called name, or -1. */
int api_arg_by_name(const struct api_fn *fn, const char *name);

#endif /* DECODE_VALUE_H */
