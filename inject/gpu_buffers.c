/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Buffers that CUPTI fills with activity records, in any thread, and that our thread reads. */
#include "gpu_priv.h"

#include <sys/mman.h>

/* Size of a buffer: 500,000 kernels per second fill one in 10 ms. With CUPTI 13 each thread has
 * one. */
#define BUF_SZ	   (1u << 20)
#define BUFS_BEGIN 8
#define BUFS_MAX   64
#define DISCARD_SZ (256u << 10)

static struct {
	uint8_t *bufs[BUFS_MAX];
	size_t valid[BUFS_MAX];
	uint64_t free, full; /* a bit each */
	uint32_t cnt, requested, completed;
	uint64_t discarded, dropped;
} of;
static const struct cupti *functions;
static uint8_t discard[DISCARD_SZ] __attribute__((aligned(64)));

static uint8_t *buf_map(int flags)
{
	return sys_map(BUF_SZ, flags);
}

static uint8_t *buf_new(void)
{
	uint32_t i = __atomic_load_n(&of.cnt, __ATOMIC_RELAXED);

	do
		if (i == BUFS_MAX)
			return NULL;
	while (!__atomic_compare_exchange_n(&of.cnt, &i, i + 1, false, __ATOMIC_ACQ_REL,
					    __ATOMIC_RELAXED));
	return of.bufs[i] = buf_map(0);
}

void gpu_buffer_request(uint8_t **buf, size_t *size, size_t *max)
{
	uint64_t free = __atomic_load_n(&of.free, __ATOMIC_ACQUIRE);

	__atomic_fetch_add(&of.requested, 1, __ATOMIC_RELAXED);
	*max = 0;
	*size = BUF_SZ;
	while (free) {
		int i = __builtin_ctzll(free);

		if (!__atomic_compare_exchange_n(&of.free, &free, free & ~(1ull << i), false,
						 __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
			continue;
		*buf = of.bufs[i];
		return;
	}
	*buf = buf_new();
	if (*buf)
		return;
	/* Never NULL: CUPTI before 12.9 crashed on it (Kineto). */
	*buf = discard;
	*size = sizeof(discard);
}

void gpu_buffer_complete(void *ctx, uint32_t stream, uint8_t *buf, size_t size, size_t valid)
{
	size_t dropped = 0;

	__atomic_fetch_add(&of.completed, 1, __ATOMIC_RELAXED);
	if (functions->ActivityGetNumDroppedRecords &&
	    !functions->ActivityGetNumDroppedRecords(ctx, stream, &dropped))
		__atomic_fetch_add(&of.dropped, dropped, __ATOMIC_RELAXED);
	if (buf == discard) {
		__atomic_fetch_add(&of.discarded, valid, __ATOMIC_RELAXED);
		return;
	}
	for (unsigned i = 0; i < BUFS_MAX; i++) {
		if (of.bufs[i] != buf)
			continue;
		of.valid[i] = valid < size ? valid : size;
		__atomic_fetch_or(&of.full, 1ull << i, __ATOMIC_RELEASE);
		gpu_ring_bell();
		return;
	}
}

bool gpu_buffers_are_out(void)
{
	return of.requested != of.completed;
}

void gpu_buffers_take(void (*fn)(void *arg, const uint8_t *record), void *arg)
{
	uint64_t full = __atomic_exchange_n(&of.full, 0, __ATOMIC_ACQUIRE);

	for (; full; full &= full - 1) {
		int i = __builtin_ctzll(full);
		uint8_t *at = NULL;

		while (of.valid[i] &&
		       !functions->ActivityGetNextRecord(of.bufs[i], of.valid[i], &at))
			fn(arg, at);
		__atomic_fetch_or(&of.free, 1ull << i, __ATOMIC_RELEASE);
	}
}

void gpu_buffers_losses(struct ct_shm_gpu *to)
{
	to->dropped = __atomic_load_n(&of.dropped, __ATOMIC_RELAXED);
	to->discarded = __atomic_load_n(&of.discarded, __ATOMIC_RELAXED);
}

void gpu_buffers_reset(uint64_t dropped, uint64_t discarded)
{
	uint64_t all = of.cnt < 64 ? (1ull << of.cnt) - 1 : ~0ull;

	__atomic_or_fetch(&of.free, __atomic_exchange_n(&of.full, 0, __ATOMIC_ACQ_REL) & all,
			  __ATOMIC_ACQ_REL);
	of.dropped = dropped;
	of.discarded = discarded;
}

bool gpu_buffers_setup(const struct cupti *c)
{
	functions = c;
	for (unsigned i = 0; i < BUFS_BEGIN; i++) {
		of.bufs[i] = buf_map(MAP_POPULATE);
		if (!of.bufs[i])
			return false;
		of.cnt = i + 1;
		of.free |= 1ull << i;
	}
	return true;
}
