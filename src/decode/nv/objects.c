/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Entries are in one array and refer to each other by index. Each is in the chain of its hash
 * bucket and in the list of its parent's children. A client's root is its own entry, with handle
 * equal to client. A new entry has no children, and its parent exists already. So no cycle can
 * arise, whatever a program sends.
 */
#include "objects.h"

#include <errno.h>
#include <stdlib.h>

#include "nv_decode.h"
#include "nv_numbers.h"
#include "util/hash_table.h"
#include "util/limits.h"

#define NONE UINT32_MAX

struct entry {
	struct nv_object o;
	uint64_t owner; /* clients only */
	uint32_t pid;	/* process whose share it counts against */
	uint32_t chain; /* next in bucket, or next free */
	uint32_t up, child, prev, next;
};

struct nv_objects {
	struct nv_objects_stats stats;
	struct quota *quota;
	struct quota_owners processes;
	uint32_t pid;
	uint32_t free, used; /* free list; entries that were ever used */
	uint32_t mask;
	uint32_t *buckets;
	struct entry *e;
};

struct nv_objects *nv_objects__new(unsigned max)
{
	struct nv_objects *t;
	uint32_t cnt = 1;

	if (!max || max > 1u << 24)
		return NULL;
	while (cnt < max)
		cnt *= 2;
	t = calloc(1, sizeof(*t));
	if (!t)
		return NULL;
	t->buckets = malloc(cnt * sizeof(*t->buckets));
	t->e = calloc(max, sizeof(*t->e));
	if (!t->buckets || !t->e) {
		nv_objects__free(t);
		return NULL;
	}
	for (uint32_t i = 0; i < cnt; i++)
		t->buckets[i] = NONE;
	t->mask = cnt - 1;
	t->free = NONE;
	t->stats.max_cnt = max;
	return t;
}

static uint32_t *bucket(struct nv_objects *t, uint32_t client, uint32_t handle)
{
	return &t->buckets[hash_word((uint64_t)client << 32 | handle) & t->mask];
}

static uint32_t find(struct nv_objects *t, uint32_t client, uint32_t handle)
{
	uint32_t i = *bucket(t, client, handle);

	while (i != NONE && (t->e[i].o.client != client || t->e[i].o.handle != handle))
		i = t->e[i].chain;
	return i;
}

/* Returns whether the entry is not in the free list. */
static bool is_live(struct nv_objects *t, uint32_t i)
{
	return find(t, t->e[i].o.client, t->e[i].o.handle) == i;
}

void nv_objects__free(struct nv_objects *t)
{
	if (!t)
		return;
	while (t->e && t->used) {
		if (is_live(t, --t->used))
			quota_owners__give(&t->processes, t->quota, t->e[t->used].pid, 1);
	}
	free(t->buckets);
	free(t->e);
	free(t);
}

void nv_objects__use_quota(struct nv_objects *t, struct quota *q)
{
	t->quota = q;
}

void nv_objects__set_process(struct nv_objects *t, uint32_t pid)
{
	t->pid = pid;
}

static uint32_t take(struct nv_objects *t)
{
	uint32_t i = t->free;

	if (!quota_owners__take(&t->processes, t->quota, t->pid, 1)) {
		t->stats.refused_cnt++;
		return NONE;
	}
	if (i != NONE) {
		t->free = t->e[i].chain;
	} else if (t->used < t->stats.max_cnt) {
		i = t->used++;
	} else {
		quota_owners__give(&t->processes, t->quota, t->pid, 1);
		t->stats.refused_cnt++;
		return NONE;
	}
	t->stats.live_cnt++;
	return i;
}

static void link_below(struct nv_objects *t, uint32_t i, uint32_t up)
{
	struct entry *e = &t->e[i];

	e->up = up;
	e->prev = e->next = NONE;
	if (up == NONE)
		return;
	e->next = t->e[up].child;
	if (e->next != NONE)
		t->e[e->next].prev = i;
	t->e[up].child = i;
}

static void put(struct nv_objects *t, uint32_t i)
{
	struct entry *e = &t->e[i];
	uint32_t *at = bucket(t, e->o.client, e->o.handle);

	while (*at != i)
		at = &t->e[*at].chain;
	*at = e->chain;
	if (e->prev != NONE)
		t->e[e->prev].next = e->next;
	else if (e->up != NONE)
		t->e[e->up].child = e->next;
	if (e->next != NONE)
		t->e[e->next].prev = e->prev;
	e->chain = t->free;
	t->free = i;
	t->stats.live_cnt--;
	quota_owners__give(&t->processes, t->quota, e->pid, 1);
}

/* Drops leaves first, without recursion: a chain of parents may be as long as the table. */
static void drop_tree(struct nv_objects *t, uint32_t root)
{
	uint32_t i = root;

	for (;;) {
		uint32_t up = t->e[i].up;

		if (t->e[i].child != NONE) {
			i = t->e[i].child;
			continue;
		}
		put(t, i);
		if (i == root)
			return;
		i = up;
	}
}

static uint32_t insert(struct nv_objects *t, uint32_t client, uint32_t handle, uint32_t class,
		       uint32_t up)
{
	uint32_t i = take(t), *at;

	if (i == NONE)
		return NONE;
	t->e[i] = (struct entry){
		.o = {.client = client,
		      .handle = handle,
		      .parent = up == NONE ? 0 : t->e[up].o.handle,
		      .class = class},
		.pid = t->pid,
		.child = NONE,
	};
	at = bucket(t, client, handle);
	t->e[i].chain = *at;
	*at = i;
	link_below(t, i, up);
	return i;
}

/* Returns the index of the client's root, which is created if its allocation was not recorded. */
static uint32_t root_of(struct nv_objects *t, uint64_t owner, uint32_t client)
{
	uint32_t i = find(t, client, client);

	if (i == NONE)
		i = insert(t, client, client, NV_CLASS_UNKNOWN, NONE);
	if (i != NONE && owner)
		t->e[i].owner = owner;
	return i;
}

int nv_objects__add_client(struct nv_objects *t, uint64_t owner, uint32_t client, uint32_t class)
{
	uint32_t i = find(t, client, client);

	if (i != NONE) {
		t->stats.replaced_cnt++;
		drop_tree(t, i);
	}
	i = root_of(t, owner, client);
	if (i == NONE)
		return -ENOSPC;
	t->e[i].o.class = class;
	return 0;
}

int nv_objects__add(struct nv_objects *t, uint32_t client, uint32_t parent, uint32_t handle,
		    uint32_t class)
{
	uint32_t root, up, i;

	/* RM never assigns an object its client's handle. */
	if (handle == client)
		return -EINVAL;
	i = find(t, client, handle);
	if (i != NONE) {
		t->stats.replaced_cnt++;
		drop_tree(t, i);
	}
	root = root_of(t, 0, client);
	if (root == NONE)
		return -ENOSPC;
	up = parent == client || parent == handle ? root : find(t, client, parent);
	if (up == NONE)
		up = insert(t, client, parent, NV_CLASS_UNKNOWN, root);
	if (up == NONE)
		return -ENOSPC;
	return insert(t, client, handle, class, up) == NONE ? -ENOSPC : 0;
}

int nv_objects__dup(struct nv_objects *t, uint32_t client, uint32_t parent, uint32_t handle,
		    uint32_t src_client, uint32_t src_handle)
{
	uint32_t src = find(t, src_client, src_handle);
	uint32_t class = NV_CLASS_UNKNOWN;

	if (src == NONE)
		t->stats.unknown_cnt++;
	else
		class = t->e[src].o.class;
	return nv_objects__add(t, client, parent, handle, class);
}

int nv_objects__drop(struct nv_objects *t, uint32_t client, uint32_t handle)
{
	uint32_t i = find(t, client, handle);

	if (i == NONE) {
		t->stats.unknown_cnt++;
		return -ENOENT;
	}
	drop_tree(t, i);
	return 0;
}

unsigned nv_objects__close(struct nv_objects *t, uint64_t owner)
{
	unsigned cnt = 0;

	if (!owner)
		return 0;
	/* This is rare, so there is no list of clients by owner. A free entry has no owner. */
	for (uint32_t i = 0; i < t->used; i++) {
		struct entry *e = &t->e[i];

		if (e->owner != owner || !is_live(t, i))
			continue;
		drop_tree(t, i);
		cnt++;
	}
	return cnt;
}

void nv_objects__end_process(struct nv_objects *t, uint32_t pid)
{
	for (uint32_t i = 0; i < t->used && quota_owners__used(&t->processes, pid); i++)
		if (t->e[i].pid == pid && is_live(t, i))
			drop_tree(t, i);
}

const struct nv_object *nv_objects__find(struct nv_objects *t, uint32_t client, uint32_t handle)
{
	uint32_t i = find(t, client, handle);

	if (i != NONE)
		return &t->e[i].o;
	t->stats.unknown_cnt++;
	return NULL;
}

void nv_objects__stats(const struct nv_objects *t, struct nv_objects_stats *stats)
{
	*stats = t->stats;
}

static int apply_new(struct nv_objects *t, uint64_t owner, const struct nv_ioctl *io,
		     uint32_t class)
{
	uint32_t client = (uint32_t)io->f[NV_R_CLIENT].v, handle = (uint32_t)io->f[NV_R_NEW].v;

	if (!nv_has(io, NV_R_CLIENT) || !nv_has(io, NV_R_NEW) || !handle)
		return 0;
	if (io->notes & NV_NOTE_NEW_CLIENT)
		return nv_objects__add_client(t, owner, handle, class);
	if (!nv_has(io, NV_R_PARENT))
		return 0;
	if (nv_has(io, NV_R_SRC_OBJECT) && nv_has(io, NV_R_SRC_CLIENT))
		return nv_objects__dup(t, client, (uint32_t)io->f[NV_R_PARENT].v, handle,
				       (uint32_t)io->f[NV_R_SRC_CLIENT].v,
				       (uint32_t)io->f[NV_R_SRC_OBJECT].v);
	return nv_objects__add(t, client, (uint32_t)io->f[NV_R_PARENT].v, handle, class);
}

int nv_objects__apply(struct nv_objects *t, uint64_t owner, const struct nv_ioctl *io)
{
	uint32_t client = (uint32_t)io->f[NV_R_CLIENT].v, object = (uint32_t)io->f[NV_R_OBJECT].v;
	uint32_t class = NV_CLASS_UNKNOWN;

	if (ct_nv_commands_of(io->dev) != CT_NV_CTL)
		return 0;
	/* Only successful requests; if the status could not be read, the request is ignored. */
	if (io->f[NV_R_STATUS].at != NV_AT_EXIT || io->f[NV_R_STATUS].v)
		return 0;
	if (nv_has(io, NV_R_CLASS))
		class = (uint32_t)io->f[NV_R_CLASS].v;
	switch (io->nr) {
	case NV_ESC_RM_ALLOC_MEMORY:
	case NV_ESC_RM_ALLOC_OBJECT:
	case NV_ESC_RM_ALLOC:
	case NV_ESC_RM_DUP_OBJECT:
		return apply_new(t, owner, io, class);
	case NV_ESC_RM_VID_HEAP_CONTROL:
		if (nv_has(io, NV_R_FUNCTION) && io->f[NV_R_FUNCTION].v == NVOS32_FUNCTION_FREE)
			break;
		/* For other functions, the memory may be video or system memory, depending on the
		 * RM. */
		if (io->f[NV_R_FUNCTION].v == NVOS32_FUNCTION_ALLOC_OS_DESCRIPTOR)
			class = NV01_MEMORY_SYSTEM_OS_DESCRIPTOR;
		return apply_new(t, owner, io, class);
	case NV_ESC_RM_FREE:
		break;
	default:
		return 0;
	}
	if (!nv_has(io, NV_R_CLIENT) || !nv_has(io, NV_R_OBJECT))
		return 0;
	return nv_objects__drop(t, client, object);
}
