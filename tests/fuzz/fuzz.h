/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Shared by the fuzz targets: bytes taken from the front of the input, and sinks into memory. */
#ifndef TESTS_FUZZ_H
#define TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct input {
	const uint8_t *p;
	size_t left;
};

/* Copies n bytes to `to`; missing bytes are 0. */
static inline void take(struct input *in, void *to, size_t n)
{
	size_t have = n < in->left ? n : in->left;

	memset(to, 0, n);
	memcpy(to, in->p, have);
	in->p += have;
	in->left -= have;
}

static inline uint8_t take8(struct input *in)
{
	uint8_t x;

	take(in, &x, sizeof(x));
	return x;
}

static inline uint16_t take16(struct input *in)
{
	uint16_t x;

	take(in, &x, sizeof(x));
	return x;
}

/* The input as a string in a block of exactly its size; freed by the caller. */
static inline char *as_string(const uint8_t *data, size_t size)
{
	char *s = malloc(size + 1);

	if (!s)
		abort();
	memcpy(s, data, size);
	s[size] = '\0';
	return s;
}

#endif /* TESTS_FUZZ_H */
