/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "capture.h"

#include <stdlib.h>
#include <string.h>

#include "decode/api_values.h"

/* A capture has a handful of streams and events. */
#define ITEMS_MORE 16

bool capture_is_over(int32_t result)
{
	return result == CUDA_SUCCESS || result == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED ||
	       result == CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
}

static struct capture_item *find(const struct capture_set *c, uint64_t handle, bool is_event)
{
	for (unsigned i = 0; i < c->cnt; i++)
		if (c->items[i].handle == handle && c->items[i].is_event == is_event)
			return &c->items[i];
	return NULL;
}

static void add(struct capture_set *c, uint64_t handle, uint64_t origin, bool is_event)
{
	struct capture_item *item = find(c, handle, is_event), *items;

	if (!item) {
		/* A program that leaves captures open for ever must not make us grow with it. */
		if (c->cnt == c->cap) {
			if (!quota__take(c->quota, &c->share, ITEMS_MORE))
				return;
			items = realloc(c->items, (c->cap + ITEMS_MORE) * sizeof(*items));
			if (!items) {
				quota__give(c->quota, &c->share, ITEMS_MORE);
				return;
			}
			c->items = items;
			c->cap += ITEMS_MORE;
		}
		item = &c->items[c->cnt++];
	}
	*item = (struct capture_item){handle, origin, is_event};
}

static void del(struct capture_set *c, struct capture_item *item)
{
	*item = c->items[--c->cnt];
}

void capture_set__begin(struct capture_set *c, uint64_t stream)
{
	add(c, stream, stream, false);
}

void capture_set__end(struct capture_set *c, uint64_t stream)
{
	for (unsigned i = c->cnt; i-- > 0;)
		if (c->items[i].origin == stream)
			del(c, &c->items[i]);
}

void capture_set__record(struct capture_set *c, uint64_t event, uint64_t stream)
{
	struct capture_item *on = c->cnt ? find(c, stream, false) : NULL, *old;

	if (on) {
		add(c, event, on->origin, true);
		return;
	}
	/* Recorded anew outside of any capture. */
	old = c->cnt ? find(c, event, true) : NULL;
	if (old)
		del(c, old);
}

void capture_set__wait(struct capture_set *c, uint64_t stream, uint64_t event)
{
	struct capture_item *item = c->cnt ? find(c, event, true) : NULL;

	if (item && !find(c, stream, false))
		add(c, stream, item->origin, false);
}

bool capture_set__has(const struct capture_set *c, uint64_t stream)
{
	return c->cnt && find(c, stream, false);
}

bool capture_set__origin(const struct capture_set *c, uint64_t stream, uint64_t *origin)
{
	const struct capture_item *item = c->cnt ? find(c, stream, false) : NULL;

	if (item)
		*origin = item->origin;
	return item;
}

void capture_set__clear(struct capture_set *c)
{
	free(c->items);
	quota__give(c->quota, &c->share, c->share.used);
	c->items = NULL;
	c->cnt = c->cap = 0;
}
