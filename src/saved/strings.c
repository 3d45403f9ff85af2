/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "strings.h"

#include <stdlib.h>
#include <string.h>

#include "util/memlimit.h"

#define FIRST_SLOTS 1024

struct strings {
	struct string **slots;
	size_t slot_cnt, cnt;
	struct memlimit_share bytes;
	struct string *full;
};

static uint64_t word_at(const char *s)
{
	uint64_t word;

	memcpy(&word, s, 8);
	return word;
}

/* Two interleaved computations, for speed: kernel names are long. */
static uint32_t hash_of(const char *s, size_t len)
{
	const uint64_t k = 0x9e3779b97f4a7c15ull;
	uint64_t h = len * k, h2 = k, word = 0;

	for (; len >= 16; len -= 16, s += 16) {
		h = (h ^ word_at(s)) * k;
		h2 = (h2 ^ word_at(s + 8)) * k;
		h ^= h >> 29;
		h2 ^= h2 >> 31;
	}
	if (len >= 8) {
		h = (h ^ word_at(s)) * k;
		h ^= h >> 29;
		len -= 8;
		s += 8;
	}
	memcpy(&word, s, len);
	h = (h ^ h2 ^ word) * k;
	return h >> 32;
}

static struct string *string__new(const char *s, size_t len, uint32_t hash)
{
	struct string *str = memlimit_new(MEMLIMIT_TEXTS, sizeof(*str) + len + 1);

	if (!str)
		return NULL;
	str->hash = hash;
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
	t->slot_cnt = FIRST_SLOTS;
	t->slots = memlimit_new(MEMLIMIT_TEXTS, t->slot_cnt * sizeof(*t->slots));
	t->full = string__new(full, strlen(full), 0);
	if (!t->slots || !t->full) {
		strings__free(t);
		return NULL;
	}
	return t;
}

void strings__free(struct strings *t)
{
	if (!t)
		return;
	for (size_t i = 0; t->slots && i < t->slot_cnt; i++)
		memlimit_free(t->slots[i]);
	memlimit_free(t->slots);
	memlimit_free(t->full);
	memlimit_share_free(&t->bytes);
	free(t);
}

/* The shared table is charged to no owner. */
static void grow(struct strings *t)
{
	size_t n = 2 * t->slot_cnt;
	uint32_t was = memlimit_push_owner(NULL);
	struct string **slots = memlimit_new(MEMLIMIT_TEXTS, n * sizeof(*slots));

	memlimit_pop_owner(was);
	if (!slots)
		return;
	for (size_t i = 0; i < t->slot_cnt; i++) {
		size_t k;

		if (!t->slots[i])
			continue;
		k = t->slots[i]->hash & (n - 1);
		while (slots[k])
			k = (k + 1) & (n - 1);
		slots[k] = t->slots[i];
	}
	memlimit_free(t->slots);
	t->slots = slots;
	t->slot_cnt = n;
}

/* Including its slots. */
static size_t bytes_of(size_t len)
{
	return sizeof(struct string) + len + 4 * sizeof(struct string *);
}

struct string *strings__get(struct strings *t, const char *s, size_t len)
{
	struct string *str;
	uint32_t hash;
	size_t i;

	len = strnlen(s, len < STRING_MAX ? len : STRING_MAX);
	hash = hash_of(s, len);
	for (i = hash & (t->slot_cnt - 1); t->slots[i]; i = (i + 1) & (t->slot_cnt - 1)) {
		str = t->slots[i];
		if (str->hash == hash && str->len == len && !memcmp(str->text, s, len))
			return str;
	}
	/* Keep some slots empty in any case, or searches would be slow. */
	if (t->cnt >= t->slot_cnt / 8 * 7) {
		memlimit_reject(MEMLIMIT_TEXTS);
		return t->full;
	}
	if (!memlimit_charge(&t->bytes, bytes_of(len), STRINGS_MAX, MEMLIMIT_TEXTS))
		return t->full;
	str = string__new(s, len, hash);
	if (!str) {
		memlimit_uncharge(&t->bytes, NULL, bytes_of(len));
		return t->full;
	}
	t->slots[i] = str;
	if (++t->cnt > t->slot_cnt / 2)
		grow(t);
	return str;
}
