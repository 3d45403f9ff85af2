/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "gpu_busy.h"

#include "event.h"
#include "util/law.h"

#include <stdlib.h>
#include <string.h>

#define BIN_NS 1000

const uint64_t gpu_gap_below[GPU_GAP_CLASSES] = {10000, 100000, 1000000, 10000000, UINT64_MAX};

bool gpu_busy__init(struct gpu_busy *b)
{
	b->kept = malloc(GPU_KEPT * sizeof(*b->kept));
	b->bin_ns = BIN_NS;
	b->parts[GPU_ANY].bins = calloc(GPU_BINS, sizeof(uint64_t));
	return b->kept && b->parts[GPU_ANY].bins;
}

/* Most devices never run collectives, so these two parts have bins only from the first collective
 * on. Before it, all work belongs to GPU_ELSE. */
static void begin_communicating(struct gpu_busy *b)
{
	struct gpu_union *comm = &b->parts[GPU_COMMUNICATING], *other = &b->parts[GPU_ELSE];

	comm->bins = calloc(GPU_BINS, sizeof(*comm->bins));
	other->bins = malloc(GPU_BINS * sizeof(*other->bins));
	if (other->bins)
		memcpy(other->bins, b->parts[GPU_ANY].bins, GPU_BINS * sizeof(*other->bins));
}

/* Until the first copy all was computing. */
static void begin_copying(struct gpu_busy *b)
{
	struct gpu_union *compute = &b->parts[GPU_COMPUTE];

	b->has_copies = true;
	compute->bins = malloc(GPU_BINS * sizeof(*compute->bins));
	if (compute->bins)
		memcpy(compute->bins, b->parts[GPU_ANY].bins, GPU_BINS * sizeof(*compute->bins));
}

void gpu_busy__free(struct gpu_busy *b)
{
	free(b->kept);
	for (unsigned i = 0; i < GPU_PART_CNT; i++)
		free(b->parts[i].bins);
}

static void halve(uint64_t *bins)
{
	for (unsigned i = 0; i < GPU_BINS / 2; i++)
		bins[i] = bins[2 * i] + bins[2 * i + 1];
	memset(bins + GPU_BINS / 2, 0, GPU_BINS / 2 * sizeof(*bins));
}

/* Doubles the width of the bins and halves their number until ns fits. */
static void stretch(struct gpu_busy *b, uint64_t ns)
{
	while ((ns - b->origin) / b->bin_ns >= GPU_BINS) {
		for (unsigned i = 0; i < GPU_PART_CNT; i++)
			if (b->parts[i].bins)
				halve(b->parts[i].bins);
		b->bin_ns *= 2;
	}
}

static void fill(struct gpu_busy *b, uint64_t *bins, uint64_t from, uint64_t to)
{
	/* A late execution may be the first of its part, and begin before all bins. */
	if (from < b->origin)
		from = b->origin;
	if (to <= from)
		return;
	stretch(b, to);
	from -= b->origin;
	to -= b->origin;
	while (from < to) {
		uint64_t i = from / b->bin_ns, next = (i + 1) * b->bin_ns;

		/* The end of the last bin may overflow 64 bits. */
		if (next > to || next <= from)
			next = to;
		bins[i] += next - from;
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

/* Adds a span that begins no earlier than those before it. Returns how much of it was not covered
 * before. */
static uint64_t cover(struct gpu_busy *b, enum gpu_part part, const struct gpu_span *s)
{
	struct gpu_union *u = &b->parts[part];
	uint64_t from = s->start > u->end ? s->start : u->end;

	if (s->end <= from)
		return 0;
	u->total += s->end - from;
	u->end = s->end;
	if (u->bins)
		fill(b, u->bins, from, s->end);
	return s->end - from;
}

static void settle(struct gpu_busy *b, const struct gpu_span *s)
{
	uint64_t before = b->parts[GPU_ANY].end, idle = 0, ns;

	if (s->work == GPU_COLLECTIVE && !b->parts[GPU_COMMUNICATING].bins)
		begin_communicating(b);
	if (s->work == GPU_COPY && !b->has_copies)
		begin_copying(b);
	if (!before)
		b->first = b->origin = s->start;
	else if (s->start > before)
		idle = s->start - before;
	if (idle)
		note_gap(b, before, idle);
	cover(b, s->work == GPU_COPY ? GPU_COPYING : GPU_COMPUTE, s);
	cover(b, s->work == GPU_COLLECTIVE ? GPU_COMMUNICATING : GPU_ELSE, s);
	ns = cover(b, GPU_ANY, s);
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

void gpu_busy__add_of(struct gpu_busy *b, uint64_t start, uint64_t end, enum gpu_work work,
		      struct gpu_owner owner)
{
	b->late_cnt += start < b->settled;
	if (end > b->last)
		b->last = end;
	b->kept[b->cnt++] = (struct gpu_span){start, end, owner, work};
	if (b->cnt == GPU_KEPT)
		settle_first(b, GPU_KEPT / 2);
}

void gpu_busy__finish(struct gpu_busy *b)
{
	uint64_t idle = 0;

	settle_first(b, b->cnt);
	for (unsigned i = 0; i < GPU_GAP_CLASSES; i++)
		idle += b->gaps[i].ns;
	law(b->parts[GPU_ANY].total + idle == b->parts[GPU_ANY].end - b->first);
	law(b->late_cnt || b->parts[GPU_ELSE].total <= b->parts[GPU_ANY].total);
}

uint64_t gpu_busy__overlap(const struct gpu_busy *b)
{
	return b->parts[GPU_COMPUTE].total + b->parts[GPU_COPYING].total - b->parts[GPU_ANY].total;
}

uint64_t gpu_busy__alone(const struct gpu_busy *b)
{
	uint64_t any = b->parts[GPU_ANY].total, other = b->parts[GPU_ELSE].total;

	/* Late executions may be in one total and not in the other. */
	return any > other ? any - other : 0;
}

double gpu_busy__between(const struct gpu_busy *b, enum gpu_part part, uint64_t from, uint64_t to)
{
	const uint64_t *bins = b->parts[part].bins;
	double sum = 0;

	/* Without collectives or copies, all work is in GPU_ANY. */
	if (!bins && (part == GPU_ELSE || part == GPU_COMPUTE))
		bins = b->parts[GPU_ANY].bins;
	if (!bins)
		return 0;
	from = from > b->origin ? from - b->origin : 0;
	to = to > b->origin ? to - b->origin : 0;
	for (uint64_t i = from / b->bin_ns; i < GPU_BINS && i * b->bin_ns < to; i++) {
		uint64_t lo = i * b->bin_ns, hi = lo + (b->bin_ns - 1);
		uint64_t cut_lo = from > lo ? from : lo, cut_hi = to - 1 < hi ? to - 1 : hi;

		sum += (double)bins[i] * (cut_hi - cut_lo + 1.0) / b->bin_ns;
	}
	return sum;
}

struct gpu_device *gpu_devices__get(struct gpu_devices *ds, const struct trace_event *ev)
{
	const struct device *is = ev->device;
	bool is_known = is && is->is_known;
	struct gpu_device *d;

	for (unsigned i = 0; i < ds->cnt; i++) {
		d = ds->of[i];
		if (d->clock == ev->clock &&
		    (is_known ? device_is(&d->is, is)
			      : !d->is.is_known && d->number == ev->gpu.device))
			return d;
	}
	d = ds->cnt < GPU_DEVICES_MAX ? calloc(1, sizeof(*d)) : NULL;
	if (!d)
		return NULL;
	d->number = ev->gpu.device;
	if (is)
		d->is = *is;
	d->clock = ev->clock;
	if (!gpu_busy__init(&d->busy)) {
		gpu_busy__free(&d->busy);
		free(d);
		return NULL;
	}
	d->busy.settled_fn = ds->settled_fn;
	d->busy.ctx = ds->ctx;
	return ds->of[ds->cnt++] = d;
}

/* All of NCCL's kernels have one of these names: ncclDevKernel_*, ncclSymkDevKernel_* (2.27 and
 * later), ncclKernel_* (until 2.18). */
bool gpu_is_collective(const struct trace_event *ev)
{
	return ev->gpu.kernel && !strncmp(ev->gpu.kernel, "nccl", 4);
}

static enum gpu_work work_of(const struct trace_event *ev)
{
	if (ev->op[0] == 'c' || ev->op[0] == 'm')
		return GPU_COPY;
	return gpu_is_collective(ev) ? GPU_COLLECTIVE : GPU_KERNEL;
}

bool gpu_device__is_of(const struct gpu_device *d, uint32_t pid)
{
	for (unsigned i = 0; i < d->pid_cnt && i < GPU_PROCESSES_MAX; i++)
		if (d->pids[i] == pid)
			return true;
	return d->pid_cnt > GPU_PROCESSES_MAX;
}

bool gpu_device__is_alone(const struct gpu_device *d)
{
	return !d->is_shared && d->pid_cnt == 1;
}

static void add_process(struct gpu_device *d, uint32_t pid)
{
	/* Usually the same process as before. */
	if (d->pid_cnt && d->pid_cnt <= GPU_PROCESSES_MAX && d->pids[0] == pid)
		return;
	if (gpu_device__is_of(d, pid))
		return;
	if (d->pid_cnt < GPU_PROCESSES_MAX)
		d->pids[d->pid_cnt] = pid;
	d->pid_cnt++;
}

bool gpu_devices__event(struct gpu_devices *ds, const struct trace_event *ev)
{
	struct gpu_device *d = gpu_devices__get(ds, ev);

	if (!d)
		return false;
	add_process(d, ev->pid);
	d->executions++;
	d->trace = ev->trace;
	/* nvidia-smi's number may become known later. */
	if (ev->device && ev->device->has_index) {
		d->is.has_index = true;
		d->is.index = ev->device->index;
	}
	gpu_busy__add(&d->busy, ev->start_ns, ev->end_ns, work_of(ev));
	return true;
}

/* A device without a UUID may be any GPU, including one that another process has under the same
 * number. */
static void find_shared(struct gpu_devices *ds, struct gpu_device *d)
{
	d->is_shared = d->pid_cnt > 1;
	for (unsigned i = 0; i < ds->cnt; i++) {
		struct gpu_device *other = ds->of[i];

		if (!other->is.is_known || other->number != d->number ||
		    gpu_device__is_of(other, d->pids[0]))
			continue;
		d->is_shared = other->is_shared = true;
	}
}

void gpu_devices__finish(struct gpu_devices *ds)
{
	for (unsigned i = 0; i < ds->cnt; i++) {
		gpu_busy__finish(&ds->of[i]->busy);
		if (!ds->of[i]->is.is_known)
			find_shared(ds, ds->of[i]);
	}
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
