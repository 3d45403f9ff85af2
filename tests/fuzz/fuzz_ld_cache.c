/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* /etc/ld.so.cache of a container. */
#include "fuzz.h"

#include "attach/find/ld_cache.h"

struct seen {
	unsigned cnt;
	size_t len;
};

static bool note(void *ctx, const char *name, const char *path)
{
	struct seen *s = ctx;

	if (strlen(name) >= 4096 || strlen(path) >= 4096)
		abort();
	s->len += strlen(name) + strlen(path);
	return ++s->cnt < 64;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct seen s = {0};

	ld_cache__each((const char *)data, size, note, &s);
	if (s.cnt > 64)
		abort();
	return 0;
}
