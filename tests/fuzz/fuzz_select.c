/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* -e expressions. */
#include "fuzz.h"

#include <errno.h>

#include "decode/fnset.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct fnset *set;
	char *expr, why[256] = "", a[512], b[512];
	int ret;

	if (size > 4096)
		return 0;
	if (!set)
		set = fnset__new();
	expr = as_string(data, size);
	ret = fnset__select(set, expr, why, sizeof(why));
	if (ret && ret != -EINVAL && ret != -ENOMEM)
		abort();
	if (ret == -EINVAL && !why[0])
		abort();
	if (!ret)
		fnset__describe(set, a, sizeof(a), b, sizeof(b));
	free(expr);
	return 0;
}
