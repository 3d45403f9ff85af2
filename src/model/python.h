/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Frames of Python code: maps code objects to functions, files and lines. A record taken while the
 * code object ran contains its names. Longer names are read from the process's memory. Both may
 * contain anything, so every length is limited. Code objects are freed and others made at their
 * addresses. A number distinguishes them (ct_python_slot()). A name read from memory counts only
 * if that number has not changed meanwhile.
 */
#ifndef MODEL_PYTHON_H
#define MODEL_PYTHON_H

#include "event.h"

#include "decode/python.h"

/* Code objects of one process, including those of the current stack; above this, all are
 * dropped. */
#define PYTHON_CODES_MAX 65536

struct python_codes;
/* Returns whether the code object with that number is still at code; NULL: unknown. */
struct python_check {
	bool (*is_there)(void *ctx, uint32_t pid, uint64_t code, uint32_t id);
	void *ctx;
};
/* The caller owns check. Returns NULL if out of memory. */
struct python_codes *python_codes__new(uint32_t pid, const struct python_location *place,
				       enum ct_redact redact, const struct python_check *check);
void python_codes__free(struct python_codes *c);
/* Drops all code objects. */
void python_codes__clear(struct python_codes *c);
/* Returns the memory used, in bytes. */
size_t python_codes__size(const struct python_codes *c);
/* Returns whether ip is in the interpreter itself. */
bool python_codes__is_interpreter(const struct python_codes *c, uint64_t ip);
const struct python_location *python_codes__place(const struct python_codes *c);
/* Stores the names of a code object. Returns 1 if it could not be read before, else 0; -ENOSPC if
 * there are too many; -ENOMEM. */
int python_codes__add_record(struct python_codes *c, const struct ct_python_code *rec);
/* Reads the unknown code objects. Returns false if there are too many: clear all and call this
 * again. */
bool python_codes__read(struct python_codes *c, const struct ct_python_frame *frames, unsigned cnt);
/* Fills *to with names; its strings live until python_codes__clear(). Returns false if they could
 * not be read. */
bool python_codes__frame(const struct python_codes *c, const struct ct_python_frame *from,
			 struct stack_frame *to);

#endif /* MODEL_PYTHON_H */
