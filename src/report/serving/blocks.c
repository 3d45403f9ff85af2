/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Use of GPU memory: blocks with weights; the KV cache, estimated as large blocks without weights
 * that exist before the steps and stay; and the rest.
 */
#include "serving_priv.h"

#include <string.h>

#include "model/call.h"

static uint32_t block_of(struct serving *s, const struct trace_event *ev, bool make)
{
	uint64_t key = pair_key(ev->ptr, ev->pid);
	struct memory_piece *list;
	uint32_t i;

	if (!make)
		return keys__find(&s->block_keys, key);
	i = serving_key(&s->block_keys, key, SERVING_BLOCKS_MAX, MEMLIMIT_ALLOCATIONS);
	s->lost_blocks += i == KEYS_NONE;
	list = i == KEYS_NONE
		       ? NULL
		       : grow(s->blocks, &s->block_cap, i + 1, sizeof(*list), MEMLIMIT_ALLOCATIONS);
	if (!list) {
		keys__undo(&s->block_keys, i);
		return KEYS_NONE;
	}
	s->blocks = list;
	return i;
}

/* 1: allocates GPU memory at an address; -1: frees; 0: neither. */
static int makes(const struct trace_event *ev)
{
	enum block_kind kind;
	int made;

	if (!strcmp(ev->name, "cuMemMap"))
		return 1;
	if (!strcmp(ev->name, "cuMemUnmap"))
		return -1;
	made = call_makes(ev, &kind);
	if (made < 0)
		return -1;
	return made && (kind == BLOCK_DEVICE || kind == BLOCK_POOL) ? 1 : 0;
}

void serving_memory(struct serving *s, const struct trace_event *ev)
{
	int made = ev->type == TYPE_MEMORY ? makes(ev) : 0;
	uint32_t i;

	if (!made)
		return;
	if (ev->is_error) {
		if (made > 0 && !s->failed_alloc_cnt++)
			s->failed_alloc_ns = ev->start_ns;
		return;
	}
	if (!(ev->has & HAS_PTR) || (made > 0 && !(ev->has & HAS_SIZE)))
		return;
	i = block_of(s, ev, made > 0);
	if (i >= s->block_keys.cnt || i >= s->block_cap)
		return;
	if (made < 0)
		s->blocks[i].end_ns = ev->end_ns;
	else
		s->blocks[i] = (struct memory_piece){
			.ptr = ev->ptr, .size = ev->size, .start_ns = ev->start_ns, .pid = ev->pid};
}

bool serving_block_is_weights(struct serving *s, uint32_t pid, uint64_t ptr)
{
	for (unsigned i = 0; i < s->block_keys.cnt && i < s->block_cap; i++) {
		struct memory_piece *b = &s->blocks[i];

		if (b->pid == pid && !b->end_ns && ptr >= b->ptr && ptr - b->ptr < b->size) {
			b->weights = true;
			return true;
		}
	}
	return false;
}

/* A block smaller than this fraction of the total is not the cache. */
#define CACHE_SHARE 64

void serving_sum_memory(struct serving *s)
{
	const struct serving_thread *t = serving_main(s);
	uint64_t middle;

	if (!t || !t->cnt)
		return;
	middle = t->steps[t->cnt / 2].begin_ns;
	for (int pass = 0; pass < 2; pass++) {
		for (unsigned i = 0; i < s->block_keys.cnt && i < s->block_cap; i++) {
			const struct memory_piece *b = &s->blocks[i];
			bool stays =
				b->start_ns < middle && (!b->end_ns || b->end_ns > s->res.last_ns);

			if (b->pid != t->pid || b->start_ns > s->res.last_ns || !stays)
				continue;
			if (!pass) {
				s->stay_bytes += b->size;
			} else if (b->weights) {
				s->weights_in_blocks += b->size;
			} else if (b->size >= s->stay_bytes / CACHE_SHARE && t->weight_cnt) {
				s->kv_bytes += b->size;
				s->kv_cnt++;
			} else {
				s->other_bytes += b->size;
			}
		}
	}
}
