/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Preloaded, a strict allocator: each block ends at an inaccessible page, and a freed block is
 * unmapped. If a signal handler enters it while the same thread is in it, the program ends.
 */
#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE 4096ul

static __thread int inside __attribute__((tls_model("initial-exec")));

static void *block(size_t size, size_t align)
{
	size_t room = (size + 4 * sizeof(size_t) + align + PAGE - 1) & -PAGE;
	uint8_t *p;
	size_t *head;

	if (inside++)
		abort();
	/* Long enough for a signal to arrive. */
	sched_yield();
	p = mmap(NULL, room + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	mprotect(p + room, PAGE, PROT_NONE);
	head = (size_t *)(((uintptr_t)p + room - size) & -align) - 4;
	if (p == MAP_FAILED || (uint8_t *)head < p)
		abort();
	head[0] = (size_t)p;
	head[1] = room + PAGE;
	head[2] = size;
	inside--;
	return head + 4;
}

void *malloc(size_t size)
{
	return block(size, 16);
}

void free(void *at)
{
	size_t *head = (size_t *)at - 4;

	if (at)
		munmap((void *)head[0], head[1]);
}

void *calloc(size_t n, size_t size)
{
	return block(n * size, 16);
}

void *realloc(void *at, size_t size)
{
	void *to = block(size, 16);
	size_t had = at ? ((size_t *)at)[-2] : 0;

	memcpy(to, at, had < size ? had : size);
	free(at);
	return to;
}

int posix_memalign(void **to, size_t align, size_t size)
{
	*to = block(size, align < 16 ? 16 : align);
	return 0;
}

void *aligned_alloc(size_t align, size_t size)
{
	return block(size, align < 16 ? 16 : align);
}

void *memalign(size_t align, size_t size)
{
	return block(size, align < 16 ? 16 : align);
}
