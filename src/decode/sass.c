/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "sass.h"

#include <string.h>

#define OP_MASK	    0x1ff
#define SCOREBOARDS 6
#define OP_BSSY	    0x145
/* Most loops are shorter; a search is not longer. */
#define BACK_MAX 4096

static const struct op {
	uint16_t number;
	uint8_t class;
	char name[10];
} ops[] = {
#define CLASS(ID, id, words)
#define OP(number, name, ID) {number, SASS_##ID, name},
#include "sass.def"
};

static const struct {
	const char *id, *words;
} classes[] = {
#define CLASS(ID, id, words) {#id, words},
#define OP(number, name, ID)
#include "sass.def"
};

bool sass_is_known(uint32_t arch)
{
	return arch >= 70 && arch <= 121;
}

const char *sass_class_name(enum sass_class c)
{
	return c < SASS_CLASS_CNT ? classes[c].id : NULL;
}

const char *sass_class_words(enum sass_class c)
{
	return c < SASS_CLASS_CNT ? classes[c].words : NULL;
}

enum sass_class sass_class_by_name(const char *name)
{
	int c = 0;

	while (c < SASS_CLASS_CNT && strcmp(name, classes[c].id))
		c++;
	return c;
}

static bool has(const struct sass *s, uint32_t pc)
{
	return pc % SASS_SZ == 0 && pc < s->size && s->size - pc >= SASS_SZ;
}

static uint64_t word(const struct sass *s, uint32_t pc, unsigned i)
{
	uint64_t v;

	memcpy(&v, s->code + pc + 8 * i, sizeof(v));
	return v;
}

static const struct op *op_at(const struct sass *s, uint32_t pc)
{
	uint32_t number = word(s, pc, 0) & OP_MASK;

	for (const struct op *o = ops; o < ops + sizeof(ops) / sizeof(ops[0]); o++)
		if (o->number == number)
			return o;
	return NULL;
}

enum sass_class sass_class_at(const struct sass *s, uint32_t pc)
{
	const struct op *o = has(s, pc) ? op_at(s, pc) : NULL;

	if (!has(s, pc))
		return SASS_CLASS_CNT;
	return o ? o->class : SASS_ARITHMETIC;
}

const char *sass_name_at(const struct sass *s, uint32_t pc)
{
	const struct op *o = has(s, pc) ? op_at(s, pc) : NULL;

	return o ? o->name : NULL;
}

/* The highest bits of an instruction: 4 of stall cycles, 1 yield, 3 write scoreboard, 3 read
 * scoreboard, 6 wait mask, and 4 that are not needed. */
static uint32_t control(const struct sass *s, uint32_t pc)
{
	return word(s, pc, 1) >> 41;
}

static bool sets(uint32_t control, unsigned scoreboard)
{
	return (control >> 5 & 7) == scoreboard || (control >> 8 & 7) == scoreboard;
}

static bool is_long_class(enum sass_class c)
{
	return c <= SASS_ASYNC_COPY;
}

/* The nearest before pc, or in a loop behind it. */
static uint32_t setter_of(const struct sass *s, uint32_t pc, unsigned scoreboard, bool is_long)
{
	uint32_t cnt = s->size / SASS_SZ, at = pc / SASS_SZ;

	for (uint32_t k = 1; k < cnt && k <= BACK_MAX; k++) {
		uint32_t i = at >= k ? at - k : at + cnt - k;

		if (sets(control(s, i * SASS_SZ), scoreboard))
			return is_long_class(sass_class_at(s, i * SASS_SZ)) == is_long ? i * SASS_SZ
										       : SASS_NONE;
	}
	return SASS_NONE;
}

/* Number of instructions from `from` forward to pc, around the end. */
static uint32_t distance(const struct sass *s, uint32_t from, uint32_t pc)
{
	return from < pc ? pc - from : pc + s->size - from;
}

uint32_t sass_waits_for(const struct sass *s, uint32_t pc, bool is_long)
{
	uint32_t best = SASS_NONE, mask;

	if (!sass_is_known(s->arch) || !has(s, pc))
		return SASS_NONE;
	mask = control(s, pc) >> 11;
	for (unsigned b = 0; b < SCOREBOARDS; b++) {
		uint32_t at = mask >> b & 1 ? setter_of(s, pc, b, is_long) : SASS_NONE;

		if (at != SASS_NONE &&
		    (best == SASS_NONE || distance(s, at, pc) < distance(s, best, pc)))
			best = at;
	}
	return best;
}

bool sass_is_guarded(const struct sass *s, uint32_t pc)
{
	/* Four bits after the operation: a predicate and its inversion; 7: always. */
	return has(s, pc) && (word(s, pc, 0) >> 12 & 15) != 7 &&
	       sass_class_at(s, pc) != SASS_BRANCH;
}

uint32_t sass_joins_at(const struct sass *s, uint32_t pc)
{
	uint64_t low = has(s, pc) ? word(s, pc, 0) : 0;
	uint64_t at = pc + SASS_SZ + (low >> 32);

	/* The offset is relative to the next instruction; others are behind the code. */
	return (low & OP_MASK) == OP_BSSY && at <= s->size ? at : 0;
}
