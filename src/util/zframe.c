/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "zframe.h"

#include <stdlib.h>
#include <zstd.h>

struct zframe {
	ZSTD_CCtx *zstd;
};

void zstd_for_lines(ZSTD_CCtx *zstd)
{
	ZSTD_CCtx_setParameter(zstd, ZSTD_c_compressionLevel, 1);
	ZSTD_CCtx_setParameter(zstd, ZSTD_c_hashLog, 10);
	ZSTD_CCtx_setParameter(zstd, ZSTD_c_minMatch, 7);
}

struct zframe *zframe__new(void)
{
	struct zframe *z = calloc(1, sizeof(*z));

	if (!z)
		return NULL;
	z->zstd = ZSTD_createCCtx();
	if (!z->zstd) {
		free(z);
		return NULL;
	}
	zstd_for_lines(z->zstd);
	return z;
}

void zframe__free(struct zframe *z)
{
	if (!z)
		return;
	ZSTD_freeCCtx(z->zstd);
	free(z);
}

size_t zframe__make(struct zframe *z, const char *text, size_t len, char *frame, size_t room)
{
	size_t n = ZSTD_compress2(z->zstd, frame, room, text, len);

	return ZSTD_isError(n) ? 0 : n;
}
