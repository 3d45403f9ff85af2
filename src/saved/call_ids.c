/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "call_ids.h"

#include <stdlib.h>

#include "util/hash_table.h"

/* Recently used pages: processors take turns, and each has its own ids. */
#define RECENT 64

struct page {
	struct hash_link link;
	struct page_key {
		uint64_t run, number;
	} key;
	uint64_t bits[CALL_IDS_PAGE / 64];
};
HASH_TABLE(page, key);

struct call_ids {
	struct page_table pages;
	struct page *recent[RECENT];
};

struct call_ids *call_ids__new(void)
{
	return calloc(1, sizeof(struct call_ids));
}

void call_ids__free(struct call_ids *c)
{
	if (!c)
		return;
	page_table__free(&c->pages);
	free(c);
}

/* Returns NULL when there is no space. */
static struct page *page_of(struct call_ids *c, uint64_t run, uint64_t number)
{
	struct page **recent = &c->recent[(number ^ run) % RECENT], *p = *recent;
	const struct page_key key = {run, number};

	if (p && p->key.number == number && p->key.run == run)
		return p;
	p = page_table__find(&c->pages, &key);
	if (!p && hash_cnt(&c->pages) < CALL_IDS_PAGES_MAX)
		p = page_table__new(&c->pages, &key);
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
