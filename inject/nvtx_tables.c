/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * NVTX in a program that already runs. NVTX 3 consists of headers. Each program or library that
 * includes them has a structure of function pointers. It has looked for a tool at its first call,
 * found none, and set the pointers to NULL. The code below finds these structures in the data of
 * objects, and sets the pointers. The layout is that of NVTX 3.0 to 3.2.
 *
 * Libraries that export NVTX's functions have probes on them instead.
 */
#include "inject.h"

#include <limits.h>
#include <string.h>
#include <sys/uio.h>

#define CORE_CNT    15
#define CORE2_FIRST 43 /* after those of CUDA, OpenCL and the runtime API */
#define POINTER_CNT 64
#define TABLES_MAX  64
#define RANGES_MAX  4096
#define CHUNK_SZ    65536

#define COMPLETE 2 /* it has looked for a tool */

struct globals {
	uint32_t state, padding;
	size_t callbacks_sz; /* 16 */
	void *callbacks;
	size_t version_sz; /* 24 */
	uint32_t version, reserved;
	void *set_version;
	void *pointers[POINTER_CNT];
	void **core[CORE_CNT + 2]; /* the addresses of the first ones, between NULLs */
};
_Static_assert(sizeof(struct globals) == 48 + (POINTER_CNT + CORE_CNT + 2) * 8, "nvtxGlobals");

/* What the hooked functions return to the program. Handles and ids must differ. */
static int no_level(void)
{
	return -2; /* NVTX_NO_PUSH_POP_TRACKING */
}

static uint64_t new_number(void)
{
	static uint64_t last;

	return __atomic_add_fetch(&last, 1, __ATOMIC_RELAXED);
}

static const struct {
	const char *name;
	uint32_t at; /* in globals.pointers */
	void *real;
} funcs[] = {
#define CORE(n)	 ((n)-1)
#define CORE2(n) (CORE2_FIRST + (n)-1)
	{"nvtxMarkEx", CORE(1), no_level},
	{"nvtxMarkA", CORE(2), no_level},
	{"nvtxRangeStartEx", CORE(4), new_number},
	{"nvtxRangeStartA", CORE(5), new_number},
	{"nvtxRangeEnd", CORE(7), no_level},
	{"nvtxRangePushEx", CORE(8), no_level},
	{"nvtxRangePushA", CORE(9), no_level},
	{"nvtxRangePop", CORE(11), no_level},
	{"nvtxNameCategoryA", CORE(12), no_level},
	{"nvtxDomainMarkEx", CORE2(1), no_level},
	{"nvtxDomainRangeStartEx", CORE2(2), new_number},
	{"nvtxDomainRangeEnd", CORE2(3), no_level},
	{"nvtxDomainRangePushEx", CORE2(4), no_level},
	{"nvtxDomainRangePop", CORE2(5), no_level},
	{"nvtxDomainNameCategoryA", CORE2(8), no_level},
	{"nvtxDomainRegisterStringA", CORE2(10), new_number},
	{"nvtxDomainCreateA", CORE2(12), new_number},
	{"nvtxDomainDestroy", CORE2(14), no_level},
};
#define FUNC_CNT (sizeof(funcs) / sizeof(*funcs))

static struct globals *tables[TABLES_MAX];
static unsigned table_cnt;
static void *thunks[FUNC_CNT]; /* NULL: not to be hooked */

/* Data that files initialise. */
static struct range {
	uintptr_t lo, hi;
} ranges[RANGES_MAX];
static unsigned range_cnt;

static bool add_ranges(const struct object *o, void *arg)
{
	if (object_symbol(o, "nvtxRangePushA"))
		return false;
	for (unsigned i = 0; i < o->part_cnt && range_cnt < RANGES_MAX; i++) {
		struct range r = {(o->parts[i].lo + 7) & -8ull, o->parts[i].filled};

		if (r.lo < o->relro_hi && r.hi > o->relro_lo)
			r.lo = o->relro_hi;
		if (o->parts[i].write && r.lo < r.hi)
			ranges[range_cnt++] = r;
	}
	return false;
}

/* g: a copy of what is at this address. */
static bool is_table(const struct globals *g, struct globals *at)
{
	if (g->callbacks_sz != 16 || g->version_sz != 24 || g->state != COMPLETE || g->reserved ||
	    g->core[0] || g->core[CORE_CNT + 1])
		return false;
	for (unsigned i = 0; i < CORE_CNT; i++)
		if (g->core[i + 1] != &at->pointers[i])
			return false;
	return true;
}

/* By the kernel: the program may have unmapped a part, or the whole object. */
static bool copy(void *to, uintptr_t from, size_t size)
{
	struct iovec here = {to, size}, there = {(void *)from, size};

	return kernel_copy(&here, 1, &there, 1) == (long)size;
}

struct place {
	const struct globals *at;
	char path[PATH_MAX];
};

static bool place_of(const struct object *o, void *arg)
{
	struct place *p = arg;
	size_t len = strlen(o->path);

	if (!object_has(o, p->at, false, true) || len >= sizeof(p->path) ||
	    !object_has(o, p->at->callbacks, true, false) ||
	    !object_has(o, p->at->set_version, true, false))
		return false;
	memcpy(p->path, o->path, len + 1);
	return true;
}

/* Returns whether it is a table that stays. Programs themselves have no path. */
static bool keep(struct globals *at)
{
	struct place p = {.at = at};
	struct globals now;

	return objects_each(place_of, &p) && (!p.path[0] || hook_pin(p.path)) &&
	       copy(&now, (uintptr_t)at, sizeof(now)) && is_table(&now, at);
}

/* Another tool's pointers stay. to: NULL at the end. */
static void set_pointer(void **at, void *to)
{
	void *now = __atomic_load_n(at, __ATOMIC_RELAXED);

	if (now != to && (!now || is_thunk(now)))
		__atomic_compare_exchange_n(at, &now, to, false, __ATOMIC_RELEASE,
					    __ATOMIC_RELAXED);
}

static void set_pointers(struct globals *g)
{
	for (unsigned i = 0; i < FUNC_CNT; i++)
		set_pointer(&g->pointers[funcs[i].at], thunks[i]);
}

static bool is_known(const struct globals *at)
{
	for (unsigned i = 0; i < table_cnt; i++)
		if (tables[i] == at)
			return true;
	return false;
}

static void look_at(struct globals *at)
{
	if (is_known(at) || table_cnt == TABLES_MAX || !keep(at))
		return;
	tables[table_cnt++] = at;
	set_pointers(at);
}

static void look_in(const struct range *r)
{
	static uint8_t bytes[CHUNK_SZ + sizeof(struct globals)];

	for (uintptr_t lo = r->lo; lo + sizeof(struct globals) <= r->hi; lo += CHUNK_SZ) {
		size_t size = r->hi - lo < sizeof(bytes) ? r->hi - lo : sizeof(bytes);

		if (!copy(bytes, lo, size))
			continue;
		for (size_t i = 0; i < CHUNK_SZ && i + sizeof(struct globals) <= size; i += 8)
			if (is_table((const struct globals *)(bytes + i),
				     (struct globals *)(lo + i)))
				look_at((struct globals *)(lo + i));
	}
}

void nvtx_tables_hook(const struct ct_shm_set *set)
{
	bool is_wanted = false;

	for (unsigned i = 0; i < FUNC_CNT; i++) {
		thunks[i] = hook_alone(set, funcs[i].name, funcs[i].real);
		is_wanted |= thunks[i] != NULL;
	}
	/* A tracer that was killed has left its own. */
	for (unsigned i = 0; i < table_cnt; i++)
		set_pointers(tables[i]);
	if (!is_wanted)
		return;
	/* Other threads may wait for the loader's lock, so nothing is read meanwhile. */
	range_cnt = 0;
	objects_each(add_ranges, NULL);
	for (unsigned i = 0; i < range_cnt; i++)
		look_in(&ranges[i]);
}

void nvtx_tables_unhook(void)
{
	for (unsigned k = 0; k < table_cnt; k++)
		for (unsigned i = 0; i < FUNC_CNT; i++)
			set_pointer(&tables[k]->pointers[funcs[i].at], NULL);
}
