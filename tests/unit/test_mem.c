/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Live memory of a process, against a naive model. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/mem.h"
#include "random.h"

/* MEM_NONE: memory of another process. */
static const enum block_kind block_of[] = {
	[MEM_DEVICE] = BLOCK_DEVICE,
	[MEM_HOST] = BLOCK_HOST,
	[MEM_MANAGED] = BLOCK_MANAGED,
	[MEM_NONE] = BLOCK_EXTERNAL,
};

static void mem__alloc(struct mem *m, enum mem_kind kind, uint64_t addr, uint64_t size, uint64_t ns)
{
	mem__add(m, &(struct block){.key = addr,
				    .size = size,
				    .born_ns = ns,
				    .refs = 1,
				    .kind = block_of[kind]});
}

static bool mem_freed(struct mem *m, uint64_t addr, uint64_t start_ns, uint64_t *size)
{
	struct block was;

	if (!mem__free(m, SPACE_ADDR, addr, start_ns, &was))
		return false;
	*size = was.size;
	return true;
}

static void mem__create(struct mem *m, uint64_t handle, uint64_t size, uint64_t ns)
{
	mem__add(m, &(struct block){.key = handle,
				    .size = size,
				    .born_ns = ns,
				    .refs = 1,
				    .kind = BLOCK_VMM,
				    .space = SPACE_HANDLE});
}

static bool mem__release(struct mem *m, uint64_t handle, uint64_t start_ns, uint64_t *size)
{
	struct block was;

	if (!mem__free(m, SPACE_HANDLE, handle, start_ns, &was))
		return false;
	*size = was.size;
	return true;
}

static void check(const struct mem *m, uint64_t device, uint64_t host, uint64_t managed)
{
	struct mem_totals t;

	mem__totals(m, &t);
	assert_int_equal(t.bytes[MEM_DEVICE], device);
	assert_int_equal(t.bytes[MEM_HOST], host);
	assert_int_equal(t.bytes[MEM_MANAGED], managed);
}

static void test_alloc_free(void **state)
{
	struct mem m = {0};
	uint64_t size = 77;

	mem__alloc(&m, MEM_DEVICE, 0x1000, 0x100, 0);
	mem__alloc(&m, MEM_HOST, 0x2000, 0x200, 0);
	mem__alloc(&m, MEM_MANAGED, 0x3000, 0x400, 0);
	check(&m, 0x100, 0x200, 0x400);
	assert_int_equal(mem__kind_at(&m, 0xfff), -1);
	assert_int_equal(mem__kind_at(&m, 0x1000), MEM_DEVICE);
	assert_int_equal(mem__kind_at(&m, 0x10ff), MEM_DEVICE);
	assert_int_equal(mem__kind_at(&m, 0x1100), -1);
	assert_int_equal(mem__kind_at(&m, 0x2001), MEM_HOST);
	assert_int_equal(mem__kind_at(&m, 0x33ff), MEM_MANAGED);
	/* Unknown, inside a block, twice. */
	assert_false(mem_freed(&m, 0x5000, 1, &size));
	assert_false(mem_freed(&m, 0x1001, 1, &size));
	assert_false(mem_freed(&m, 0, 1, &size));
	assert_int_equal(size, 77);
	check(&m, 0x100, 0x200, 0x400);
	assert_true(mem_freed(&m, 0x1000, 1, &size));
	assert_int_equal(size, 0x100);
	assert_false(mem_freed(&m, 0x1000, 1, &size));
	check(&m, 0, 0x200, 0x400);
	assert_true(mem_freed(&m, 0x3000, 1, &size));
	assert_true(mem_freed(&m, 0x2000, 1, &size));
	check(&m, 0, 0, 0);
	mem__clear(&m);
	assert_null(m.ledger.trees[SPACE_ADDR]);
}

/* A new block at an old one's address: the old one's free was not traced. */
static void test_overlap(void **state)
{
	struct mem m = {0};
	uint64_t size;

	mem__alloc(&m, MEM_DEVICE, 0x1000, 0x1000, 0);
	mem__alloc(&m, MEM_DEVICE, 0x1000, 0x1000, 0);
	check(&m, 0x1000, 0, 0);
	mem__alloc(&m, MEM_HOST, 0x1800, 0x10, 0);
	check(&m, 0, 0x10, 0);
	assert_int_equal(mem__kind_at(&m, 0x1000), -1);
	assert_false(mem_freed(&m, 0x1000, 1, &size));
	for (uint64_t a = 0x10000; a < 0x20000; a += 0x100)
		mem__alloc(&m, MEM_MANAGED, a, 0x100, 0);
	check(&m, 0, 0x10, 0x10000);
	/* Touching is not overlapping. */
	mem__alloc(&m, MEM_DEVICE, 0x20000, 0x100, 0);
	mem__alloc(&m, MEM_DEVICE, 0xff00, 0x100, 0);
	check(&m, 0x200, 0x10, 0x10000);
	/* Overlaps each neighbour by one byte. */
	mem__alloc(&m, MEM_DEVICE, 0x100ff, 0x102, 0);
	check(&m, 0x302, 0x10, 0x10000 - 0x300);
	/* Covers all of them. */
	mem__alloc(&m, MEM_HOST, 0x1000, 0x100000, 0);
	check(&m, 0, 0x100000, 0);
	mem__clear(&m);
	check(&m, 0, 0, 0);
}

static void test_zero_size(void **state)
{
	struct mem m = {0};
	uint64_t size = 5;

	mem__alloc(&m, MEM_DEVICE, 0x1000, 0, 0);
	check(&m, 0, 0, 0);
	assert_int_equal(mem__kind_at(&m, 0x1000), MEM_DEVICE);
	assert_int_equal(mem__kind_at(&m, 0x1001), -1);
	assert_true(mem_freed(&m, 0x1000, 1, &size));
	assert_int_equal(size, 0);
	mem__alloc(&m, MEM_DEVICE, 0, 0, 0);
	mem__alloc(&m, MEM_DEVICE, UINT64_MAX, 0, 0);
	assert_int_equal(mem__kind_at(&m, 0), MEM_DEVICE);
	assert_int_equal(mem__kind_at(&m, UINT64_MAX), MEM_DEVICE);
	mem__clear(&m);
}

/* Ranges from the target may end past the address space. */
static void test_wrap(void **state)
{
	struct mem m = {0};
	uint64_t size;

	mem__alloc(&m, MEM_DEVICE, UINT64_MAX - 15, 16, 0); /* the last 16 bytes: no wrap yet */
	assert_int_equal(mem__kind_at(&m, UINT64_MAX), MEM_DEVICE);
	assert_int_equal(mem__kind_at(&m, 0), -1);
	check(&m, 16, 0, 0);
	mem__alloc(&m, MEM_HOST, UINT64_MAX - 7, 0x1000, 0);
	check(&m, 0, 0x1000, 0);
	mem__alloc(&m, MEM_HOST, UINT64_MAX - 7, 0x1000, 0);
	check(&m, 0, 0x1000, 0);
	assert_int_equal(mem__kind_at(&m, UINT64_MAX), MEM_HOST);
	assert_int_equal(mem__kind_at(&m, 3), -1);
	assert_true(mem_freed(&m, UINT64_MAX - 7, 1, &size));
	assert_int_equal(size, 0x1000);
	mem__alloc(&m, MEM_DEVICE, 1, UINT64_MAX, 0);
	mem__alloc(&m, MEM_DEVICE, 0x1000, UINT64_MAX, 0);
	mem__alloc(&m, MEM_DEVICE, UINT64_MAX, UINT64_MAX, 0);
	mem__alloc(&m, MEM_DEVICE, 0, UINT64_MAX, 0);
	assert_int_equal(mem__kind_at(&m, UINT64_MAX - 1), MEM_DEVICE);
	assert_true(mem_freed(&m, 0, 1, &size));
	assert_int_equal(size, UINT64_MAX);
	/* The very last byte is outside of it. */
	assert_true(mem_freed(&m, UINT64_MAX, 1, &size));
	assert_int_equal(size, UINT64_MAX);
	check(&m, 0, 0, 0);
	for (uint64_t i = 0; i < 1000; i++)
		mem__alloc(&m, MEM_DEVICE, UINT64_MAX - i, UINT64_MAX - i * i, 0);
	mem__clear(&m);
	check(&m, 0, 0, 0);
	assert_null(m.ledger.trees[SPACE_ADDR]);
}

static void test_physical(void **state)
{
	struct mem m = {0};
	uint64_t size;

	/* Close handles of large memory: handles cover no addresses. */
	mem__create(&m, 0x1000, 0x200000, 0);
	mem__create(&m, 0x1001, 0x400000, 0);
	check(&m, 0x600000, 0, 0);
	/* Not an address. */
	assert_int_equal(mem__kind_at(&m, 0x1000), -1);
	assert_false(mem_freed(&m, 0x1000, 1, &size));
	mem__alloc(&m, MEM_DEVICE, 0x1000, 0x10, 0);
	check(&m, 0x600010, 0, 0);
	assert_true(mem__release(&m, 0x1000, 1, &size));
	assert_int_equal(size, 0x200000);
	assert_false(mem__release(&m, 0x1000, 1, &size));
	check(&m, 0x400010, 0, 0);
	/* The same handle again: its release was not traced. */
	mem__create(&m, 0x1001, 1, 0);
	check(&m, 0x11, 0, 0);
	mem__create(&m, UINT64_MAX, UINT64_MAX, 0);
	mem__create(&m, 0, 0, 0);
	assert_true(mem__release(&m, UINT64_MAX, 1, &size));
	assert_true(mem__release(&m, 0, 1, &size));
	check(&m, 0x11, 0, 0);
	mem__clear(&m);
	check(&m, 0, 0, 0);
	assert_null(m.ledger.trees[SPACE_HANDLE]);
}

/* Thread A frees, thread B gets the address at once, and B's record comes first. */
static void test_late_free(void **state)
{
	struct mem m = {0};
	uint64_t size = 7;

	mem__alloc(&m, MEM_DEVICE, 0x1000, 0x100, 10);
	mem__alloc(&m, MEM_DEVICE, 0x1000, 0x200, 35); /* B, from 25 to 35 */
	check(&m, 0x200, 0, 0);
	assert_false(mem_freed(&m, 0x1000, 20, &size)); /* A, from 20 to 40 */
	check(&m, 0x200, 0, 0);
	assert_int_equal(size, 7);
	assert_true(mem_freed(&m, 0x1000, 35, &size));
	assert_int_equal(size, 0x200);
	check(&m, 0, 0, 0);
	mem__create(&m, 0x50, 0x1000, 10);
	mem__create(&m, 0x50, 0x2000, 35);
	assert_false(mem__release(&m, 0x50, 20, &size));
	check(&m, 0x2000, 0, 0);
	assert_true(mem__release(&m, 0x50, 50, &size));
	check(&m, 0, 0, 0);
	mem__clear(&m);
}

static uint32_t tid = 1;

/* A successful call; its arguments as in a saved trace. */
static const struct mem_totals *does(struct mem *m, const char *symbol, const char *args,
				     uint64_t ptr, uint64_t size)
{
	static struct trace_event ev;
	struct event_text text = {.args = args, .args_len = strlen(args)};

	ev = (struct trace_event){.kind = EVENT_CALL, .fn = api_fn_by_symbol(symbol), .tid = tid};
	ev.name = ev.fn->name;
	ev.text = &text;
	ev.start_ns = ev.end_ns = 1000;
	ev.ptr = ptr;
	ev.size = size;
	ev.has = HAS_PTR | (size ? HAS_SIZE : 0);
	mem__event(m, &ev);
	return ev.has_mem ? &ev.mem : NULL;
}

static void test_contexts(void **state)
{
	struct mem m = {0};

	does(&m, "cuInit", "'Flags':0", 0, 0);
	does(&m, "cuCtxCreate_v2", "\"pctx\":\"0xa\",\"flags\":0,\"dev\":0", 0, 0);
	does(&m, "cuMemAlloc_v2", "", 0x1000, 0x100);
	does(&m, "cuMemAllocHost_v2", "", 0x9000, 0x10);
	does(&m, "cuMemCreate", "", 0x77, 0x4000);
	does(&m, "cuMemAllocAsync", "", 0x2000, 0x800);
	/* Another thread has another context. */
	tid = 2;
	does(&m, "cuDevicePrimaryCtxRetain", "\"pctx\":\"0xb\",\"dev\":1", 0, 0);
	does(&m, "cuDevicePrimaryCtxRetain", "\"pctx\":\"0xb\",\"dev\":1", 0, 0);
	does(&m, "cuCtxSetCurrent", "\"ctx\":\"0xb\"", 0, 0);
	does(&m, "cuMemAlloc_v2", "", 0x3000, 0x20);
	does(&m, "cuArrayCreate_v2", "", 0x88, 0x40);
	check(&m, 0x4960, 0x10, 0);
	/* Memory of the device stays, and so does that of the other context. */
	assert_int_equal(does(&m, "cuCtxDestroy_v2", "\"ctx\":\"0xa\"", 0, 0)->bytes[MEM_DEVICE],
			 0x4860);
	check(&m, 0x4860, 0, 0);
	assert_null(does(&m, "cuDevicePrimaryCtxRelease_v2", "\"dev\":1", 0, 0));
	assert_non_null(does(&m, "cuDevicePrimaryCtxRelease_v2", "\"dev\":1", 0, 0));
	check(&m, 0x4800, 0, 0);
	does(&m, "cuMemAlloc_v2", "", 0x3000, 0x20);
	does(&m, "cuDevicePrimaryCtxReset_v2", "\"dev\":1", 0, 0);
	check(&m, 0x4800, 0, 0);
	mem__clear(&m);
	check(&m, 0, 0, 0);

	/* Begun before the trace: the number of retains is unknown. */
	does(&m, "cuDevicePrimaryCtxRetain", "\"pctx\":\"0xb\",\"dev\":1", 0, 0);
	does(&m, "cuMemAlloc_v2", "", 0x3000, 0x20);
	assert_null(does(&m, "cuDevicePrimaryCtxRelease_v2", "\"dev\":1", 0, 0));
	check(&m, 0x20, 0, 0);
	/* There is only this context, so it must be that one. */
	does(&m, "cuDevicePrimaryCtxReset_v2", "\"dev\":1", 0, 0);
	check(&m, 0, 0, 0);
	mem__clear(&m);
}

#define DEVICE	  "\"prop\":{\"location\":{\"type\":\"CU_MEM_LOCATION_TYPE_DEVICE\",\"id\":0}}"
#define NUMA	  "\"prop\":{\"location\":{\"type\":\"CU_MEM_LOCATION_TYPE_HOST_NUMA\",\"id\":0}}"
#define HANDLE(h) "\"handle\":\"" h "\""

/* The order of CUDA's samples: create, map, release. */
static void test_mapped(void **state)
{
	struct mem m = {0};

	does(&m, "cuMemCreate", DEVICE, 0x77, 0x4000);
	does(&m, "cuMemMap", HANDLE("0x77"), 0x10000, 0x4000);
	does(&m, "cuMemMap", HANDLE("0x77"), 0x20000, 0x4000);
	does(&m, "cuMemRelease", "", 0x77, 0);
	check(&m, 0x4000, 0, 0);
	assert_int_equal(mem__kind_at(&m, 0x23fff), MEM_DEVICE);
	/* The handle may now belong to another block. */
	does(&m, "cuMemCreate", DEVICE, 0x77, 0x100);
	does(&m, "cuMemUnmap", "", 0x10000, 0x4000);
	check(&m, 0x4100, 0, 0);
	assert_int_equal(does(&m, "cuMemUnmap", "", 0x20000, 0x4000)->bytes[MEM_DEVICE], 0x100);
	does(&m, "cuMemRelease", "", 0x77, 0);
	check(&m, 0, 0, 0);
	/* Retained through the mapping: one more release follows. */
	does(&m, "cuMemCreate", DEVICE, 0x77, 0x4000);
	does(&m, "cuMemMap", HANDLE("0x77"), 0x10000, 0x4000);
	does(&m, "cuMemRetainAllocationHandle", HANDLE("0x77") ",\"addr\":\"0x10000\"", 0, 0);
	does(&m, "cuMemUnmap", "", 0x10000, 0x4000);
	does(&m, "cuMemRelease", "", 0x77, 0);
	check(&m, 0x4000, 0, 0);
	does(&m, "cuMemRelease", "", 0x77, 0);
	check(&m, 0, 0, 0);
	/* Released, then retained by an address in the middle: the handle is a new one. */
	does(&m, "cuMemCreate", DEVICE, 0x77, 0x4000);
	does(&m, "cuMemMap", HANDLE("0x77"), 0x10000, 0x4000);
	does(&m, "cuMemRelease", "", 0x77, 0);
	does(&m, "cuMemRetainAllocationHandle", HANDLE("0x78") ",\"addr\":\"0x11000\"", 0, 0);
	does(&m, "cuMemUnmap", "", 0x10000, 0x4000);
	check(&m, 0x4000, 0, 0);
	does(&m, "cuMemRelease", "", 0x78, 0);
	check(&m, 0, 0, 0);
	/* Memory that only a mapping holds is released with the process, too. */
	does(&m, "cuMemCreate", DEVICE, 0x77, 0x4000);
	does(&m, "cuMemMap", HANDLE("0x77"), 0x10000, 0x4000);
	does(&m, "cuMemRelease", "", 0x77, 0);
	mem__clear(&m);
	check(&m, 0, 0, 0);
}

/* Physical memory and pools of the host, and managed pools. */
static void test_located(void **state)
{
#define POOL(h, kind, at)                                                                          \
	"\"pool\":\"" h "\",\"poolProps\":{\"allocType\":\"CU_MEM_ALLOCATION_TYPE_" kind           \
	"\",\"location\":{\"type\":\"CU_MEM_LOCATION_TYPE_" at "\",\"id\":0}}"
	struct mem m = {0};

	does(&m, "cuMemCreate", NUMA, 0x77, 0x4000);
	check(&m, 0, 0x4000, 0);
	does(&m, "cuMemMap", HANDLE("0x77"), 0x10000, 0x4000);
	assert_int_equal(mem__kind_at(&m, 0x12000), MEM_HOST);
	does(&m, "cuMemRelease", "", 0x77, 0);
	does(&m, "cuMemUnmap", "", 0x10000, 0x4000);
	check(&m, 0, 0, 0);
	does(&m, "cuMemPoolCreate", POOL("0x1", "PINNED", "HOST"), 0, 0);
	does(&m, "cuMemPoolCreate", POOL("0x2", "PINNED", "DEVICE"), 0, 0);
	does(&m, "cuMemPoolCreate", POOL("0x3", "MANAGED", "NONE"), 0, 0);
	does(&m, "cuMemAllocFromPoolAsync", "\"pool\":\"0x1\"", 0x1000, 0x10);
	does(&m, "cuMemAllocFromPoolAsync", "\"pool\":\"0x2\"", 0x2000, 0x20);
	does(&m, "cuMemAllocFromPoolAsync", "\"pool\":\"0x3\"", 0x3000, 0x40);
	check(&m, 0x20, 0x10, 0x40);
	/* The memory outlives its pool. */
	does(&m, "cuMemPoolDestroy", "\"pool\":\"0x1\"", 0, 0);
	check(&m, 0x20, 0x10, 0x40);
	does(&m, "cuMemFreeAsync", "", 0x1000, 0);
	does(&m, "cuMemFreeAsync", "", 0x2000, 0);
	does(&m, "cuMemFreeAsync", "", 0x3000, 0);
	check(&m, 0, 0, 0);
	mem__clear(&m);
}

/* Opened twice: known until it is closed twice. */
static void test_opened(void **state)
{
	struct mem m = {0};

	for (int i = 0; i < 2; i++)
		does(&m, "cuIpcOpenMemHandle_v2", "\"pdptr\":\"0x5000\"", 0, 0);
	does(&m, "cuIpcCloseMemHandle", "\"dptr\":\"0x5000\"", 0, 0);
	assert_int_equal(mem__kind_at(&m, 0x5000), MEM_NONE);
	does(&m, "cuIpcCloseMemHandle", "\"dptr\":\"0x5000\"", 0, 0);
	assert_int_equal(mem__kind_at(&m, 0x5000), -1);
	assert_int_equal(m.superseded_cnt, 0);
	check(&m, 0, 0, 0);
	mem__clear(&m);
}

/* Any number of threads and contexts: at most the limit, and all are freed. */
static void test_many_contexts(void **state)
{
	struct quota q = {.table = QUOTA_RANGES, .max = 100, .share = 100};
	struct mem m = {.ledger.quota = &q};
	char args[64];

	for (unsigned i = 1; i < 5000; i++) {
		tid = i;
		snprintf(args, sizeof(args), "\"pctx\":\"0x%x\",\"flags\":0,\"dev\":0", i);
		does(&m, "cuCtxCreate_v2", args, 0, 0);
		does(&m, "cuMemAlloc_v2", "", i * 0x1000, 1);
	}
	assert_in_range(q.used, 1, 100);
	mem__clear(&m);
	assert_int_equal(q.used, 0);
	tid = 1;
}

/*
 * Threads that allocate and free all the time in a small space, as a driver would allow. Each call
 * takes effect at a moment between its start and its end. Records come in order of ends.
 */
#define SIM_THREADS 8
#define SIM_UNITS   24
#define SIM_CALLS   20000

struct sim_thread {
	uint64_t addr, size; /* its block; 0: none */
	uint64_t start, act, end;
	int did; /* 0: not yet, 1: the driver has, -1: no space was left */
};

struct sim {
	struct sim_thread t[SIM_THREADS];
	uint8_t used[SIM_UNITS];
	unsigned most; /* the most units of a block */
	uint64_t now;
};

static void sim_begin(struct sim *s, struct sim_thread *t)
{
	t->start = s->now + 1 + rnd() % 5;
	t->act = t->start + 1 + rnd() % 40;
	t->end = t->act + 1 + rnd() % (rnd() % 4 ? 20 : 400);
	t->did = 0;
}

static uint64_t sim_find(const struct sim *s, uint64_t units)
{
	for (uint64_t at = 0, n = 0; at < SIM_UNITS; at++) {
		n = s->used[at] ? 0 : n + 1;
		if (n == units)
			return at + 1 - units;
	}
	return SIM_UNITS;
}

static void sim_act(struct sim *s, struct sim_thread *t, bool frees)
{
	uint64_t units = frees ? t->size / 0x100 : 1 + rnd() % s->most;
	uint64_t at = frees ? (t->addr - 0x10000) / 0x100 : sim_find(s, units);

	t->did = at < SIM_UNITS ? 1 : -1;
	if (t->did < 0)
		return;
	memset(s->used + at, !frees, units);
	t->addr = 0x10000 + at * 0x100;
	t->size = units * 0x100;
}

static void sim_record(struct mem *m, struct sim_thread *t, bool frees)
{
	static const struct api_fn get = {.op = OP_ALLOC, .class = CLASS_MEMORY},
				   put = {.op = OP_FREE, .class = CLASS_MEMORY};
	struct trace_event ev = {
		.kind = EVENT_CALL,
		.fn = frees ? &put : &get,
		.name = "call",
		.start_ns = t->start,
		.end_ns = t->end,
		.has = frees ? HAS_PTR : HAS_PTR | HAS_SIZE,
		.ptr = t->addr,
		.size = frees ? 0 : t->size,
		.result = t->did < 0 ? 2 : 0,
	};

	mem__event(m, &ev);
	if (frees || t->did < 0)
		t->size = 0;
}

/* The next moment at which a thread does something. */
static uint64_t sim_next(const struct sim_thread *t)
{
	return t->did ? t->end : t->act;
}

static void simulate(struct quota *q, unsigned most)
{
	struct mem m = {.ledger.quota = q};
	struct sim s = {.now = 100, .most = most};
	bool frees[SIM_THREADS] = {false};
	unsigned over = 0;
	uint64_t live = 0;

	for (int i = 0; i < SIM_THREADS; i++)
		sim_begin(&s, &s.t[i]);
	for (unsigned n = 0; over < SIM_THREADS;) {
		int i = 0;

		for (int k = 1; k < SIM_THREADS; k++)
			if (sim_next(&s.t[k]) < sim_next(&s.t[i]))
				i = k;
		s.now = sim_next(&s.t[i]);
		if (!s.t[i].did) {
			sim_act(&s, &s.t[i], frees[i]);
			continue;
		}
		sim_record(&m, &s.t[i], frees[i]);
		frees[i] = s.t[i].size;
		if (++n > SIM_CALLS) {
			s.t[i].end = UINT64_MAX;
			live += s.t[i].size;
			over++;
		} else {
			sim_begin(&s, &s.t[i]);
		}
	}
	check(&m, live, 0, 0);
	mem__clear(&m);
}

static void test_threads(void **state)
{
	struct quota few = {.table = QUOTA_RANGES, .max = 3, .share = 3};

	for (int i = 1; i <= 20; i++) {
		rnd_state = i * 0x9e3779b97f4a7c15ull;
		simulate(NULL, 4);
		/* All blocks that did not fit have the same size: then it is exact. */
		simulate(&few, 1);
		assert_int_equal(few.used, 0);
	}
}

#define SPACE 512

/* One entry per address: the start of the range that it belongs to; -1: none. */
struct naive {
	int owner[SPACE];
	uint64_t bytes[SPACE];
	enum mem_kind kind[SPACE];
	bool physical[64];
	uint64_t physical_bytes[64];
};

static void naive_drop(struct naive *n, int start)
{
	for (int i = 0; i < SPACE; i++)
		if (n->owner[i] == start)
			n->owner[i] = -1;
}

static void naive_alloc(struct naive *n, enum mem_kind kind, unsigned addr, unsigned size)
{
	unsigned span = size ? size : 1;

	for (unsigned i = addr; i < addr + span && i < SPACE; i++)
		if (n->owner[i] >= 0)
			naive_drop(n, n->owner[i]);
	for (unsigned i = addr; i < addr + span && i < SPACE; i++)
		n->owner[i] = addr;
	n->bytes[addr] = size;
	n->kind[addr] = kind;
}

static void naive_totals(const struct naive *n, uint64_t bytes[MEM_KIND_CNT])
{
	memset(bytes, 0, MEM_KIND_CNT * sizeof(*bytes));
	for (int i = 0; i < SPACE; i++)
		if (n->owner[i] == i)
			bytes[n->kind[i]] += n->bytes[i];
	for (int i = 0; i < 64; i++)
		if (n->physical[i])
			bytes[MEM_DEVICE] += n->physical_bytes[i];
}

static void test_random(void **state)
{
	/* The highest addresses, so that ranges reach the end of the space. */
	uint64_t base = UINT64_MAX - SPACE + 1, bytes[MEM_KIND_CNT], size;
	static struct naive n;
	struct mem m = {0};

	rnd_state = 0x2545f4914f6cdd1d;
	memset(n.owner, -1, sizeof(n.owner));
	for (unsigned round = 0; round < 100000; round++) {
		unsigned addr = rnd() % SPACE, len = rnd() % 24, h = rnd() % 64;
		enum mem_kind kind = rnd() % MEM_KIND_CNT;
		bool known;

		switch (rnd() % 8) {
		case 0 ... 2:
			mem__alloc(&m, kind, base + addr, len, 0);
			naive_alloc(&n, kind, addr, len);
			break;
		case 3 ... 5:
			known = n.owner[addr] == (int)addr;
			assert_int_equal(mem_freed(&m, base + addr, 1, &size), known);
			if (known) {
				assert_int_equal(size, n.bytes[addr]);
				naive_drop(&n, addr);
			}
			break;
		case 6:
			mem__create(&m, h, len, 0);
			n.physical[h] = true;
			n.physical_bytes[h] = len;
			break;
		case 7:
			assert_int_equal(mem__release(&m, h, 1, &size), n.physical[h]);
			n.physical[h] = false;
		}
		addr = rnd() % SPACE;
		assert_int_equal(mem__kind_at(&m, base + addr),
				 n.owner[addr] < 0 ? -1 : (int)n.kind[n.owner[addr]]);
		if (round % 8)
			continue;
		naive_totals(&n, bytes);
		check(&m, bytes[MEM_DEVICE], bytes[MEM_HOST], bytes[MEM_MANAGED]);
	}
	mem__clear(&m);
	check(&m, 0, 0, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_alloc_free),    cmocka_unit_test(test_overlap),
		cmocka_unit_test(test_zero_size),     cmocka_unit_test(test_wrap),
		cmocka_unit_test(test_physical),      cmocka_unit_test(test_late_free),
		cmocka_unit_test(test_threads),	      cmocka_unit_test(test_contexts),
		cmocka_unit_test(test_many_contexts), cmocka_unit_test(test_mapped),
		cmocka_unit_test(test_located),	      cmocka_unit_test(test_opened),
		cmocka_unit_test(test_random),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
