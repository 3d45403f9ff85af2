// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* /tmp/perf-PID.map: a program's own text about its own code, which it may change as it is read. */
#include "fuzz.h"

#include <assert.h>
#include <sys/mman.h>

#include "model/perf_map.c" /* its file is opened by the reading process; here it is there */

static FILE *file;

static void put(const uint8_t *data, size_t size, off_t at)
{
	assert(pwrite(fileno(file), data, size, at) == (ssize_t)size);
}

static void find(struct perf_map *m, uint64_t addr)
{
	const char *name;
	uint64_t start;

	name = perf_map__find(m, addr, &start);
	assert(!name || (*name && start <= addr));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t half = size ? data[0] * size / 256 : 0;
	struct perf_map *m;

	if (!file)
		file = fdopen(memfd_create("map", MFD_CLOEXEC), "r+");
	m = perf_map__new(getpid(), NULL);
	assert(file && m && !ftruncate(fileno(file), 0));
	rewind(file);
	m->f = file;
	put(data, half, 0);
	find(m, 0x1000);
	/* The program has added to it. */
	put(data + half, size - half, half);
	find(m, 0x1000);
	find(m, 0xffffffffffffffff);
	find(m, 0);
	m->f = NULL;
	perf_map__free(m);
	return 0;
}
