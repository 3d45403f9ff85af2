/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "quota.h"

#include <inttypes.h>
#include <stdlib.h>

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#include "log.h"

#define MIB (1ull << 20)

/* Size of a row, measured by tests/unit/test_quota.c for tables that can be filled there. */
#define ROW_SZ	      112
#define PROC_SZ	      528
#define THREAD_SZ     144
#define CAPTURE_SZ    32
#define DESCRIPTOR_SZ 192
#define LIBRARY_SZ    98304 /* when the kernel has refused 2,000 of its functions */
#define FUNCTION_SZ   512   /* including its name */
#define STACK_SZ      2	    /* entries of its frames and of itself in hash tables */

/* All limits; docs/LIMITS.md explains them to users. A PyTorch process has some 10,000 kernels
 * (names of 1 KiB), 5,000 ranges, 100 threads. */
static const struct {
	const char *name, *what, *beyond;
	uint64_t max, share;
	unsigned row_sz;
	enum { OF_ALL, OF_STACKS, OF_DRIVER, OF_ASKED } of;
} tables[QUOTA_CNT] = {
	[QUOTA_PROCESSES] = {"processes", "processes", "the oldest entry is evicted", 65536, 65536,
			     PROC_SZ, OF_ALL},
	[QUOTA_THREADS] = {"threads", "thread names",
			   "the oldest entry is evicted, and read again when needed", 65536, 16384,
			   THREAD_SZ, OF_ALL},
	[QUOTA_NAMES] = {"kernel_names", "kernel names",
			 "lookups have mangled names, launches only handles", 32 * MIB, 16 * MIB, 1,
			 OF_ALL},
	[QUOTA_HANDLES] = {"kernel_handles", "kernel handles", "launches have no names", 262144,
			   65536, ROW_SZ, OF_ALL},
	[QUOTA_RANGES] = {"memory_ranges", "live allocations",
			  "bytes are counted, directions and sizes of frees are unknown", 262144,
			  131072, ROW_SZ, OF_ALL},
	[QUOTA_CAPTURES] = {"captures", "streams and events of graph captures",
			    "captured work of further ones is shown as executed", 131072, 4096,
			    CAPTURE_SZ, OF_ALL},
	[QUOTA_COMMS] = {"communicators", "NCCL communicators",
			 "collectives on further ones have neither rank nor number", 16384, 4096,
			 THREAD_SZ, OF_ALL},
	[QUOTA_DESCRIPTORS] = {"descriptors", "cuDNN descriptors",
			       "plans made from further ones are not annotated", 65536, 32768,
			       DESCRIPTOR_SZ, OF_ASKED},
	[QUOTA_STACKS] = {"stacks", "stacks", "they are defined again, or dropped", 128 * MIB,
			  32 * MIB, STACK_SZ, OF_STACKS},
	[QUOTA_PERF_MAPS] = {"perf_maps", "names of generated code", "further code has no names",
			     128 * MIB, 32 * MIB, 1, OF_STACKS},
	[QUOTA_PATHS] = {"module_paths", "mappings and their paths", "further ones are unknown",
			 64 * MIB, 16 * MIB, 2, OF_STACKS},
	[QUOTA_SYMBOLS] = {"module_symbols", "symbols of modules",
			   "further modules have no symbols", 256 * MIB, 64 * MIB, 1, OF_STACKS},
	[QUOTA_LIBRARIES] = {"libraries", "libcuda files",
			     "calls into further files are not traced", 128, 32, LIBRARY_SZ,
			     OF_ALL},
	[QUOTA_LIB_KEYS] = {"library_keys", "second device numbers of libcuda files",
			    "the oldest entry of the user is evicted, and reported again", 1024, 32,
			    ROW_SZ, OF_ALL},
	[QUOTA_FUNCTIONS] = {"functions", "exports that are not in cudatrace's table",
			     "calls of further ones are not traced", 2048, 256, FUNCTION_SZ,
			     OF_ALL},
	[QUOTA_LABELS] = {"process_labels", "processes that use CUDA",
			  "calls of further ones are counted as (others)", 65536, 65536,
			  QUOTA_LABELS_SZ, OF_ALL},
	[QUOTA_OBJECTS] = {"driver_objects", "driver objects",
			   "commands about further ones have no class", 65536, 16384, ROW_SZ,
			   OF_DRIVER},
	[QUOTA_ITERATIONS] = {"iterations", "threads with iterations",
			      "the oldest thread of the process has none until its next", 4096,
			      1024, 2 * ROW_SZ, OF_ALL},
	[QUOTA_NVTX] = {"nvtx", "NVTX texts and open ranges",
			"further ranges have no names, or are dropped", 8 * MIB, 4 * MIB, 1,
			OF_ASKED},
};

void quotas__init(struct quotas *q, bool stacks, bool driver)
{
	for (int i = 0; i < QUOTA_CNT; i++) {
		q->of[i] =
			(struct quota){.table = i, .max = tables[i].max, .share = tables[i].share};
		if ((tables[i].of == OF_STACKS && !stacks) ||
		    (tables[i].of == OF_DRIVER && !driver) || tables[i].of == OF_ASKED)
			q->of[i].max = 0;
	}
}

void quotas__with_stacks(struct quotas *q)
{
	for (int i = 0; i < QUOTA_CNT; i++)
		if (tables[i].of == OF_STACKS)
			q->of[i].max = tables[i].max;
}

void quotas__with(struct quotas *q, enum quota_table t)
{
	q->of[t].max = tables[t].max;
}

uint64_t quota_row_sz(enum quota_table t)
{
	return tables[t].row_sz;
}

uint64_t quotas__most(const struct quotas *q)
{
	uint64_t sum = 0;

	for (int i = 0; i < QUOTA_CNT; i++)
		sum += q->of[i].max * tables[i].row_sz;
	return sum;
}

const char *quota_name(enum quota_table t)
{
	return tables[t].name;
}

const char *quota_text(enum quota_table t)
{
	return tables[t].what;
}

void quota__full(struct quota *q)
{
	if (!q || q->full_cnt++)
		return;
	warn("too many %s (limit %" PRIu64 ", %" PRIu64
	     " per owner): %s; further ones are only counted",
	     tables[q->table].what, q->max, q->share, tables[q->table].beyond);
}

void quota__force(struct quota *q, struct quota_share *s, uint64_t n)
{
	if (!q)
		return;
	q->used += n;
	if (s)
		s->used += n;
}

bool quota__take(struct quota *q, struct quota_share *s, uint64_t n)
{
	uint64_t left = q && q->max > q->used ? q->max - q->used : 0, mine = s ? s->used : 0;

	/* At most what is left for others: see quota.h. */
	if (q && (n > left || (s && (mine + n > q->share || mine + n > left - n)))) {
		quota__full(q);
		return false;
	}
	quota__force(q, s, n);
	return true;
}

void quota__give(struct quota *q, struct quota_share *s, uint64_t n)
{
	if (!q)
		return;
	q->used -= n;
	if (s)
		s->used -= n;
}

struct quota_owner {
	uint32_t id;
	struct quota_share share;
	UT_hash_handle hh;
};

static void drop_owner(struct quota_owners *os, struct quota_owner *o)
{
	if (o->share.used)
		return;
	HASH_DEL(os->by_id, o);
	free(o);
}

bool quota_owners__take(struct quota_owners *os, struct quota *q, uint32_t id, uint64_t n)
{
	struct quota_owner *o;
	bool taken;

	HASH_FIND(hh, os->by_id, &id, sizeof(id), o);
	if (!o) {
		o = calloc(1, sizeof(*o));
		if (!o)
			return false;
		o->id = id;
		HASH_ADD(hh, os->by_id, id, sizeof(o->id), o);
	}
	taken = quota__take(q, &o->share, n);
	drop_owner(os, o);
	return taken;
}

void quota_owners__give(struct quota_owners *os, struct quota *q, uint32_t id, uint64_t n)
{
	struct quota_owner *o;

	HASH_FIND(hh, os->by_id, &id, sizeof(id), o);
	quota__give(q, o ? &o->share : NULL, n);
	if (o)
		drop_owner(os, o);
}

uint64_t quota_owners__used(const struct quota_owners *os, uint32_t id)
{
	struct quota_owner *o;

	HASH_FIND(hh, os->by_id, &id, sizeof(id), o);
	return o ? o->share.used : 0;
}
