/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "memlimit.h"

#include "hash_table.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>

/* The header of a glibc block. */
#define MALLOC_SZ 8

/* Further owners share one entry. */
#define OWNERS_MAX (1u << 17)
#define NOBODY	   0

/* Precedes each block. A block that several owners have resized belongs to no owner: each was
 * charged for its part. */
struct head {
	uint32_t owner, pad;
};

struct owner {
	const void *at;
	uint64_t pid, used;
};

static struct {
	uint64_t size, used;
	uint64_t rejected[LIMIT_TABLE_CNT];
	struct quotas quotas;
	bool has_quotas;
	/* By number. Forgotten when nothing is in use. */
	struct owner *owners;
	uint32_t *slots; /* owner number; 0: empty slot */
	uint32_t owner_cnt, slot_cnt;
	uint32_t owner; /* the current owner */
} limits = {.size = MEMLIMIT_SZ};

static struct head *head_of(const void *p)
{
	return p ? (struct head *)p - 1 : NULL;
}

static uint64_t size_of(struct head *h)
{
	return h ? malloc_usable_size(h) + MALLOC_SZ : 0;
}

static uint32_t *owner_slot(const void *at, uint64_t pid)
{
	uint32_t i = (uint32_t)hash_word((uintptr_t)at ^ hash_word(pid));

	for (;; i++) {
		uint32_t *slot = &limits.slots[i & (limits.slot_cnt - 1)];

		if (!*slot || (limits.owners[*slot].at == at && limits.owners[*slot].pid == pid))
			return slot;
	}
}

/* Doubles the number of owners. */
static bool more_owners(void)
{
	uint32_t n = limits.slot_cnt ? limits.slot_cnt * 2 : 64;
	struct owner *owners = realloc(limits.owners, n / 2 * sizeof(*owners));
	uint32_t *slots;

	if (!owners)
		return false;
	limits.owners = owners;
	slots = calloc(n, sizeof(*slots));
	if (!slots)
		return false;
	free(limits.slots);
	limits.slots = slots;
	limits.slot_cnt = n;
	if (!limits.owner_cnt)
		owners[limits.owner_cnt++] = (struct owner){0};
	for (uint32_t i = 1; i < limits.owner_cnt; i++)
		*owner_slot(owners[i].at, owners[i].pid) = i;
	return true;
}

void memlimit_set_owner(const void *at, uint64_t pid)
{
	const struct owner *now = limits.owner ? &limits.owners[limits.owner] : NULL;
	uint32_t *slot;

	if (now && now->pid == pid && now->at == at)
		return;
	if (limits.owner_cnt * 2 >= limits.slot_cnt && limits.owner_cnt < OWNERS_MAX &&
	    !more_owners()) {
		limits.owner = NOBODY;
		return;
	}
	slot = owner_slot(at, pid);
	if (*slot || limits.owner_cnt == OWNERS_MAX) {
		limits.owner = *slot ? *slot : OWNERS_MAX - 1;
		return;
	}
	limits.owners[limits.owner_cnt] = (struct owner){at, pid, 0};
	limits.owner = *slot = limits.owner_cnt++;
}

void memlimit_no_owner(void)
{
	limits.owner = NOBODY;
}

uint32_t memlimit_push_owner(const void *block)
{
	uint32_t was = limits.owner;

	limits.owner = block ? head_of(block)->owner : NOBODY;
	return was;
}

void memlimit_pop_owner(uint32_t was)
{
	limits.owner = was;
}

static void charge(uint32_t owner, uint64_t more, uint64_t less)
{
	limits.used += more - less;
	if (owner != NOBODY)
		limits.owners[owner].used += more - less;
}

/* more: bytes in addition to those in use */
static bool has_room(enum limit_table t, uint64_t more)
{
	uint64_t left = ct_limit_left(limits.size, limits.used);

	if (limits.owner == NOBODY ? more <= left
				   : ct_limit_fits(limits.owners[limits.owner].used, more,
						   CT_LIMIT_NO_SHARE, left))
		return true;
	memlimit_reject(t);
	return false;
}

void *memlimit_new(enum limit_table t, size_t size)
{
	struct head *h;

	if (!has_room(t, size))
		return NULL;
	h = calloc(1, sizeof(*h) + size);
	if (!h) {
		memlimit_reject(t);
		return NULL;
	}
	h->owner = limits.owner;
	charge(h->owner, size_of(h), 0);
	return h + 1;
}

void *memlimit_resize(enum limit_table t, void *p, size_t size)
{
	uint64_t before = size_of(head_of(p));
	struct head *h;

	if (!has_room(t, size > before ? size - before : 0))
		return NULL;
	h = realloc(head_of(p), sizeof(*h) + size);
	if (!h) {
		memlimit_reject(t);
		return NULL;
	}
	h->owner = !p || h->owner == limits.owner ? limits.owner : NOBODY;
	charge(limits.owner, size_of(h), before);
	return h + 1;
}

void memlimit_free(void *p)
{
	struct head *h = head_of(p);

	if (!h)
		return;
	charge(h->owner, 0, size_of(h));
	free(h);
	if (limits.used)
		return;
	free(limits.owners);
	free(limits.slots);
	limits.owners = NULL;
	limits.slots = NULL;
	limits.owner = limits.owner_cnt = limits.slot_cnt = 0;
}

bool memlimit_has(const struct memlimit_share *s, uint64_t n, uint64_t one)
{
	uint64_t mine = limits.owner < s->cap ? s->of[limits.owner] : 0;

	return memlimit_leaves(mine, n, s->used, one);
}

bool memlimit_charge(struct memlimit_share *s, uint64_t n, uint64_t one, enum limit_table t)
{
	if (!memlimit_has(s, n, one)) {
		memlimit_reject(t);
		return false;
	}
	if (limits.owner >= s->cap) {
		unsigned cap = limits.owner + limits.owner / 8 + 4;
		uint32_t *of = memlimit_resize(t, s->of, cap * sizeof(*of));

		if (!of)
			return false;
		memset(of + s->cap, 0, (cap - s->cap) * sizeof(*of));
		s->of = of;
		s->cap = cap;
	}
	s->of[limits.owner] += n;
	s->used += n;
	return true;
}

void memlimit_uncharge(struct memlimit_share *s, const void *block, uint64_t n)
{
	s->of[block ? head_of(block)->owner : limits.owner] -= n;
	s->used -= n;
}

void memlimit_share_free(struct memlimit_share *s)
{
	memlimit_free(s->of);
	*s = (struct memlimit_share){0};
}

void memlimit_reject(enum limit_table t)
{
	memlimit_reject_cnt(t, 1);
}

void memlimit_reject_cnt(enum limit_table t, uint64_t n)
{
	limits.rejected[t] += n;
}

struct quota *memlimit_quota(enum limit_table t)
{
	if (!limits.has_quotas) {
		limits.has_quotas = true;
		quotas__init(&limits.quotas, false, false);
		limits.quotas.of[QUOTA_RANGES].max = MEMLIMIT_ALL(MEMLIMIT_ALLOCATIONS_MAX);
		limits.quotas.of[QUOTA_RANGES].share = MEMLIMIT_ALL(MEMLIMIT_ALLOCATIONS_MAX);
	}
	return &limits.quotas.of[t];
}

uint64_t memlimit_rejected(enum limit_table t)
{
	uint64_t n = limits.rejected[t];

	if (t == MEMLIMIT_ALLOCATIONS)
		n += memlimit_quota(QUOTA_RANGES)->full_cnt;
	else if (t == MEMLIMIT_CAPTURES)
		n += memlimit_quota(QUOTA_CAPTURES)->full_cnt;
	return n;
}

uint64_t memlimit_used(void)
{
	return limits.used;
}

void memlimit_set(uint64_t size)
{
	limits.size = size;
	for (int i = 0; i < LIMIT_TABLE_CNT; i++)
		limits.rejected[i] = 0;
	memlimit_quota(QUOTA_RANGES)->full_cnt = 0;
	memlimit_quota(QUOTA_CAPTURES)->full_cnt = 0;
}
