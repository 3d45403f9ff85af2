/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Mock libcuda: memory. Device addresses come from one large reservation of address space, so
 * they look like a driver's (0x7f...), differ from host addresses, and can be copied to and from.
 */
#include "libcuda.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define DEVICE_SZ   (8ull << 30) /* memory of a device */
#define ARENA_SZ    (256ull << 30)
#define GRANULARITY (2ull << 20) /* of cuMemCreate */

struct range {
	uint64_t base, size; /* as requested */
	size_t room;	     /* as taken from the arena; 0: not from it */
	enum range_kind kind;
	unsigned flags;
};

/* Live allocations by address. */
static struct range *ranges;
static size_t range_cnt, range_room;
static uint64_t used; /* device bytes */

static uint64_t arena, arena_next, arena_end;
/* Freed blocks: reused only for a request of exactly the same size, like in caching allocators. */
static struct hole {
	uint64_t base;
	size_t room;
} * holes;
static size_t hole_cnt, hole_room;

struct phys {
	struct obj obj;
	size_t size;
	unsigned refs;
};

/* The first range whose base is above ptr. */
static size_t range_above(uint64_t ptr)
{
	size_t lo = 0, hi = range_cnt;

	while (lo < hi) {
		size_t mid = (lo + hi) / 2;

		if (ranges[mid].base <= ptr)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static struct range *range_of(uint64_t ptr)
{
	size_t i = range_above(ptr);

	if (!i || ptr - ranges[i - 1].base >= ranges[i - 1].size)
		return NULL;
	return &ranges[i - 1];
}

static struct range *range_at(uint64_t ptr)
{
	struct range *r = range_of(ptr);

	return r && r->base == ptr ? r : NULL;
}

static void range_add(struct range r)
{
	size_t i = range_above(r.base);

	if (range_cnt == range_room) {
		range_room = range_room ? range_room * 2 : 256;
		ranges = realloc(ranges, range_room * sizeof(*ranges));
		if (!ranges)
			abort();
	}
	memmove(&ranges[i + 1], &ranges[i], (range_cnt - i) * sizeof(*ranges));
	ranges[i] = r;
	range_cnt++;
}

static void range_del(struct range *r)
{
	memmove(r, r + 1, (ranges + range_cnt - (r + 1)) * sizeof(*r));
	range_cnt--;
}

static bool arena_ready(void)
{
	for (uint64_t size = ARENA_SZ; !arena && size >= DEVICE_SZ; size /= 2) {
		void *p = mmap(NULL, size, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

		if (p == MAP_FAILED)
			continue;
		arena = (uintptr_t)p;
		arena_next = (arena + GRANULARITY - 1) & ~(GRANULARITY - 1);
		arena_end = arena + size;
	}
	return arena;
}

static uint64_t arena_take(size_t *room)
{
	/* Large blocks begin on a 2 MiB page of their own; small ones are aligned to 512 bytes. */
	size_t align = *room >= GRANULARITY ? GRANULARITY : 512;
	uint64_t p;

	*room = (*room + align - 1) & ~(align - 1);
	for (size_t i = hole_cnt; i-- > 0 && hole_cnt - i < 64;)
		if (holes[i].room == *room) {
			p = holes[i].base;
			holes[i] = holes[--hole_cnt];
			return p;
		}
	if (!arena_ready())
		return 0;
	p = (arena_next + align - 1) & ~(align - 1);
	if (*room > arena_end - p)
		return 0;
	arena_next = p + *room;
	return p;
}

static void arena_give(uint64_t base, size_t room)
{
	if (room >= 65536)
		madvise((void *)(uintptr_t)((base + 4095) & ~4095ull), room & ~4095ull,
			MADV_DONTNEED);
	if (hole_cnt == hole_room) {
		hole_room = hole_room ? hole_room * 2 : 256;
		holes = realloc(holes, hole_room * sizeof(*holes));
		if (!holes)
			abort();
	}
	holes[hole_cnt++] = (struct hole){base, room};
}

bool mem_is_device(uint64_t ptr, size_t size)
{
	struct range *r = range_of(ptr);

	return r && r->size - (ptr - r->base) >= size;
}

bool mem_is_host(uint64_t ptr)
{
	struct range *r = range_of(ptr);

	return !r || r->kind >= RANGE_HOST;
}

bool mem_is_pageable(uint64_t ptr)
{
	return !range_of(ptr);
}

bool mem_plausible(uint64_t ptr, size_t size)
{
	if (arena && ptr >= arena && ptr < arena_end)
		return mem_is_device(ptr, size);
	return ptr >= 4096;
}

static int mem_alloc(uint64_t out, size_t size, enum range_kind kind)
{
	struct range r = {.size = size, .room = size, .kind = kind};

	if (!size)
		return E_VALUE;
	if (size > DEVICE_SZ - used)
		return E_OOM;
	r.base = arena_take(&r.room);
	if (!r.base)
		return E_OOM;
	if (put64(out, r.base)) {
		arena_give(r.base, r.room);
		return E_VALUE;
	}
	range_add(r);
	used += size;
	return OK;
}

static int mem_free(uint64_t ptr)
{
	struct range *r = range_at(ptr);

	/* As in the driver: freeing nothing is allowed. */
	if (!ptr)
		return OK;
	if (!r || (r->kind != RANGE_DEVICE && r->kind != RANGE_MANAGED && r->kind != RANGE_POOL))
		return E_VALUE;
	used -= r->size;
	arena_give(r->base, r->room);
	range_del(r);
	return OK;
}

static int run_alloc(struct call *c)
{
	return mem_alloc(c->w[0], c->w[1], RANGE_DEVICE);
}

/* Goes through the public entry of cuMemAlloc_v2: a call inside a call. */
static int run_alloc_pitch(struct call *c)
{
	uint64_t pitch = (c->w[2] + 511) & ~511ull;
	uint32_t elem = c->w[4];
	int (*alloc)(uint64_t, size_t) = (int (*)(uint64_t, size_t))fake_export("cuMemAlloc_v2");

	if (elem != 4 && elem != 8 && elem != 16)
		return E_VALUE;
	if (put64(c->w[1], pitch))
		return E_VALUE;
	return alloc(c->w[0], pitch * c->w[3]);
}

static int run_alloc_managed(struct call *c)
{
	uint32_t flags = c->w[2];

	/* CU_MEM_ATTACH_GLOBAL or _HOST */
	if (flags != 1 && flags != 2)
		return E_VALUE;
	return mem_alloc(c->w[0], c->w[1], RANGE_MANAGED);
}

static int run_alloc_async(struct call *c)
{
	struct stream *s = stream_of(c, c->w[2]);

	if (!s)
		return E_HANDLE;
	stream_add(s, 0);
	return mem_alloc(c->w[0], c->w[1], RANGE_POOL);
}

static int run_alloc_from_pool(struct call *c)
{
	struct stream *s = stream_of(c, c->w[3]);

	if (!s)
		return E_HANDLE;
	if (!obj_get(c->w[2], OBJ_POOL))
		return E_VALUE;
	return mem_alloc(c->w[0], c->w[1], RANGE_POOL);
}

static int run_free(struct call *c)
{
	return mem_free(c->w[0]);
}

static int run_free_async(struct call *c)
{
	return stream_of(c, c->w[1]) ? mem_free(c->w[0]) : E_HANDLE;
}

static int host_alloc(uint64_t out, size_t size, unsigned flags)
{
	struct range r = {.size = size, .kind = RANGE_HOST, .flags = flags};
	void *p;

	if (!size || flags & ~7u)
		return E_VALUE;
	p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
		 -1, 0);
	if (p == MAP_FAILED)
		return E_OOM;
	r.base = (uintptr_t)p;
	if (put64(out, r.base)) {
		munmap(p, size);
		return E_VALUE;
	}
	range_add(r);
	return OK;
}

static int run_alloc_host(struct call *c)
{
	return host_alloc(c->w[0], c->w[1], 0);
}

static int run_host_alloc(struct call *c)
{
	return host_alloc(c->w[0], c->w[1], c->w[2]);
}

static int run_free_host(struct call *c)
{
	struct range *r = range_at(c->w[0]);

	if (!r || r->kind != RANGE_HOST)
		return E_VALUE;
	munmap((void *)(uintptr_t)r->base, r->size);
	range_del(r);
	return OK;
}

static int run_host_register(struct call *c)
{
	if (!c->w[0] || !c->w[1])
		return E_VALUE;
	if (range_of(c->w[0]))
		return E_REGISTERED;
	range_add((struct range){c->w[0], c->w[1], 0, RANGE_REGISTERED, c->w[2]});
	return OK;
}

static int run_host_unregister(struct call *c)
{
	struct range *r = range_at(c->w[0]);

	if (!r || r->kind != RANGE_REGISTERED)
		return E_NOT_REGISTERED;
	range_del(r);
	return OK;
}

static int run_host_pointer(struct call *c)
{
	struct range *r = range_of(c->w[1]);

	return r && (r->kind == RANGE_HOST || r->kind == RANGE_REGISTERED) ? put64(c->w[0], c->w[1])
									   : E_VALUE;
}

static int run_host_flags(struct call *c)
{
	struct range *r = range_of(c->w[1]);

	return r && r->kind == RANGE_HOST ? put32(c->w[0], r->flags) : E_VALUE;
}

static int run_mem_info(struct call *c)
{
	return put64(c->w[0], DEVICE_SZ - used) || put64(c->w[1], DEVICE_SZ) ? E_VALUE : OK;
}

static int run_address_range(struct call *c)
{
	struct range *r = range_of(c->w[2]);

	if (!r)
		return E_NOT_FOUND;
	return put64_opt(c->w[0], r->base) || put64_opt(c->w[1], r->size) ? E_VALUE : OK;
}

static int run_pointer_attr(struct call *c)
{
	struct range *r = range_of(c->w[2]);

	if (!r)
		return E_VALUE;
	switch ((uint32_t)c->w[1]) {
	case 1:
		return put64(c->w[0], (uintptr_t)ctx_current());
	case 2:
		return put32(c->w[0], r->kind == RANGE_HOST || r->kind == RANGE_REGISTERED ? 1 : 2);
	case 3:
	case 4:
		return put64(c->w[0], c->w[2]);
	case 7:
		return put64(c->w[0], r->base >> 9);
	case 8:
		return put(c->w[0], r->kind == RANGE_MANAGED ? "\1" : "", 1);
	case 9:
		return put32(c->w[0], 0);
	case 11:
		return put64(c->w[0], r->base);
	case 12:
		return put64(c->w[0], r->size);
	default:
		return put32(c->w[0], 0);
	}
}

/* Pools */

static int run_pool_create(struct call *c)
{
	return put64(c->w[0], (uintptr_t)obj_new(OBJ_POOL, sizeof(struct obj)));
}

static int run_pool_destroy(struct call *c)
{
	struct obj *pool = obj_get(c->w[0], OBJ_POOL);

	if (!pool)
		return E_VALUE;
	obj_free(pool);
	return OK;
}

static int run_pool_default(struct call *c)
{
	static struct obj *pool;

	if (!pool)
		pool = obj_new(OBJ_POOL, sizeof(*pool));
	return put64(c->w[0], (uintptr_t)pool);
}

/* Virtual memory management */

static int run_granularity(struct call *c)
{
	return put64(c->w[0], GRANULARITY);
}

static int run_create(struct call *c)
{
	struct phys *p;

	if (!c->w[1] || c->w[1] % GRANULARITY || !c->w[2])
		return E_VALUE;
	if (c->w[1] > DEVICE_SZ - used)
		return E_OOM;
	p = obj_new(OBJ_PHYS, sizeof(*p));
	p->size = c->w[1];
	p->refs = 1;
	if (put64(c->w[0], (uintptr_t)p)) {
		obj_free(p);
		return E_VALUE;
	}
	used += p->size;
	return OK;
}

static int run_release(struct call *c)
{
	struct phys *p = obj_get(c->w[0], OBJ_PHYS);

	if (!p)
		return E_VALUE;
	if (--p->refs == 0) {
		used -= p->size;
		obj_free(p);
	}
	return OK;
}

static int run_reserve(struct call *c)
{
	size_t room = c->w[1];
	uint64_t base;

	if (!room || room % GRANULARITY)
		return E_VALUE;
	base = arena_take(&room);
	return base ? put64(c->w[0], base) : E_OOM;
}

static int run_unreserve(struct call *c)
{
	if (!arena || c->w[0] < arena || c->w[0] >= arena_end || c->w[1] % GRANULARITY)
		return E_VALUE;
	if (range_of(c->w[0]))
		return E_VALUE;
	arena_give(c->w[0], c->w[1]);
	return OK;
}

static int run_map(struct call *c)
{
	struct phys *p = obj_get(c->w[3], OBJ_PHYS);

	if (!p || c->w[1] > p->size || !c->w[1] || range_of(c->w[0]))
		return E_VALUE;
	range_add((struct range){c->w[0], c->w[1], 0, RANGE_MAPPED, 0});
	return OK;
}

static int run_unmap(struct call *c)
{
	struct range *r = range_at(c->w[0]);

	if (!r || r->kind != RANGE_MAPPED || r->size != c->w[1])
		return E_VALUE;
	range_del(r);
	return OK;
}

static int run_set_access(struct call *c)
{
	return mem_is_device(c->w[0], c->w[1]) ? OK : E_VALUE;
}

const struct impl impl_mem[] = {
	{"cuMemAlloc_v2", run_alloc, IMPL_CONTEXT},
	{"cuMemAllocPitch_v2", run_alloc_pitch, IMPL_CONTEXT | IMPL_NOLOCK},
	{"cuMemAllocManaged", run_alloc_managed, IMPL_CONTEXT},
	{"cuMemAllocAsync", run_alloc_async, IMPL_CONTEXT},
	{"cuMemAllocFromPoolAsync", run_alloc_from_pool, IMPL_CONTEXT},
	{"cuMemFree_v2", run_free, IMPL_CONTEXT},
	{"cuMemFreeAsync", run_free_async, IMPL_CONTEXT},
	{"cuMemAllocHost_v2", run_alloc_host, IMPL_CONTEXT},
	{"cuMemHostAlloc", run_host_alloc, IMPL_CONTEXT},
	{"cuMemFreeHost", run_free_host, IMPL_CONTEXT},
	{"cuMemHostRegister_v2", run_host_register, IMPL_CONTEXT},
	{"cuMemHostUnregister", run_host_unregister, IMPL_CONTEXT},
	{"cuMemHostGetDevicePointer_v2", run_host_pointer, IMPL_CONTEXT},
	{"cuMemHostGetFlags", run_host_flags, IMPL_CONTEXT},
	{"cuMemGetInfo_v2", run_mem_info, IMPL_CONTEXT},
	{"cuMemGetAddressRange_v2", run_address_range, IMPL_CONTEXT},
	{"cuPointerGetAttribute", run_pointer_attr, 0},
	{"cuMemPoolCreate", run_pool_create, 0},
	{"cuMemPoolDestroy", run_pool_destroy, 0},
	{"cuDeviceGetDefaultMemPool", run_pool_default, 0},
	{"cuDeviceGetMemPool", run_pool_default, 0},
	{"cuMemGetAllocationGranularity", run_granularity, 0},
	{"cuMemCreate", run_create, 0},
	{"cuMemRelease", run_release, 0},
	{"cuMemAddressReserve", run_reserve, 0},
	{"cuMemAddressFree", run_unreserve, 0},
	{"cuMemMap", run_map, 0},
	{"cuMemUnmap", run_unmap, 0},
	{"cuMemSetAccess", run_set_access, 0},
	{NULL, NULL, 0},
};
