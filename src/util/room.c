/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "room.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>

static const struct {
	const char *name, *text;
} tables[ROOM_CNT] = {
#define ROOM(ID, name, text) [ROOM_##ID] = {name, text},
#include "room.def"
};

/* What glibc puts before a block. */
#define MALLOC_SZ 8

/* Further ones are one. */
#define OWNERS_MAX (1u << 17)
#define NOBODY	   0

/* One process may have half of it: quota.h. */
#define RANGES_MAX (1 << 19)

/* Before each block. What several have made larger is nobody's: each has paid for his part. */
struct head {
	uint32_t owner, pad;
};

struct owner {
	const void *at;
	uint64_t pid, used;
};

static struct {
	uint64_t size, used;
	uint64_t left_out[ROOM_CNT];
	struct quotas quotas;
	bool has_quotas;
	/* By number. They are forgotten when nothing is in use. */
	struct owner *owners;
	uint32_t *slots; /* number; 0: free */
	uint32_t owner_cnt, slot_cnt;
	uint32_t owner; /* whose turn it is */
} room = {.size = ROOM_SZ};

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
	uint64_t key = ((uintptr_t)at ^ pid << 20) * 0x9e3779b97f4a7c15ull;
	uint32_t i = key >> 32;

	for (;; i++) {
		uint32_t *slot = &room.slots[i & (room.slot_cnt - 1)];

		if (!*slot || (room.owners[*slot].at == at && room.owners[*slot].pid == pid))
			return slot;
	}
}

/* Twice as many owners. */
static bool more_owners(void)
{
	uint32_t n = room.slot_cnt ? room.slot_cnt * 2 : 64;
	struct owner *owners = realloc(room.owners, n / 2 * sizeof(*owners));
	uint32_t *slots;

	if (!owners)
		return false;
	room.owners = owners;
	slots = calloc(n, sizeof(*slots));
	if (!slots)
		return false;
	free(room.slots);
	room.slots = slots;
	room.slot_cnt = n;
	if (!room.owner_cnt)
		owners[room.owner_cnt++] = (struct owner){0};
	for (uint32_t i = 1; i < room.owner_cnt; i++)
		*owner_slot(owners[i].at, owners[i].pid) = i;
	return true;
}

void room_owner(const void *at, uint64_t pid)
{
	const struct owner *now = room.owner ? &room.owners[room.owner] : NULL;
	uint32_t *slot;

	if (now && now->pid == pid && now->at == at)
		return;
	if (room.owner_cnt * 2 >= room.slot_cnt && room.owner_cnt < OWNERS_MAX && !more_owners()) {
		room.owner = NOBODY;
		return;
	}
	slot = owner_slot(at, pid);
	if (*slot || room.owner_cnt == OWNERS_MAX) {
		room.owner = *slot ? *slot : OWNERS_MAX - 1;
		return;
	}
	room.owners[room.owner_cnt] = (struct owner){at, pid, 0};
	room.owner = *slot = room.owner_cnt++;
}

void room_nobody(void)
{
	room.owner = NOBODY;
}

uint32_t room_as(const void *block)
{
	uint32_t was = room.owner;

	room.owner = block ? head_of(block)->owner : NOBODY;
	return was;
}

void room_back(uint32_t was)
{
	room.owner = was;
}

static void charge(uint32_t owner, uint64_t more, uint64_t less)
{
	room.used += more - less;
	if (owner != NOBODY)
		room.owners[owner].used += more - less;
}

/* more: than is in use now */
static bool has_room(enum room_table t, uint64_t more)
{
	uint64_t left = room.size > room.used ? room.size - room.used : 0;
	uint64_t mine = room.owner == NOBODY ? 0 : room.owners[room.owner].used;

	if (more <= left && (room.owner == NOBODY || mine + more <= left - more))
		return true;
	room_full(t);
	return false;
}

void *room_new(enum room_table t, size_t size)
{
	struct head *h;

	if (!has_room(t, size))
		return NULL;
	h = calloc(1, sizeof(*h) + size);
	if (!h) {
		room_full(t);
		return NULL;
	}
	h->owner = room.owner;
	charge(h->owner, size_of(h), 0);
	return h + 1;
}

void *room_resize(enum room_table t, void *p, size_t size)
{
	uint64_t before = size_of(head_of(p));
	struct head *h;

	if (!has_room(t, size > before ? size - before : 0))
		return NULL;
	h = realloc(head_of(p), sizeof(*h) + size);
	if (!h) {
		room_full(t);
		return NULL;
	}
	h->owner = !p || h->owner == room.owner ? room.owner : NOBODY;
	charge(room.owner, size_of(h), before);
	return h + 1;
}

void room_free(void *p)
{
	struct head *h = head_of(p);

	if (!h)
		return;
	charge(h->owner, 0, size_of(h));
	free(h);
	if (room.used)
		return;
	free(room.owners);
	free(room.slots);
	room.owners = NULL;
	room.slots = NULL;
	room.owner = room.owner_cnt = room.slot_cnt = 0;
}

bool room_has(const struct room_share *s, uint64_t n, uint64_t one)
{
	uint64_t mine = room.owner < s->cap ? s->of[room.owner] : 0;

	return room_leaves(mine, n, s->used, one);
}

bool room_take(struct room_share *s, uint64_t n, uint64_t one, enum room_table t)
{
	if (!room_has(s, n, one)) {
		room_full(t);
		return false;
	}
	if (room.owner >= s->cap) {
		unsigned cap = room.owner + room.owner / 8 + 4;
		uint32_t *of = room_resize(t, s->of, cap * sizeof(*of));

		if (!of)
			return false;
		memset(of + s->cap, 0, (cap - s->cap) * sizeof(*of));
		s->of = of;
		s->cap = cap;
	}
	s->of[room.owner] += n;
	s->used += n;
	return true;
}

void room_give(struct room_share *s, const void *block, uint64_t n)
{
	s->of[block ? head_of(block)->owner : room.owner] -= n;
	s->used -= n;
}

void room_share_free(struct room_share *s)
{
	room_free(s->of);
	*s = (struct room_share){0};
}

void room_full(enum room_table t)
{
	room_full_times(t, 1);
}

void room_full_times(enum room_table t, uint64_t n)
{
	room.left_out[t] += n;
}

struct quota *room_quota(enum quota_table t)
{
	if (!room.has_quotas) {
		room.has_quotas = true;
		quotas__init(&room.quotas, false, false);
		room.quotas.of[QUOTA_RANGES].max = RANGES_MAX;
		room.quotas.of[QUOTA_RANGES].share = RANGES_MAX;
	}
	return &room.quotas.of[t];
}

uint64_t room_left_out(enum room_table t)
{
	uint64_t n = room.left_out[t];

	if (t == ROOM_ALLOCATIONS)
		n += room_quota(QUOTA_RANGES)->full_cnt;
	else if (t == ROOM_CAPTURES)
		n += room_quota(QUOTA_CAPTURES)->full_cnt;
	return n;
}

const char *room_name(enum room_table t)
{
	return tables[t].name;
}

const char *room_text(enum room_table t)
{
	return tables[t].text;
}

uint64_t room_used(void)
{
	return room.used;
}

void room_set(uint64_t size)
{
	room.size = size;
	for (int i = 0; i < ROOM_CNT; i++)
		room.left_out[i] = 0;
	room_quota(QUOTA_RANGES)->full_cnt = 0;
	room_quota(QUOTA_CAPTURES)->full_cnt = 0;
}
