/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* /tmp/perf-PID.map: a program's text about its own code, which it may change while it is read. */
#include "fuzz.h"

#include <assert.h>

#include "model/perf_map.c" /* its file is opened by the reading process; here it is passed directly */

/* The file so far. It is in memory, because the kernel took three quarters of a run's time. */
static struct {
	const uint8_t *data;
	size_t size, at;
} map;

static ssize_t map_read(void *ctx, char *buf, size_t size)
{
	size_t left = map.size > map.at ? map.size - map.at : 0;

	size = size < left ? size : left;
	memcpy(buf, map.data + map.at, size);
	map.at += size;
	return size;
}

static int map_seek(void *ctx, off64_t *to, int whence)
{
	*to += whence == SEEK_CUR ? map.at : whence == SEEK_END ? map.size : 0;
	if (*to < 0)
		return -1;
	map.at = *to;
	return 0;
}

static FILE *open_map(void)
{
	return fopencookie(NULL, "r", (cookie_io_functions_t){.read = map_read, .seek = map_seek});
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
	static FILE *file;
	struct perf_map *m;

	if (!file)
		file = open_map();
	m = perf_map__new(1, NULL);
	assert(file && m);
	map.data = data;
	map.size = half;
	rewind(file);
	m->f = file;
	find(m, 0x1000);
	/* The program appends to it. */
	map.size = size;
	find(m, 0x1000);
	find(m, 0xffffffffffffffff);
	find(m, 0);
	m->f = NULL;
	perf_map__free(m);
	return 0;
}
