/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* For tests of the driver's tables. */
#ifndef TESTS_NV_CHECK_H
#define TESTS_NV_CHECK_H

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <ctype.h>

#include "decode/nv/nv.h"

static inline struct nv_abi abi_of(const char *text)
{
	struct nv_version v;
	struct nv_abi abi;

	assert_true(nv_version_parse(text, &v));
	nv_abi_init(&abi, &v);
	return abi;
}

static inline void assert_name(const char *name)
{
	assert_non_null(name);
	assert_true(*name);
	for (; *name; name++)
		assert_true(isalnum((unsigned char)*name) || *name == '_' || *name == '.');
}

#endif /* TESTS_NV_CHECK_H */
