/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "segment.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Start of the suffix; the end of the name if there is none, or a number instead. */
static size_t ending_at(const char *path)
{
	static const char *const packed[] = {".gz", ".zst"};
	const char *slash = strrchr(path, '/');
	size_t name = slash ? slash + 1 - path : 0, end = strlen(path), all = end;

	for (unsigned i = 0; i < sizeof(packed) / sizeof(packed[0]); i++) {
		size_t n = strlen(packed[i]);

		if (end > name + n && !strcmp(path + end - n, packed[i]))
			all = end - n;
	}
	for (size_t at = all; at > name + 1; at--)
		if (path[at - 1] == '.')
			return strspn(path + at, "0123456789") < all - at ? at - 1 : all;
	return all;
}

/* The parts of a name before and after its number. */
struct parts {
	size_t stem_len;
	const char *ending;
	uint64_t number; /* 0: none */
};

static struct parts parts_of(const char *path)
{
	size_t end = ending_at(path), at = end;
	struct parts p = {end, path + end, 0};

	while (at && isdigit((unsigned char)path[at - 1]))
		at--;
	/* Accept only numbers in the form that we write. */
	if (at == end || end - at > 9 || path[at] == '0' || at < 2 || path[at - 1] != '.' ||
	    path[at - 2] == '/')
		return p;
	p.number = strtoull(path + at, NULL, 10);
	p.stem_len = at - 1;
	return p;
}

static int put(char *buf, size_t size, const char *path, size_t stem_len, unsigned n,
	       const char *ending)
{
	int len = snprintf(buf, size, "%.*s.%u%s", (int)stem_len, path, n, ending);

	return len < 0 || (size_t)len >= size ? -ENAMETOOLONG : 0;
}

int segment_path(char *buf, size_t size, const char *path, unsigned n)
{
	size_t end = ending_at(path);

	return put(buf, size, path, end, n, path + end);
}

unsigned segment_number(const char *path)
{
	return parts_of(path).number;
}

int segment_after(char *buf, size_t size, const char *path, unsigned n)
{
	struct parts p = parts_of(path);

	if (!n || p.number != n)
		return segment_path(buf, size, path, n + 1);
	return put(buf, size, path, p.stem_len, n + 1, p.ending);
}

static bool same_output(const char *a, const struct parts *pa, const char *b,
			const struct parts *pb)
{
	return pa->stem_len == pb->stem_len && !memcmp(a, b, pa->stem_len) &&
	       !strcmp(pa->ending, pb->ending);
}

void segments_sort(const char **paths, unsigned cnt)
{
	for (unsigned i = 0; i < cnt; i++) {
		struct parts first = parts_of(paths[i]);
		const char *moved;
		unsigned to = i;

		for (unsigned k = i + 1; k < cnt; k++) {
			struct parts p = parts_of(paths[k]);

			if (!same_output(paths[i], &first, paths[k], &p) ||
			    p.number >= parts_of(paths[to]).number)
				continue;
			to = k;
		}
		moved = paths[to];
		memmove(&paths[i + 1], &paths[i], (to - i) * sizeof(*paths));
		paths[i] = moved;
	}
}
