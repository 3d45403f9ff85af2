/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "intern.h"

#include <stdlib.h>
#include <string.h>

#include "util/hash_table.h"
#include "util/out.h"

#define SLOT_CNT  (1 << 17) /* a power of two */
#define FULL_CNT  (SLOT_CNT / 2)
#define FULL_SIZE (16 << 20)

struct slot {
	uint64_t hash; /* 0: free */
	uint64_t number;
	uint32_t at, len; /* position in the bytes of all */
};

struct intern {
	struct slot *slots;
	struct out *bytes;
	unsigned cnt;
	uint64_t last[INTERN_KINDS];
};

struct intern *intern__new(void)
{
	struct intern *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	t->slots = calloc(SLOT_CNT, sizeof(*t->slots));
	if (!t->slots) {
		free(t);
		return NULL;
	}
	t->bytes = out__memory();
	if (t->bytes)
		return t;
	intern__free(t);
	return NULL;
}

void intern__free(struct intern *t)
{
	if (!t)
		return;
	out__close(t->bytes);
	free(t->slots);
	free(t);
}

uint64_t intern__get(struct intern *t, unsigned kind, const void *key, size_t len, bool *is_new)
{
	uint64_t hash = hash_bytes(key, len) + kind ?: 1;
	struct slot *s;

	for (size_t i = hash;; i++) {
		s = &t->slots[i & (SLOT_CNT - 1)];
		if (!s->hash)
			break;
		if (s->hash == hash && s->len == len + 1 && t->bytes->buf[s->at] == (char)kind &&
		    !memcmp(t->bytes->buf + s->at + 1, key, len)) {
			*is_new = false;
			return s->number;
		}
	}
	*s = (struct slot){hash, ++t->last[kind], t->bytes->len, len + 1};
	out_char(t->bytes, (char)kind);
	out_bytes(t->bytes, key, len);
	t->cnt++;
	*is_new = true;
	return s->number;
}

bool intern__full(const struct intern *t)
{
	return t->cnt >= FULL_CNT || t->bytes->len >= FULL_SIZE;
}

void intern__empty(struct intern *t, bool again)
{
	memset(t->slots, 0, SLOT_CNT * sizeof(*t->slots));
	t->bytes->len = 0;
	t->cnt = 0;
	if (again)
		memset(t->last, 0, sizeof(t->last));
}
