/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Allocations that failed because memory was exhausted: which blocks use it. */
#include "failure_priv.h"

#include <stdlib.h>
#include <string.h>

#include "decode/api_values.h"
#include "decode/cuda.h"
#include "model/call.h"
#include "util/memlimit.h"
#include "util/order.h"

#define PLACES_MAX 256
#define RECENT_NS  60000000000ull

struct holding {
	struct fail_case *c;
	struct holder places[PLACES_MAX];
	unsigned cnt;
};

static void add_block(void *ctx, const struct memory_block *b)
{
	struct holding *h = ctx;
	struct holder *x = h->places;
	bool recent;

	if (!b->on_gpu || (h->c->device >= 0 && b->device >= 0 && b->device != h->c->device))
		return;
	h->c->held += b->size;
	h->c->held_cnt++;
	recent = b->start_ns + RECENT_NS >= h->c->at_ns;
	h->c->recent_cnt += recent;
	h->c->recent += recent ? b->size : 0;
	growth_add(h->c, b);
	while (x < h->places + h->cnt && (x->stack != b->stack || x->call != b->call))
		x++;
	if (x == h->places + PLACES_MAX)
		return;
	if (x == h->places + h->cnt)
		h->places[h->cnt++] = (struct holder){.stack = b->stack, .call = b->call};
	x->cnt++;
	x->bytes += b->size;
	x->recent += recent ? b->size : 0;
	if (b->size > x->largest)
		x->largest = b->size;
}

static int by_bytes(const void *a, const void *b)
{
	const struct holder *x = a, *y = b;

	return DESCENDING(x->bytes, y->bytes) ?: DESCENDING(x->cnt, y->cnt);
}

static void list_holders(struct failure *f, struct fail_case *c)
{
	struct holding *h = calloc(1, sizeof(*h));

	if (!h)
		return;
	h->c = c;
	memory_each_block(f->r, c->pid, add_block, h);
	qsort(h->places, h->cnt, sizeof(h->places[0]), by_bytes);
	c->holder_cnt = h->cnt < HOLDERS_MAX ? h->cnt : HOLDERS_MAX;
	memcpy(c->holders, h->places, c->holder_cnt * sizeof(h->places[0]));
	free(h);
}

/* Blocks that are older than the last minute and were freed in it. */
static uint64_t freed_since(const struct failure *f, const struct fail_case *c)
{
	uint64_t cnt = f->freed_cnt < FREED_MAX ? f->freed_cnt : FREED_MAX, bytes = 0;

	for (uint64_t i = 0; i < cnt; i++) {
		const struct freed_block *x = &f->freed[i];

		if (x->pid == c->pid && x->b.on_gpu && x->freed_ns + RECENT_NS >= c->at_ns &&
		    x->b.start_ns + RECENT_NS < c->at_ns)
			bytes += x->b.size;
	}
	return bytes;
}

static int by_gpu_bytes(const void *a, const void *b)
{
	const struct gpu_user *x = a, *y = b;

	return DESCENDING(x->bytes, y->bytes) ?: ASCENDING(x->pid, y->pid);
}

/* In a container NVML has other numbers for processes: then it is not known which one is ours. */
static void list_others(struct failure *f, struct fail_case *c)
{
	struct gpu_users users = f->gpu.users;
	unsigned cnt = 0;

	bool is_there = false;

	for (unsigned i = 0; i < users.cnt; i++) {
		is_there |= users.of[i].pid == c->pid;
		if (users.of[i].pid == c->pid || !users.of[i].bytes)
			continue;
		c->others_held += users.of[i].bytes;
		users.of[cnt++] = users.of[i];
	}
	if (!is_there) {
		c->others_held = 0;
		return;
	}
	qsort(users.of, cnt, sizeof(users.of[0]), by_gpu_bytes);
	c->other_cnt = cnt < HOLDERS_MAX ? cnt : HOLDERS_MAX;
	memcpy(c->others, users.of, c->other_cnt * sizeof(users.of[0]));
}

static bool is_oom(const struct trace_event *ev)
{
	const char *name = fn_result_name(ev->fn, ev->result);

	return name && !strcmp(name, "CUDA_ERROR_OUT_OF_MEMORY");
}

static struct fail_case *case_of(struct failure *f, uint32_t pid)
{
	for (unsigned i = 0; i < f->cnt; i++)
		if (f->cases[i].kind == CASE_OOM && f->cases[i].pid == pid)
			return &f->cases[i];
	return NULL;
}

void oom_event(struct failure *f, const struct trace_event *ev)
{
	uint64_t size = ev->has & HAS_SIZE ? ev->size : 0;
	struct fail_case *c;

	if (!is_oom(ev))
		return;
	c = case_of(f, ev->pid);
	if (c && !c->recovered) {
		c->cnt++;
		c->went_on = false;
		c->largest = size > c->largest ? size : c->largest;
		return;
	}
	if (c) {
		memlimit_free(c->growth.blocks);
		*c = fail_case_of(CASE_OOM, ev);
	} else {
		c = fail_case_add(f, CASE_OOM, ev);
	}
	if (!c)
		return;
	c->requested = c->largest = size;
	c->device = memory_device(f->r, ev);
	c->gpu_used = f->gpu.memory_used;
	c->gpu_total = f->gpu.memory_total;
	list_holders(f, c);
	c->recent_freed = freed_since(f, c);
	torch_at_oom(f, c);
	if (f->gpu.memory_total != UINT64_MAX)
		list_others(f, c);
}

/* Allocators free what they cache and try again. Other programs do without the memory. */
void oom_retried(struct failure *f, const struct trace_event *ev)
{
	enum block_kind kind;
	bool makes;

	if (!f->cnt || ev->is_error)
		return;
	makes = (ev->has & HAS_SIZE) && call_makes(ev, &kind) > 0;
	for (unsigned i = 0; i < f->cnt; i++) {
		struct fail_case *c = &f->cases[i];

		if (c->kind != CASE_OOM || c->pid != ev->pid)
			continue;
		c->went_on |= c->tid == ev->tid && call_launches_any(ev);
		c->recovered |= makes && c->largest && ev->size >= c->largest;
	}
}

void oom_finish(struct failure *f)
{
	unsigned cnt = 0;

	for (unsigned i = 0; i < f->cnt; i++) {
		if (f->cases[i].recovered)
			memlimit_free(f->cases[i].growth.blocks);
		else
			f->cases[cnt++] = f->cases[i];
	}
	f->cnt = cnt;
}
