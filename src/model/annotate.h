/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What a call means: size, pointer, stream, direction, launch configuration, kernel name. Worked
 * out from the function's row (class, op, names and types of arguments), never from its name alone.
 */
#ifndef MODEL_ANNOTATE_H
#define MODEL_ANNOTATE_H

#include "event.h"
#include "proc.h"

/* What sort of name lookup a function is. */
enum lookup {
	LOOKUP_NONE,
	LOOKUP_BY_NAME,	  /* OUT(handle), IN_STR(name): cuModuleGetFunction, cuLibraryGetKernel */
	LOOKUP_TRANSLATE, /* OUT(CUfunction), IN(CUkernel): cuKernelGetFunction */
	LOOKUP_NAME_OF,	  /* OUT_PSTR(name), IN(handle): cuFuncGetName, cuKernelGetName */
};

/* Where in the arguments of a function its meaning is; -1: not there. Argument indexes. */
struct annotations {
	const struct api_fn *fn;
	enum event_type type;
	enum lookup lookup;
	int8_t size, ptr, stream, cu_event, func;
	int8_t cap[API_ARGS_MAX];  /* pointee of each argument */
	int8_t word[API_ARGS_MAX]; /* first argument word of each argument */
	/* Where the word is the value: which, and how many of its upper bits are none of it. */
	int8_t value_word[API_ARGS_MAX];
	uint8_t value_shift[API_ARGS_MAX];
	bool unloads; /* api_fn_unloads() */
	bool plain;   /* its calls are, as far as the function goes (trace_event.plain) */
	/* collectives */
	int8_t comm, count, datatype, redop, peer;
};

void annotate__init(struct annotations *m, const struct api_fn *fn);
/* Fills the meaning of *ev and learns from it. */
void annotate__apply(const struct annotations *m, struct trace_event *ev, struct proc *p);

#endif /* MODEL_ANNOTATE_H */
