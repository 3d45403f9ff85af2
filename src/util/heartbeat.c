/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "heartbeat.h"

#include <errno.h>
#include <stddef.h>
#include <sys/mman.h>

static struct shared {
	uint64_t beats, acts;
} * shared;
static uint64_t acts_seen;

int heartbeat__start(void)
{
	void *p = shared;

	if (!p)
		p = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
			 -1, 0);
	if (p == MAP_FAILED)
		return -errno;
	shared = p;
	return 0;
}

void heartbeat__beat(void)
{
	if (shared)
		__atomic_fetch_add(&shared->beats, 1, __ATOMIC_RELAXED);
}

uint64_t heartbeat__cnt(void)
{
	return shared ? __atomic_load_n(&shared->beats, __ATOMIC_RELAXED) : 0;
}

void heartbeat__act(void)
{
	if (shared)
		__atomic_fetch_add(&shared->acts, 1, __ATOMIC_RELEASE);
}

bool heartbeat__has_acted(void)
{
	uint64_t acts = shared ? __atomic_load_n(&shared->acts, __ATOMIC_ACQUIRE) : 0;
	bool has = acts != acts_seen;

	acts_seen = acts;
	return has;
}
