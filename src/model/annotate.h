/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Annotates calls: size, pointer, stream, direction, launch configuration, kernel name. The
 * function's row (class, op, names and types of arguments) determines them, never its name alone.
 */
#ifndef MODEL_ANNOTATE_H
#define MODEL_ANNOTATE_H

#include "event.h"
#include "proc.h"

/* The kind of name lookup that a function does. */
enum lookup {
	LOOKUP_NONE,
	LOOKUP_BY_NAME,	  /* OUT(handle), IN_STR(name): cuModuleGetFunction, cuLibraryGetKernel */
	LOOKUP_TRANSLATE, /* OUT(CUfunction), IN(CUkernel): cuKernelGetFunction */
	LOOKUP_NAME_OF,	  /* OUT_PSTR(name), IN(handle): cuFuncGetName, cuKernelGetName */
};

/* Indexes of the arguments that carry a function's meaning; -1: there is none. */
struct annotations {
	const struct api_fn *fn;
	enum event_type type;
	enum lookup lookup;
	int8_t size, ptr, stream, cu_event, func, params;
	int8_t cap[API_ARGS_MAX];  /* pointee of each argument */
	int8_t word[API_ARGS_MAX]; /* first argument word of each argument */
	/* The word that holds the value, and how many of its upper bits do not belong to it. */
	int8_t value_word[API_ARGS_MAX];
	uint8_t value_shift[API_ARGS_MAX];
	bool unloads; /* api_fn_unloads() */
	bool plain;   /* its calls have trace_event.plain, unless something else clears it */
	/* collectives */
	int8_t comm, count, datatype, redop, peer;
};

void annotate__init(struct annotations *m, const struct api_fn *fn);
/* Annotates *ev, and updates the state of p from it. */
void annotate__apply(const struct annotations *m, struct trace_event *ev, struct proc *p);

#endif /* MODEL_ANNOTATE_H */
