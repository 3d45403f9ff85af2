/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "map_rows.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#define BATCH_SZ (256 * 1024)
#define ROWS_MIN 16
#define ROWS_MAX 256

void map_rows__each(int fd, size_t key_sz, size_t val_sz,
		    void (*fn)(void *ctx, const void *key, const void *val), void *ctx)
{
	size_t max = BATCH_SZ / val_sz;
	char *keys = NULL, *vals = NULL;
	/* The kernel's own bucket number. */
	uint32_t at = 0, next;
	bool more = true, first = true;

	max = max > ROWS_MAX ? ROWS_MAX : max < ROWS_MIN ? ROWS_MIN : max;
	while (more) {
		uint32_t cnt = max;

		/* Valgrind does not see that the kernel fills them. */
		keys = keys ?: calloc(max, key_sz);
		vals = vals ?: calloc(max, val_sz);
		if (!keys || !vals)
			break;
		more = !bpf_map_lookup_batch(fd, first ? NULL : &at, &next, keys, vals, &cnt, NULL);
		if (!more && errno == ENOSPC) {
			/* A bucket has more rows than fit. */
			free(keys);
			free(vals);
			keys = vals = NULL;
			max *= 2;
			more = true;
			continue;
		}
		/* ENOENT comes with the last rows. */
		if (!more && errno != ENOENT)
			break;
		for (uint32_t i = 0; i < cnt; i++)
			fn(ctx, keys + i * key_sz, vals + i * val_sz);
		first = false;
		at = next;
	}
	free(keys);
	free(vals);
}
