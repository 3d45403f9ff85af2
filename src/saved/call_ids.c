/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "call_ids.h"

#include <stdlib.h>
#include <uthash.h>

/* Recently used pages: processors take turns, and each has its own ids. */
#define RECENT 64

struct page {
	struct {
		uint64_t run, number;
	} key;
	uint64_t bits[CALL_IDS_PAGE / 64];
	UT_hash_handle hh;
};

struct call_ids {
	struct page *pages;
	struct page *recent[RECENT];
};

struct call_ids *call_ids__new(void)
{
	return calloc(1, sizeof(struct call_ids));
}

void call_ids__free(struct call_ids *c)
{
	struct page *p, *next;

	if (!c)
		return;
	HASH_ITER (hh, c->pages, p, next) {
		HASH_DEL(c->pages, p);
		free(p);
	}
	free(c);
}

/* Returns NULL when there is no room. */
static struct page *page_of(struct call_ids *c, uint64_t run, uint64_t number)
{
	struct page **recent = &c->recent[(number ^ run) % RECENT], *p = *recent, key = {0};
	unsigned before = HASH_COUNT(c->pages);

	if (p && p->key.number == number && p->key.run == run)
		return p;
	key.key.run = run;
	key.key.number = number;
	HASH_FIND(hh, c->pages, &key.key, sizeof(key.key), p);
	if (!p && before < CALL_IDS_PAGES_MAX) {
		p = calloc(1, sizeof(*p));
		if (!p)
			return NULL;
		p->key = key.key;
		HASH_ADD(hh, c->pages, key, sizeof(p->key), p);
		/* HASH_NONFATAL_OOM: out of memory */
		if (HASH_COUNT(c->pages) == before) {
			free(p);
			return NULL;
		}
	}
	if (p)
		*recent = p;
	return p;
}

bool call_ids__again(struct call_ids *c, uint64_t run, uint64_t id)
{
	struct page *p = page_of(c, run, id / CALL_IDS_PAGE);
	uint64_t bit = 1ull << id % 64, *word;
	bool was;

	if (!p)
		return false;
	word = &p->bits[id % CALL_IDS_PAGE / 64];
	was = *word & bit;
	*word |= bit;
	return was;
}
