/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "comms.h"

#include <stdlib.h>

/* Above the limits of NCCL. */
#define RANKS_MAX   (1 << 24)
#define DEVICES_MAX 4096
/* The first version whose communicators begin with CT_COMM_MAGIC. */
#define MAGIC_SINCE 22100

bool comm_is_sound(const struct ct_comm *c)
{
	return c->handle && c->hash && c->nranks > 0 && c->nranks <= RANKS_MAX && c->rank >= 0 &&
	       c->rank < c->nranks && c->device >= 0 && c->device < DEVICES_MAX &&
	       c->nvml_device >= 0 && c->nvml_device < DEVICES_MAX &&
	       (c->magic == CT_COMM_MAGIC || (c->version && c->version < MAGIC_SINCE));
}

static struct comm *find(const struct comms *cs, uint64_t handle)
{
	return comm_table__find(&cs->by_handle, &handle);
}

static struct comm *add(struct comms *cs, uint64_t handle)
{
	struct comm *c;

	if (!quota__take(cs->quota, &cs->share, 1))
		return NULL;
	c = comm_table__new(&cs->by_handle, &handle);
	if (!c)
		quota__give(cs->quota, &cs->share, 1);
	return c;
}

const struct comm *comms__find(struct comms *cs, uint64_t handle)
{
	return find(cs, handle);
}

static void reset(struct comm *c)
{
	c->hash = c->seq = c->uncounted = c->group = 0;
	c->rank = c->nranks = 0;
	c->partial = false;
}

struct comm *comms__made(struct comms *cs, uint64_t handle)
{
	struct comm *c = find(cs, handle);

	if (c)
		reset(c);
	return c ? c : add(cs, handle);
}

struct comm *comms__get(struct comms *cs, uint64_t handle)
{
	struct comm *c = find(cs, handle);

	if (c)
		return c;
	c = add(cs, handle);
	if (!c)
		return NULL;
	c->partial = !cs->unnamed_cnt;
	cs->unnamed_cnt -= !c->partial;
	return c;
}

void comm__learn(struct comms *cs, struct comm *c, const struct ct_comm *mem)
{
	if (!comm_is_sound(mem) || mem->handle != c->handle)
		return;
	if (c->hash && (c->hash != mem->hash || c->rank != (uint32_t)mem->rank)) {
		reset(c);
		c->partial = !cs->unnamed_cnt;
		cs->unnamed_cnt -= !c->partial;
	}
	c->hash = mem->hash;
	c->rank = mem->rank;
	c->nranks = mem->nranks;
	c->version = mem->version;
}

void comm__count(struct comm *c, uint64_t made, uint64_t group)
{
	uint64_t now = made + c->uncounted + (group != 0);

	c->seq++;
	if (made && (!group || group != c->group)) {
		if (c->partial || c->seq < now)
			c->seq = now;
		else
			c->uncounted += c->seq - now;
		c->partial = false;
	}
	c->group = group;
}

void comms__drop(struct comms *cs, uint64_t handle)
{
	struct comm *c = find(cs, handle);

	if (!c)
		return;
	comm_table__del(&cs->by_handle, c);
	free(c);
	quota__give(cs->quota, &cs->share, 1);
}

void comms__lost(struct comms *cs)
{
	hash_each (c, &cs->by_handle)
		c->partial = true;
}

void comms__clear(struct comms *cs)
{
	quota__give(cs->quota, &cs->share, hash_cnt(&cs->by_handle));
	comm_table__free(&cs->by_handle);
	cs->unnamed_cnt = 0;
}
