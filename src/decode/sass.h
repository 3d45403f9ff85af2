/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What an instruction of a GPU waits for, from the machine code alone. Instructions with variable
 * latency set one of six scoreboards; an instruction that needs the result names them in its wait
 * mask. The one that is waited for is the nearest before it that sets one of these.
 */
#ifndef DECODE_SASS_H
#define DECODE_SASS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum sass_class {
#define CLASS(ID, id, words) SASS_##ID,
#define OP(number, name, ID)
#include "sass.def"
	SASS_CLASS_CNT
};

/* The machine code of a function: any bytes. */
struct sass {
	const uint8_t *code;
	uint32_t size;
	uint32_t arch; /* 90: sm_90 */
};

#define SASS_NONE UINT32_MAX
#define SASS_SZ	  16 /* bytes of an instruction */

/* Returns whether instructions of this architecture have this form. */
bool sass_is_known(uint32_t arch);
/* Returns "global_load", ... */
const char *sass_class_name(enum sass_class c);
/* Returns "load from global memory", ... */
const char *sass_class_words(enum sass_class c);
/* Returns the class of the name, or SASS_CLASS_CNT. */
enum sass_class sass_class_by_name(const char *name);

/* pc: offset in the function. Outside the function: SASS_CLASS_CNT, and NULL. */
enum sass_class sass_class_at(const struct sass *s, uint32_t pc);
/* Returns "LDG", ...; NULL: another operation. */
const char *sass_name_at(const struct sass *s, uint32_t pc);
/* Returns the offset of the instruction for which the one at pc waits, or SASS_NONE. is_long: for
 * what passes through the L1 cache (long_scoreboard), otherwise for the rest (short_scoreboard). */
uint32_t sass_waits_for(const struct sass *s, uint32_t pc, bool is_long);
/* Returns whether a predicate may switch the instruction off. Branches and exits do not count. */
bool sass_is_guarded(const struct sass *s, uint32_t pc);
/* If threads of a warp may part after the instruction at pc (BSSY), returns the offset at which
 * they are together again; otherwise 0. */
uint32_t sass_joins_at(const struct sass *s, uint32_t pc);

#endif /* DECODE_SASS_H */
