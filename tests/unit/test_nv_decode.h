/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Shared by the tests of the decoder. Blocks are allocated at exactly their size, so that ASan
 * detects a read past the end. */
#ifndef TEST_NV_DECODE_H
#define TEST_NV_DECODE_H

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "decode/nv/nv_decode.h"

#define RM(nr, size) (0xc0004600u | (uint32_t)(size) << 16 | (nr))

static struct nv_abi abi;

static inline void set_driver(const char *text)
{
	struct nv_version v;

	assert_true(nv_version_parse(text, &v));
	nv_abi_init(&abi, &v);
}

static inline struct nv_range exact(const void *data, uint32_t off, uint32_t len)
{
	struct nv_range r = {.off = off, .len = len};
	void *copy = malloc(len ? len : 1);

	assert_non_null(copy);
	if (len)
		memcpy(copy, (const char *)data + off, len);
	r.data = copy;
	return r;
}

static inline void drop(struct nv_range *r)
{
	free((void *)r->data);
	r->data = NULL;
}

/* Decodes an ioctl with the first len bytes of the block at exit, and nothing at entry. */
static inline struct nv_ioctl decode(enum ct_nv_dev dev, uint32_t cmd, const void *block,
				     uint32_t len)
{
	struct nv_decode_in in = {.abi = &abi, .dev = dev, .cmd = cmd, .finished = true};
	struct nv_ioctl out;

	in.exit.r[0] = exact(block, 0, len);
	nv_decode_ioctl(&in, &out);
	drop(&in.exit.r[0]);
	return out;
}

static inline void put32(void *b, uint32_t off, uint32_t v)
{
	memcpy((char *)b + off, &v, sizeof(v));
}

static inline void put64(void *b, uint32_t off, uint64_t v)
{
	memcpy((char *)b + off, &v, sizeof(v));
}

#define assert_value(io, role, want)                                                               \
	do {                                                                                       \
		assert_int_equal((io).f[role].at, NV_AT_EXIT);                                     \
		assert_true((io).f[role].v == (want));                                             \
	} while (0)

#endif /* TEST_NV_DECODE_H */
