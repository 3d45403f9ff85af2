/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Frames of Python code: from code objects to functions, files and lines. Each code object is read
 * once from the process's memory, which may hold anything: every length is bounded. Code objects
 * are freed, and others made in their places: so they are looked at again when a stack comes that
 * is new, or after a second.
 */
#ifndef MODEL_PYTHON_H
#define MODEL_PYTHON_H

#include "event.h"

#include "decode/python.h"

/* Code objects of one process; begun anew when there are more. */
#define PYTHON_CODES_MAX 65536

struct python_codes;
struct python_codes *python_codes__new(uint32_t pid, const struct python_place *place,
				       enum ct_hide hide);
void python_codes__free(struct python_codes *c);
/* Forgets all. */
void python_codes__clear(struct python_codes *c);
/* Bytes of memory. */
size_t python_codes__size(const struct python_codes *c);
/* An address in the interpreter itself? */
bool python_codes__is_interpreter(const struct python_codes *c, uint64_t ip);
/*
 * Reads those that are not known, and looks whether the others are what they were. false: one is
 * not, or there are too many: everything is to be forgotten, and this to be called again.
 */
bool python_codes__read(struct python_codes *c, const struct ct_python_frame *frames, unsigned cnt);
/* What a frame is called; its strings live until all is forgotten. false: it could not be read. */
bool python_codes__frame(const struct python_codes *c, const struct ct_python_frame *from,
			 struct stack_frame *to);

#endif /* MODEL_PYTHON_H */
