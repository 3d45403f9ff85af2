/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "ld_cache.h"

#include <stdint.h>
#include <string.h>

#ifdef __aarch64__
#define CACHE_FLAGS 0x0a03 /* FLAG_AARCH64_LIB64 | FLAG_ELF_LIBC6 */
#else
#define CACHE_FLAGS 0x0303 /* FLAG_X8664_LIB64 | FLAG_ELF_LIBC6 */
#endif

/* From glibc's sysdeps/generic/dl-cache.h. Offsets count from the header. */
struct cache_header {
	char magic[20]; /* "glibc-ld.so.cache1.1" */
	uint32_t lib_cnt;
	uint32_t strings_sz;
	uint32_t unused[5];
};
_Static_assert(sizeof(struct cache_header) == 48, "glibc's struct cache_file_new");

struct cache_entry {
	int32_t flags;
	uint32_t name_off, path_off;
	uint32_t os_version;
	uint64_t hwcap;
};
_Static_assert(sizeof(struct cache_entry) == 24, "glibc's struct file_entry_new");

#define CACHE_MAGIC	"glibc-ld.so.cache1.1"
#define OLD_CACHE_MAGIC "ld.so-1.7.0"
#define STRING_MAX	4096

/* glibc before 2.32 put the old format in front: 12 bytes of magic, a count, entries of 12 bytes,
 * then the new format at the next multiple of 8. */
static size_t skip_old_format(const char *buf, size_t size)
{
	uint32_t cnt;

	if (size < 16 || memcmp(buf, OLD_CACHE_MAGIC, sizeof(OLD_CACHE_MAGIC) - 1) != 0)
		return 0;
	memcpy(&cnt, buf + 12, sizeof(cnt));
	return (size_t)((16 + 12ULL * cnt + 7) & ~7ULL);
}

/* Returns NULL if the string is not terminated. */
static const char *string_at(const char *buf, size_t size, uint32_t off)
{
	size_t left = off < size ? size - off : 0;

	return memchr(buf + (left ? off : 0), 0, left < STRING_MAX ? left : STRING_MAX) ? buf + off
											: NULL;
}

void ld_cache__each(const char *buf, size_t size,
		    bool (*fn)(void *ctx, const char *name, const char *path), void *ctx)
{
	size_t start = skip_old_format(buf, size);
	struct cache_header h;
	struct cache_entry e;

	if (start > size || size - start < sizeof(h))
		return;
	buf += start;
	size -= start;
	memcpy(&h, buf, sizeof(h));
	if (memcmp(h.magic, CACHE_MAGIC, sizeof(h.magic)) != 0 ||
	    h.lib_cnt > (size - sizeof(h)) / sizeof(e))
		return;
	for (uint32_t i = 0; i < h.lib_cnt; i++) {
		const char *name, *path;

		memcpy(&e, buf + sizeof(h) + i * sizeof(e), sizeof(e));
		if (e.flags != CACHE_FLAGS)
			continue;
		name = string_at(buf, size, e.name_off);
		path = string_at(buf, size, e.path_off);
		if (name && path && !fn(ctx, name, path))
			return;
	}
}
