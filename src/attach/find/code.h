/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Classifies a function by its first bytes. */
#ifndef ATTACH_FIND_CODE_H
#define ATTACH_FIND_CODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Number of bytes examined. */
#define CODE_LOOK_SZ 32

/* Number of functions in a library that only return a constant. */
struct code_stats {
	unsigned func_cnt;
	unsigned const_cnt;  /* return the same non-zero constant as cuInit */
	uint32_t init_value; /* what cuInit returns; 0: unknown, or it does more */
	uint32_t first_value;
};

/* x86-64: every kernel refuses a uprobe on this instruction. */
bool code_is_refused(const uint8_t *code, size_t len);

/* x86-64: some kernels refuse it, or some forms of it. */
bool code_is_suspect(const uint8_t *code, size_t len);

/* The kernel single-steps the instruction under a uprobe because it cannot emulate it: many times
 * the cost. */
bool code_is_stepped(const uint8_t *code, size_t len, uint16_t machine);

void code_stats__add(struct code_stats *s, const char *name, const uint8_t *code, size_t len,
		     uint16_t machine);
bool code_stats__is_stub(const struct code_stats *s);

#endif /* ATTACH_FIND_CODE_H */
