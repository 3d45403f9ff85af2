/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "ring.h"

#include "util/log.h"

#include <bpf/libbpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct ring {
	struct ring_buffer *rb;
	ring_fn fn;
	void *ctx;
	size_t left, seen;
	bool was_full;
};

/* libbpf goes on as long as records come in: a producer faster than we are would keep us here for
 * ever. A negative value ends it after this record, which counts as consumed. */
static int on_sample(void *ctx, void *data, size_t size)
{
	struct ring *r = ctx;

	r->fn(r->ctx, data, size);
	r->seen++;
	return --r->left ? 0 : -EAGAIN;
}

struct ring *ring__open(int map_fd, ring_fn fn, void *ctx)
{
	struct ring *r = calloc(1, sizeof(*r));

	if (!r) {
		err("out of memory");
		return NULL;
	}
	r->fn = fn;
	r->ctx = ctx;
	r->rb = ring_buffer__new(map_fd, on_sample, r, NULL);
	if (!r->rb) {
		err("cannot map the ring buffer: %s: try a smaller --buffer-size", strerror(errno));
		free(r);
		return NULL;
	}
	return r;
}

void ring__free(struct ring *r)
{
	if (!r)
		return;
	ring_buffer__free(r->rb);
	free(r);
}

int ring__fd(const struct ring *r)
{
	return ring_buffer__epoll_fd(r->rb);
}

/* No record is longer than a page. */
static void note_full(struct ring *r)
{
	const struct ring *lib = ring_buffer__ring(r->rb, 0);

	if (ring__avail_data_size(lib) + 4096 > ring__size(lib))
		r->was_full = true;
}

bool ring__was_full(struct ring *r)
{
	bool was = r->was_full;

	r->was_full = false;
	return was;
}

size_t ring__drain(struct ring *r, size_t max)
{
	r->left = max;
	r->seen = 0;
	if (!max)
		return 0;
	note_full(r);
	ring_buffer__consume(r->rb);
	/* It may have filled up meanwhile. */
	if (r->seen == max)
		r->was_full = true;
	return r->seen;
}
