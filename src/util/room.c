/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "room.h"

#include <malloc.h>
#include <stdbool.h>
#include <stdlib.h>

static const struct {
	const char *name, *text;
} tables[ROOM_CNT] = {
#define ROOM(ID, name, text) [ROOM_##ID] = {name, text},
#include "room.def"
};

/* A block's own head, in glibc. */
#define HEAD_SZ 8

/* One process may have half of it: quota.h. */
#define RANGES_MAX (1 << 19)

static struct {
	uint64_t size, used;
	uint64_t left_out[ROOM_CNT];
	struct quotas quotas;
	bool has_quotas;
} room = {.size = ROOM_SZ};

static uint64_t size_of(void *p)
{
	return p ? malloc_usable_size(p) + HEAD_SZ : 0;
}

/* more: than is in use now */
static bool has_room(enum room_table t, uint64_t more)
{
	if (more <= room.size && room.used <= room.size - more)
		return true;
	room_full(t);
	return false;
}

void *room_new(enum room_table t, size_t size)
{
	void *p;

	if (!has_room(t, size))
		return NULL;
	p = calloc(1, size);
	if (!p)
		room_full(t);
	room.used += size_of(p);
	return p;
}

void *room_resize(enum room_table t, void *p, size_t size)
{
	uint64_t before = size_of(p);
	void *grown;

	if (!has_room(t, size > before ? size - before : 0))
		return NULL;
	grown = realloc(p, size);
	if (!grown) {
		room_full(t);
		return NULL;
	}
	room.used += size_of(grown) - before;
	return grown;
}

void room_free(void *p)
{
	room.used -= size_of(p);
	free(p);
}

void room_full(enum room_table t)
{
	room.left_out[t]++;
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
