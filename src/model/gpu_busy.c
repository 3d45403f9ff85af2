/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "gpu_busy.h"

#include "event.h"

#include <stdlib.h>
#include <string.h>

#define BIN_NS 10000

const uint64_t gpu_gap_below[GPU_GAP_CLASSES] = {10000, 100000, 1000000, 10000000, UINT64_MAX};

bool gpu_busy__init(struct gpu_busy *b)
{
	b->kept = malloc(GPU_KEPT * sizeof(*b->kept));
	b->busy = calloc(GPU_BINS, sizeof(*b->busy));
	b->bin_ns = BIN_NS;
	return b->kept && b->busy;
}

void gpu_busy__free(struct gpu_busy *b)
{
	free(b->kept);
	free(b->busy);
}

/* Twice as long, half as many, until that moment has one. */
static void stretch(struct gpu_busy *b, uint64_t ns)
{
	while ((ns - b->origin) / b->bin_ns >= GPU_BINS) {
		for (unsigned i = 0; i < GPU_BINS / 2; i++)
			b->busy[i] = b->busy[2 * i] + b->busy[2 * i + 1];
		memset(b->busy + GPU_BINS / 2, 0, GPU_BINS / 2 * sizeof(*b->busy));
		b->bin_ns *= 2;
	}
}

static void fill(struct gpu_busy *b, uint64_t from, uint64_t to)
{
	stretch(b, to);
	from -= b->origin;
	to -= b->origin;
	while (from < to) {
		uint64_t i = from / b->bin_ns, next = (i + 1) * b->bin_ns;

		/* The last bin may end where 64 bits do. */
		if (next > to || next <= from)
			next = to;
		b->busy[i] += next - from;
		from = next;
	}
}

static void note_gap(struct gpu_busy *b, uint64_t from, uint64_t ns)
{
	unsigned i = 0;

	while (ns >= gpu_gap_below[i] && i < GPU_GAP_CLASSES - 1)
		i++;
	b->gaps[i].cnt++;
	b->gaps[i].ns += ns;
	if (ns <= b->longest_gap)
		return;
	b->longest_gap = ns;
	b->longest_gap_at = from;
}

/* Covers it, after all that began before; how much of it was not covered, from which moment on. */
static uint64_t cover(struct gpu_union *u, uint64_t start, uint64_t end, uint64_t *from)
{
	*from = start > u->end ? start : u->end;
	if (end <= *from)
		return 0;
	u->total += end - *from;
	u->end = end;
	return end - *from;
}

static void settle(struct gpu_busy *b, const struct gpu_span *s)
{
	struct gpu_union *any = &b->parts[GPU_ANY];
	uint64_t before = any->end, idle = 0, from, ns;

	cover(&b->parts[s->copies ? GPU_COPYING : GPU_COMPUTE], s->start, s->end, &from);
	if (!before)
		b->first = b->origin = s->start;
	else if (s->start > before)
		idle = s->start - before;
	if (idle)
		note_gap(b, before, idle);
	ns = cover(any, s->start, s->end, &from);
	if (ns)
		fill(b, from, from + ns);
	if (b->settled_fn)
		b->settled_fn(b->ctx, s->owner, idle, ns);
}

static int by_start(const void *a, const void *b)
{
	const struct gpu_span *x = a, *y = b;

	return x->start < y->start ? -1 : x->start > y->start;
}

static void settle_first(struct gpu_busy *b, unsigned cnt)
{
	qsort(b->kept, b->cnt, sizeof(*b->kept), by_start);
	for (unsigned i = 0; i < cnt; i++)
		settle(b, &b->kept[i]);
	if (cnt)
		b->settled = b->kept[cnt - 1].start;
	b->cnt -= cnt;
	memmove(b->kept, b->kept + cnt, b->cnt * sizeof(*b->kept));
}

void gpu_busy__add_of(struct gpu_busy *b, uint64_t start, uint64_t end, bool copies,
		      struct gpu_owner owner)
{
	b->late_cnt += start < b->settled;
	if (end > b->last)
		b->last = end;
	b->kept[b->cnt++] = (struct gpu_span){start, end, owner, copies};
	if (b->cnt == GPU_KEPT)
		settle_first(b, GPU_KEPT / 2);
}

void gpu_busy__finish(struct gpu_busy *b)
{
	settle_first(b, b->cnt);
}

uint64_t gpu_busy__overlap(const struct gpu_busy *b)
{
	return b->parts[GPU_COMPUTE].total + b->parts[GPU_COPYING].total - b->parts[GPU_ANY].total;
}

double gpu_busy__between(const struct gpu_busy *b, uint64_t from, uint64_t to)
{
	double sum = 0;

	from = from > b->origin ? from - b->origin : 0;
	to = to > b->origin ? to - b->origin : 0;
	for (uint64_t i = from / b->bin_ns; i < GPU_BINS && i * b->bin_ns < to; i++) {
		uint64_t lo = i * b->bin_ns, hi = lo + (b->bin_ns - 1);
		uint64_t cut_lo = from > lo ? from : lo, cut_hi = to - 1 < hi ? to - 1 : hi;

		sum += (double)b->busy[i] * (cut_hi - cut_lo + 1.0) / b->bin_ns;
	}
	return sum;
}

struct gpu_device *gpu_devices__get(struct gpu_devices *ds, uint32_t number)
{
	struct gpu_device *d;

	for (unsigned i = 0; i < ds->cnt; i++)
		if (ds->of[i]->number == number)
			return ds->of[i];
	d = ds->cnt < GPU_DEVICES_MAX ? calloc(1, sizeof(*d)) : NULL;
	if (!d)
		return NULL;
	d->number = number;
	if (!gpu_busy__init(&d->busy)) {
		gpu_busy__free(&d->busy);
		free(d);
		return NULL;
	}
	d->busy.settled_fn = ds->settled_fn;
	d->busy.ctx = ds->ctx;
	return ds->of[ds->cnt++] = d;
}

bool gpu_devices__event(struct gpu_devices *ds, const struct trace_event *ev)
{
	struct gpu_device *d = gpu_devices__get(ds, ev->gpu.device);

	if (!d)
		return false;
	d->executions++;
	gpu_busy__add(&d->busy, ev->start_ns, ev->end_ns, ev->op[0] == 'c' || ev->op[0] == 'm');
	return true;
}

void gpu_devices__finish(struct gpu_devices *ds)
{
	for (unsigned i = 0; i < ds->cnt; i++)
		gpu_busy__finish(&ds->of[i]->busy);
}

void gpu_devices__free(struct gpu_devices *ds)
{
	for (unsigned i = 0; i < ds->cnt; i++) {
		gpu_busy__free(&ds->of[i]->busy);
		free(ds->of[i]);
	}
}

uint64_t gpu_device__span(const struct gpu_device *d)
{
	return d->busy.last - d->busy.first;
}

uint64_t gpu_device__idle(const struct gpu_device *d)
{
	return gpu_device__span(d) - d->busy.parts[GPU_ANY].total;
}
