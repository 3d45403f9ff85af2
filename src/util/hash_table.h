/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Hash tables of one element type each, checked by the compiler. Elements belong to the caller, who
 * allocates them; a pointer to one stays valid. The first member of an element is
 * `struct hash_link link`.
 *
 * - Iteration is in the order of addition.
 * - Keys may be hostile: their slots depend on a random number of this process.
 * - A zeroed table is empty, and has no memory of its own. A table with elements uses at most
 *   HASH_TABLE_ROW_SZ bytes per element, and at least HASH_TABLE_MIN_SZ.
 * - Adding fails with -ENOMEM, and the table is unchanged.
 * - Of elements with equal keys, the latest is found.
 */
#ifndef UTIL_HASH_TABLE_H
#define UTIL_HASH_TABLE_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#define HASH_TABLE_ROW_SZ 16
#define HASH_TABLE_MIN_SZ 80

struct hash_link {
	void *next, *prev; /* elements, in the order of addition */
	struct hash_link *chain;
	const void *key;
	uint32_t hash, key_sz;
};

struct hash_index {
	void *last;
	uint32_t cnt, bucket_cnt;
	struct hash_link *buckets[];
};

struct hash_table {
	void *first;		  /* first member: see HASH_TABLE_TYPE() */
	struct hash_index *index; /* NULL: empty */
};

/* Hashes for other containers; they differ between processes. */
extern uint64_t hash_seed[2];
uint64_t hash_bytes(const void *bytes, size_t len);

static inline uint64_t hash_mix(uint64_t a, uint64_t b)
{
	unsigned __int128 x = (unsigned __int128)a * b;

	return (uint64_t)x ^ (uint64_t)(x >> 64);
}

/* One product alone is linear: with some seeds, keys at equal distances share slots. */
static inline uint64_t hash_word(uint64_t x)
{
	return hash_mix(hash_mix(x ^ hash_seed[0], hash_seed[1]), 0x9e3779b97f4a7c15);
}

/* For the functions below. */
void *hash_table__find(const struct hash_table *t, const void *key, size_t key_sz);
int hash_table__add(struct hash_table *t, void *element, const void *key, size_t key_sz);
void *hash_table__new(struct hash_table *t, size_t size, const void *key, size_t key_at,
		      size_t key_sz);
void hash_table__del(struct hash_table *t, void *element);
void *hash_table__pop(struct hash_table *t);

/* Declares struct X_table, a table of struct X, which may be incomplete. */
#define HASH_TABLE_TYPE(x)                                                                         \
	struct x##_table {                                                                         \
		union {                                                                            \
			struct hash_table table;                                                   \
			struct x *first;                                                           \
		};                                                                                 \
	}

#define HASH_TABLE_FN static inline __attribute__((unused))

/* X_table__del(t, element); X_table__pop(t): deletes the first element and returns it, NULL: none;
 * X_table__free(t): deletes all and frees each with free(). */
#define HASH_TABLE_COMMON(x)                                                                       \
	_Static_assert(!offsetof(struct x, link), "the link is the first member");                 \
	HASH_TABLE_FN void x##_table__del(struct x##_table *t, struct x *element)                  \
	{                                                                                          \
		hash_table__del(&t->table, &element->link);                                        \
	}                                                                                          \
	HASH_TABLE_FN struct x *x##_table__pop(struct x##_table *t)                                \
	{                                                                                          \
		return hash_table__pop(&t->table);                                                 \
	}                                                                                          \
	HASH_TABLE_FN void x##_table__free(struct x##_table *t)                                    \
	{                                                                                          \
		while (t->first)                                                                   \
			free(x##_table__pop(t));                                                   \
	}                                                                                          \
	struct x

/* Defines the functions of a table whose key is a member without padding: X_table__find(t, &key)
 * returns NULL if there is none; X_table__add(t, element) returns 0 or -ENOMEM; X_table__new(t,
 * &key) adds a zeroed element with that key, from calloc(), and returns it, NULL: out of memory. */
#define HASH_TABLE_KEY(x, member)                                                                  \
	HASH_TABLE_FN struct x *x##_table__find(const struct x##_table *t,                         \
						const __typeof__(((struct x *)0)->member) *key)    \
	{                                                                                          \
		return hash_table__find(&t->table, key, sizeof(*key));                             \
	}                                                                                          \
	HASH_TABLE_FN __attribute__((warn_unused_result)) int x##_table__add(struct x##_table *t,  \
									     struct x *element)    \
	{                                                                                          \
		return hash_table__add(&t->table, &element->link, &element->member,                \
				       sizeof(element->member));                                   \
	}                                                                                          \
	HASH_TABLE_FN struct x *x##_table__new(struct x##_table *t,                                \
					       const __typeof__(((struct x *)0)->member) *key)     \
	{                                                                                          \
		return hash_table__new(&t->table, sizeof(struct x), key,                           \
				       offsetof(struct x, member), sizeof(*key));                  \
	}                                                                                          \
	HASH_TABLE_COMMON(x)

/* Defines these functions for a key of bytes, in or at a member: X_table__find(t, bytes, len) and
 * X_table__add(t, element, len). */
#define HASH_TABLE_BYTES(x, member)                                                                \
	HASH_TABLE_FN struct x *x##_table__find(const struct x##_table *t, const void *bytes,      \
						size_t len)                                        \
	{                                                                                          \
		return hash_table__find(&t->table, bytes, len);                                    \
	}                                                                                          \
	HASH_TABLE_FN __attribute__((warn_unused_result)) int x##_table__add(                      \
		struct x##_table *t, struct x *element, size_t len)                                \
	{                                                                                          \
		return hash_table__add(&t->table, &element->link, element->member, len);           \
	}                                                                                          \
	HASH_TABLE_COMMON(x)

/* Type and functions together. */
#define HASH_TABLE(x, member)                                                                      \
	HASH_TABLE_TYPE(x);                                                                        \
	HASH_TABLE_KEY(x, member)

#define hash_cnt(t) ((t)->table.index ? (t)->table.index->cnt : 0)

/* Declares x, which is each element in turn. The body may delete x, but not the one after it. */
#define hash_each(x, t)                                                                            \
	for (__typeof__(&*(t)->first) x = (t)->first, x##_next; x && (x##_next = x->link.next, 1); \
	     x = x##_next)

#endif /* UTIL_HASH_TABLE_H */
