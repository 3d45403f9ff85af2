/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Records that the BPF programs send through their rings. */
#include "source.h"
#include "tracer.h"

#include "record/ring.h"

#include <errno.h>

struct source_bpf {
	struct source s;
	struct attach *att;
	struct ring *ring;
	bool measuring; /* records come from our own stub */
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

	if (!t->att)
		return SOURCE_UNUSED;
	b->att = t->att;
	fds = attach__ring_fds(b->att, &cnt, &size);
	b->ring = ring__open(fds, cnt, size, on_record, b);
	if (!b->ring)
		return -ENOMEM;
	b->measuring = true;
	/* PyTorch's functions are probed at their entry only. */
	attach__measure_cost(b->att,
			     t->o.measure_entries || fnset__wants_api(t->fns, api_at(API_TORCH)),
			     &t->cost);
	while (ring__drain(b->ring, SIZE_MAX))
		;
	b->measuring = false;
	return 0;
}

static int bpf_fd(const struct source *s)
{
	return ring__fd(((const struct source_bpf *)s)->ring);
}

static void bpf_woken(const struct source *s)
{
	ring__woken(((const struct source_bpf *)s)->ring);
}

static bool bpf_look(struct source *s, uint64_t now)
{
	struct ring *r = ((struct source_bpf *)s)->ring;
	bool whole = ring__look(r);

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

static int bpf_set_always(struct source *s, unsigned func_id, bool always)
{
	return levels__set_always(((struct source_bpf *)s)->att, func_id, always);
}

static int bpf_set_sampled(struct source *s, unsigned func_id, uint32_t below)
{
	return levels__set_sampled(((struct source_bpf *)s)->att, func_id, below);
}

static int bpf_set_proc(struct source *s, pid_t pid, enum ct_proc_level level)
{
	struct attach *att = ((struct source_bpf *)s)->att;

	if (level != CT_PROC_DEFAULT)
		return levels__set_proc(att, pid, level);
	levels__forget_proc(att, pid);
	return 0;
}

static void bpf_set_default(struct source *s, enum ct_proc_level level)
{
	levels__set_default(((struct source_bpf *)s)->att, level);
}

static void bpf_read_counts(struct source *s, const struct count_reader *r)
{
	struct attach *att = ((struct source_bpf *)s)->att;
	struct source_reading to = {r, s->number};

	if (r->count)
		levels__read(att, source__on_count, &to);
	if (r->error)
		levels__read_errors(att, source__on_error, &to);
}

static void bpf_take_counts(struct source *s, pid_t pid, ct_generation generation,
			    const struct count_reader *r)
{
	struct attach *att = ((struct source_bpf *)s)->att;
	struct source_reading to = {r, s->number};

	if (r->count)
		levels__take(att, pid, generation, source__on_count, &to);
	if (r->error)
		levels__take_errors(att, pid, generation, source__on_error, &to);
	levels__forget_rows(att, pid, generation);
}

static bool bpf_is_slow_to_take(struct source *s, pid_t pid, ct_generation generation)
{
	return !generation ||
	       levels__is_slow_to_take(((struct source_bpf *)s)->att, pid, generation);
}

static void bpf_take_all_counts(struct source *s, const struct count_reader *r)
{
	struct source_reading to = {r, s->number};

	levels__take_all(((struct source_bpf *)s)->att, source__is_wanted, source__on_count,
			 source__on_error, &to);
}

static void bpf_forget_counts(struct source *s, pid_t pid, ct_generation generation)
{
	if (generation)
		levels__forget_rows(((struct source_bpf *)s)->att, pid, generation);
}

static void bpf_unfinished_counts(struct source *s, const struct count_reader *r)
{
	struct source_reading to = {r, s->number};

	if (r->count)
		levels__unfinished(((struct source_bpf *)s)->att, source__on_count, &to);
}

static unsigned bpf_live(struct source *s, pid_t *pids, unsigned max)
{
	return attach__live_pids(((struct source_bpf *)s)->att, pids, max);
}

struct thread_reading {
	thread_fn fn;
	void *ctx;
};

static void on_thread(uint32_t tid, struct ct_thread *t, void *ctx)
{
	const struct thread_reading *r = ctx;
	const struct seen_thread seen = {
		.pid = t->pid,
		.tid = tid,
		.spent_ns = ct_cost_ns(t),
		.lost = drops_sum(t->drops),
		.frames = t->frames,
		.depth = t->depth < CT_MAX_DEPTH ? t->depth : CT_MAX_DEPTH,
	};

	r->fn(r->ctx, &seen);
}

static void bpf_each_thread(struct source *s, thread_fn fn, void *ctx)
{
	struct thread_reading r = {fn, ctx};

	attach__each_thread(((struct source_bpf *)s)->att, on_thread, &r);
}

static void bpf_close(struct source *s)
{
	struct source_bpf *b = (void *)s;

	if (b->ring)
		ring__free(b->ring);
}

const struct source_ops bpf_source_ops = {
	.size = sizeof(struct source_bpf),
	.name = "ring",
	.why = "records arrived faster than they were read; use a larger --buffer-size or fewer functions (-e)",
	.open = bpf_open,
	.fd = bpf_fd,
	.woken = bpf_woken,
	.look = bpf_look,
	.take = bpf_take,
	.was_full = bpf_was_full,
	.totals = bpf_totals,
	.unfinished = bpf_unfinished,
	.set_level = bpf_set_level,
	.set_always = bpf_set_always,
	.set_sampled = bpf_set_sampled,
	.set_proc = bpf_set_proc,
	.set_default = bpf_set_default,
	.read_counts = bpf_read_counts,
	.take_counts = bpf_take_counts,
	.is_slow_to_take = bpf_is_slow_to_take,
	.take_all_counts = bpf_take_all_counts,
	.forget_counts = bpf_forget_counts,
	.unfinished_counts = bpf_unfinished_counts,
	.live = bpf_live,
	.each_thread = bpf_each_thread,
	.close = bpf_close,
};
