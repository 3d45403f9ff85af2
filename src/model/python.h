/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Frames of Python code: from code objects to functions, files and lines. What a code object is
 * called comes with a record, taken while it ran; what is too long for that is read from the
 * process's memory. Both may hold anything: every length is bounded. Code objects are freed, and
 * others made in their places: a number tells them apart (ct_python_slot()), and what was read from
 * memory counts only if that number has not changed meanwhile.
 */
#ifndef MODEL_PYTHON_H
#define MODEL_PYTHON_H

#include "event.h"

#include "decode/python.h"

/* Code objects of one process; begun anew when there are more. With those of one stack. */
#define PYTHON_CODES_MAX 65536

struct python_codes;
/* Whether the code object of that number is still the one at code; NULL: nobody knows. */
struct python_check {
	bool (*is_there)(void *ctx, uint32_t pid, uint64_t code, uint32_t id);
	void *ctx;
};
/* check stays the caller's. NULL: no memory. */
struct python_codes *python_codes__new(uint32_t pid, const struct python_location *place,
				       enum ct_redact redact, const struct python_check *check);
void python_codes__free(struct python_codes *c);
/* Forgets all. */
void python_codes__clear(struct python_codes *c);
/* Bytes of memory. */
size_t python_codes__size(const struct python_codes *c);
/* An address in the interpreter itself? */
bool python_codes__is_interpreter(const struct python_codes *c, uint64_t ip);
const struct python_location *python_codes__place(const struct python_codes *c);
/* Takes what a code object is called. 1: it could not be read before, and can now; 0; -ENOSPC:
 * there are too many, -ENOMEM. */
int python_codes__tell(struct python_codes *c, const struct ct_python_code *rec);
/* Reads those that are not known. false: there are too many: all are to be forgotten, and this to
 * be called again. */
bool python_codes__read(struct python_codes *c, const struct ct_python_frame *frames, unsigned cnt);
/* What a frame is called; its strings live until all is forgotten. false: it could not be read. */
bool python_codes__frame(const struct python_codes *c, const struct ct_python_frame *from,
			 struct stack_frame *to);

#endif /* MODEL_PYTHON_H */
