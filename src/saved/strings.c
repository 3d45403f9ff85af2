/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "strings.h"

#include <stdlib.h>
#include <string.h>

#include "util/memlimit.h"

HASH_TABLE_BYTES(string, text);

struct strings {
	struct string_table texts;
	struct memlimit_share bytes;
	struct string *full;
};

static struct string *string__new(const char *s, size_t len)
{
	struct string *str = memlimit_new(MEMLIMIT_TEXTS, sizeof(*str) + len + 1);

	if (!str)
		return NULL;
	str->len = len;
	memcpy(str->text, s, len);
	return str;
}

struct strings *strings__new(void)
{
	static const char full[] = STRINGS_FULL;
	struct strings *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	memlimit_no_owner();
	t->full = string__new(full, strlen(full));
	if (!t->full) {
		strings__free(t);
		return NULL;
	}
	return t;
}

void strings__free(struct strings *t)
{
	if (!t)
		return;
	while (t->texts.first)
		memlimit_free(string_table__pop(&t->texts));
	memlimit_free(t->full);
	memlimit_share_free(&t->bytes);
	free(t);
}

/* Including its slot in the table. */
static size_t bytes_of(size_t len)
{
	return sizeof(struct string) + len + 1 + HASH_TABLE_ROW_SZ;
}

struct string *strings__get(struct strings *t, const char *s, size_t len)
{
	struct string *str;

	len = strnlen(s, len < STRING_MAX ? len : STRING_MAX);
	str = string_table__find(&t->texts, s, len);
	if (str)
		return str;
	if (!memlimit_charge(&t->bytes, bytes_of(len), MEMLIMIT_TEXTS_MAX, MEMLIMIT_TEXTS))
		return t->full;
	str = string__new(s, len);
	if (str && !string_table__add(&t->texts, str, len))
		return str;
	if (str)
		memlimit_reject(MEMLIMIT_TEXTS);
	memlimit_free(str);
	memlimit_uncharge(&t->bytes, NULL, bytes_of(len));
	return t->full;
}
