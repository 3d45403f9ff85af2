/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Cubins: the ELF files in which the driver has a module's machine code. */
#ifndef INJECT_CUBIN_H
#define INJECT_CUBIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cubin_code {
	const uint8_t *at;
	uint32_t size;
	uint32_t arch; /* 90: sm_90; 0: unknown */
};

/* Finds a function's machine code in a cubin, which may have any content. */
bool code_find(const uint8_t *cubin, size_t size, const char *function, struct cubin_code *c);

#endif /* INJECT_CUBIN_H */
