/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the BPF programs send, through their rings. */
#include "source.h"
#include "tracer.h"

#include "event/ring.h"

#include <errno.h>

struct source_bpf {
	struct source s;
	struct attach *att;
	struct ring *ring;
	bool measuring; /* records are those of our own stub */
};

static void on_record(void *ctx, const void *rec, size_t size)
{
	struct source_bpf *b = ctx;

	if (!b->measuring)
		source__give(&b->s, rec, size);
}

static int bpf_open(struct source *s, struct tracer *t)
{
	struct source_bpf *b = (void *)s;
	const int *fds;
	unsigned cnt;
	size_t size;

	b->att = t->att;
	fds = attach__ring_fds(b->att, &cnt, &size);
	b->ring = ring__open(fds, cnt, size, on_record, b);
	if (!b->ring)
		return -ENOMEM;
	b->measuring = true;
	attach__measure_cost(b->att, t->o.measure_entries, &t->cost);
	while (ring__drain(b->ring, SIZE_MAX))
		;
	b->measuring = false;
	return 0;
}

static int bpf_fd(const struct source *s)
{
	return ring__fd(((const struct source_bpf *)s)->ring);
}

static bool bpf_look(struct source *s, uint64_t now)
{
	struct ring *r = ((struct source_bpf *)s)->ring;
	bool whole = ring__look(r, now);

	s->next_ns = ring__next_ns(r);
	return whole;
}

static size_t bpf_take(struct source *s, size_t max, uint64_t until)
{
	struct ring *r = ((struct source_bpf *)s)->ring;
	size_t cnt = ring__take(r, max, until);

	s->next_ns = ring__next_ns(r);
	return cnt;
}

static bool bpf_was_full(struct source *s)
{
	return ring__was_full(((struct source_bpf *)s)->ring);
}

static void bpf_totals(struct source *s, struct ct_totals *sum)
{
	attach__totals(((struct source_bpf *)s)->att, sum);
}

static void bpf_unfinished(struct source *s)
{
	attach__unfinished(((struct source_bpf *)s)->att, on_record, s);
}

static int bpf_set_level(struct source *s, unsigned func_id, const struct fn_level *l)
{
	return levels__set_fn(((struct source_bpf *)s)->att, func_id, l);
}

static void bpf_close(struct source *s)
{
	ring__free(((struct source_bpf *)s)->ring);
}

const struct source_ops bpf_source_ops = {
	.size = sizeof(struct source_bpf),
	.name = "ring",
	.why = "more came than was read; a larger --buffer-size or fewer functions (-e) help",
	.open = bpf_open,
	.fd = bpf_fd,
	.look = bpf_look,
	.take = bpf_take,
	.was_full = bpf_was_full,
	.totals = bpf_totals,
	.unfinished = bpf_unfinished,
	.set_level = bpf_set_level,
	.close = bpf_close,
};
