/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "hash_table.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/auxv.h>

#define BUCKETS_MIN ((HASH_TABLE_MIN_SZ - sizeof(struct hash_index)) / sizeof(void *))
#define BUCKETS_MAX (1u << 31)

uint64_t hash_seed[2];

/* The kernel passes each new process 16 random bytes. */
static __attribute__((constructor)) void set_seed(void)
{
	const void *random = (const void *)getauxval(AT_RANDOM);

	if (random)
		memcpy(hash_seed, random, sizeof(hash_seed));
	/* glibc takes its canaries from these bytes: the seed does not contain them. */
	hash_seed[0] = hash_mix(hash_seed[0] ^ 0x9e3779b97f4a7c15, 0xc2b2ae3d27d4eb4f);
	hash_seed[1] = hash_mix(hash_seed[1] ^ hash_seed[0], 0x9e3779b97f4a7c15) | 1;
}

uint64_t hash_bytes(const void *bytes, size_t len)
{
	uint64_t h = hash_seed[1] ^ len, w[2];
	const char *s = bytes;

	for (; len > 16; len -= 16, s += 16) {
		memcpy(w, s, 16);
		h = hash_mix(w[0] ^ hash_seed[0], w[1] ^ h);
	}
	w[0] = w[1] = 0;
	memcpy(w, s, len);
	return hash_mix(hash_mix(w[0] ^ hash_seed[0], w[1] ^ h), hash_seed[1]);
}

static inline uint32_t hash_key(const void *key, size_t key_sz)
{
	uint64_t word = 0;

	/* Fixed sizes need no call of memcpy() or, below, memcmp(). */
	if (key_sz == sizeof(uint64_t))
		memcpy(&word, key, sizeof(uint64_t));
	else if (key_sz == sizeof(uint32_t))
		memcpy(&word, key, sizeof(uint32_t));
	else
		return (uint32_t)hash_bytes(key, key_sz);
	return (uint32_t)hash_word(word);
}

static inline bool is_key(const struct hash_link *x, const void *key, size_t key_sz)
{
	if (x->key_sz != key_sz)
		return false;
	if (key_sz == sizeof(uint64_t))
		return !memcmp(x->key, key, sizeof(uint64_t));
	if (key_sz == sizeof(uint32_t))
		return !memcmp(x->key, key, sizeof(uint32_t));
	return !memcmp(x->key, key, key_sz);
}

static inline struct hash_link **bucket(struct hash_index *x, uint32_t hash)
{
	return &x->buckets[hash & (x->bucket_cnt - 1)];
}

void *hash_table__find(const struct hash_table *t, const void *key, size_t key_sz)
{
	struct hash_link *x;
	uint32_t hash;

	if (!t->index)
		return NULL;
	hash = hash_key(key, key_sz);
	for (x = *bucket(t->index, hash); x; x = x->chain)
		if (x->hash == hash && is_key(x, key, key_sz))
			break;
	return x;
}

static void put(struct hash_table *t, struct hash_link *x)
{
	struct hash_link **at = bucket(t->index, x->hash);

	x->chain = *at;
	*at = x;
}

static int grow(struct hash_table *t)
{
	size_t cnt = t->index ? 2 * (size_t)t->index->bucket_cnt : BUCKETS_MIN;
	struct hash_index *index = NULL;

	if (cnt <= BUCKETS_MAX)
		index = realloc(t->index, sizeof(*index) + cnt * sizeof(index->buckets[0]));
	if (!index)
		return -ENOMEM;
	if (!t->index)
		*index = (struct hash_index){0};
	memset(index->buckets, 0, cnt * sizeof(index->buckets[0]));
	index->bucket_cnt = (uint32_t)cnt;
	t->index = index;
	for (struct hash_link *x = t->first; x; x = x->next)
		put(t, x);
	return 0;
}

int hash_table__add(struct hash_table *t, void *element, const void *key, size_t key_sz)
{
	struct hash_link *x = element, *last;

	if (key_sz > UINT32_MAX ||
	    ((!t->index || t->index->cnt == t->index->bucket_cnt) && grow(t)))
		return -ENOMEM;
	last = t->index->last;
	*x = (struct hash_link){
		.prev = last,
		.key = key,
		.key_sz = (uint32_t)key_sz,
		.hash = hash_key(key, key_sz),
	};
	put(t, x);
	*(last ? &last->next : &t->first) = x;
	t->index->last = x;
	t->index->cnt++;
	return 0;
}

void *hash_table__new(struct hash_table *t, size_t size, const void *key, size_t key_at,
		      size_t key_sz)
{
	char *element = calloc(1, size);

	if (!element)
		return NULL;
	memcpy(element + key_at, key, key_sz);
	if (!hash_table__add(t, element, element + key_at, key_sz))
		return element;
	free(element);
	return NULL;
}

void hash_table__del(struct hash_table *t, void *element)
{
	struct hash_link *x = element, *prev = x->prev, *next = x->next;
	struct hash_link **at = bucket(t->index, x->hash);

	while (*at != x)
		at = &(*at)->chain;
	*at = x->chain;
	*(prev ? &prev->next : &t->first) = next;
	*(next ? &next->prev : &t->index->last) = prev;
	if (--t->index->cnt)
		return;
	free(t->index);
	t->index = NULL;
}

void *hash_table__pop(struct hash_table *t)
{
	void *first = t->first;

	if (first)
		hash_table__del(t, first);
	return first;
}
