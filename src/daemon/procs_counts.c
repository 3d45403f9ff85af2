/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Counts of the processes, read from the sources. */
#include "procs_priv.h"

#include "report/failure/failure.h"

#include "util/clock.h"

#include <stdlib.h>
#include <string.h>

#define SUM_CNT (offsetof(struct ct_count, hist) / sizeof(uint64_t))

/* New processes are added for so long while counts are read; the others the next time. */
#define READ_NEW_NS 20000000ull

/* Each source counts separately, as do threads with the same hash. */
struct count_of {
	uint16_t func_id;
	uint8_t source, thread; /* thread: ct_count_key */
};
_Static_assert(CT_MAX_FUNCS <= UINT16_MAX && CT_SPREAD <= UINT8_MAX, "the numbers fit");

/* A struct ct_count as last read, without the buckets that are 0 below and above: there are as many
 * of these as processes times functions. */
struct count_row {
	struct hash_link link;
	struct count_of key;
	uint16_t first, cnt; /* buckets */
	uint64_t sums[SUM_CNT];
	uint64_t *hist;
};
HASH_TABLE_KEY(count_row, key);

#define HIST_SZ_MAX (CT_HIST_CNT * sizeof(uint64_t))
_Static_assert(sizeof(struct count_row) + HIST_SZ_MAX + 2 * 24 + HASH_TABLE_ROW_SZ <=
		       DPROC_COUNT_SZ,
	       "includes the overhead of malloc() and the table");

struct counted_error {
	struct hash_link link;
	struct error_of {
		struct count_of of;
		int32_t result;
	} key;
	uint64_t was;
};
HASH_TABLE_KEY(counted_error, key);

void dproc__forget_counts(struct dproc *p)
{
	struct count_row *c;

	while ((c = count_row_table__pop(&p->counts))) {
		free(c->hist);
		free(c);
	}
	counted_error_table__free(&p->errors);
}

/* generation 0: not distinguished from other programs of this process. */
static bool is_counted(const struct dproc *p, ct_generation generation)
{
	return p && (!generation || p->generation == generation);
}

/* Returns the process to which the counts belong. A process whose generation is unknown yet is the
 * one that is counted. Counts of its next program wait until the end of the last one has been read.
 * NULL: not now. */
static struct dproc *counted_proc(struct dprocs *ps, uint32_t pid, ct_generation generation)
{
	struct dproc *p = dprocs__find(ps, pid);

	/* Reading the names of new processes may take long. */
	if (!p && now_ns() - ps->read_ns < READ_NEW_NS)
		p = dprocs__get(ps, pid, NULL);
	if (p && !p->generation)
		p->generation = generation;
	return is_counted(p, generation) ? p : NULL;
}

static void add_errors(struct dprocs *ps, struct dproc *p, const struct ct_error_key *k,
		       uint64_t cnt)
{
	const struct api_fn *fn = fnset__fn(ps->fns, k->func_id);

	if (!fn || !cnt)
		return;
	metrics__errors(ps->metrics, p->target, fn, k->result, cnt);
	ps->caused(ps->ctx, p, CAUSE_ERROR,
		   failure_is_sticky(fn, k->result) ? (uint64_t)k->result : 0);
}

static void errors_of(struct dprocs *ps, struct dproc *p, unsigned source,
		      const struct ct_error_key *k, uint64_t cnt)
{
	const struct error_of of = {{k->func_id, source, 0}, k->result};
	struct counted_error *e;

	e = counted_error_table__find(&p->errors, &of) ?: counted_error_table__new(&p->errors, &of);
	if (!e || cnt <= e->was)
		return;
	add_errors(ps, p, k, cnt - e->was);
	e->was = cnt;
}

static void on_error(void *ctx, unsigned source, const struct ct_error_key *k, uint64_t cnt)
{
	struct dprocs *ps = ctx;
	struct dproc *p = counted_proc(ps, k->pid, k->generation);

	if (p)
		errors_of(ps, p, source, k, cnt);
}

/* Errors of a generation that was not read before. */
static void on_old_error(void *ctx, unsigned source, const struct ct_error_key *k, uint64_t cnt)
{
	struct dprocs *ps = ctx;
	struct dproc *p = dprocs__find(ps, k->pid);

	if (is_counted(p, k->generation))
		on_error(ps, source, k, cnt);
	else if (p)
		add_errors(ps, p, k, cnt);
}

/* All but the last thread only grow. A process may report other values of its own. */
_Static_assert(!offsetof(struct ct_count, last_tid), "see below");
static bool has_shrunk(const struct ct_count *now, const struct ct_count *was)
{
	const uint64_t *a = (const uint64_t *)now, *b = (const uint64_t *)was;

	for (unsigned i = 1; i < sizeof(*now) / sizeof(*a); i++)
		if (a[i] < b[i])
			return true;
	return false;
}

/* All members but the maximum and the last thread are sums. */
static void subtract(struct ct_count *delta, const struct ct_count *now, const struct ct_count *was)
{
	const uint64_t *a = (const uint64_t *)now, *b = (const uint64_t *)was;
	uint64_t *d = (uint64_t *)delta;

	for (unsigned i = 0; i < sizeof(*delta) / sizeof(*d); i++)
		d[i] = a[i] - b[i];
}

static void recall(const struct count_row *c, struct ct_count *was)
{
	memset(was, 0, sizeof(*was));
	memcpy(was, c->sums, sizeof(c->sums));
	if (c->cnt)
		memcpy(was->hist + c->first, c->hist, c->cnt * sizeof(*c->hist));
}

/* false: out of memory, nothing is changed. */
static bool keep(struct count_row *c, const struct ct_count *now)
{
	unsigned first = 0, end = CT_HIST_CNT;
	uint64_t *hist = c->hist;

	while (first < end && !now->hist[first])
		first++;
	while (end > first && !now->hist[end - 1])
		end--;
	if (end - first != c->cnt)
		hist = realloc(hist, (end - first) * sizeof(*hist));
	if (!hist && end > first)
		return false;
	c->hist = hist;
	c->first = first;
	c->cnt = end - first;
	memcpy(c->sums, now, sizeof(c->sums));
	if (c->cnt)
		memcpy(hist, now->hist + first, c->cnt * sizeof(*hist));
	return true;
}

/* A single long call shows only in its histogram bucket: it took at least the bucket's floor. The
 * last bucket has no upper end, but the longest call so far is known. */
static void look_for_sync(struct dprocs *ps, struct dproc *p, const struct ct_count *delta)
{
	for (unsigned i = CT_HIST_CNT; i-- > 0;) {
		uint64_t ns = ct_hist_floor(i);

		if (!delta->hist[i])
			continue;
		if (i == CT_HIST_CNT - 1 && delta->max_ns > ns)
			ns = delta->max_ns;
		ps->caused(ps->ctx, p, CAUSE_SYNC, ns);
		return;
	}
}

static void add_counts(struct dprocs *ps, struct dproc *p, uint32_t func_id,
		       const struct ct_count *delta)
{
	const struct api_fn *fn = fnset__fn(ps->fns, func_id);

	if (!fn)
		return;
	metrics__counts(ps->metrics, p->target, fn, delta);
	if (ps->counted)
		ps->counted(ps->ctx, p, func_id, delta);
	if (fn->class == CLASS_SYNC)
		look_for_sync(ps, p, delta);
}

static void counts_of(struct dprocs *ps, struct dproc *p, unsigned source,
		      const struct ct_count_key *key, const struct ct_count *now)
{
	const struct count_of of = {key->func_id, source, key->thread};
	struct ct_count delta, was;
	struct count_row *c;

	c = count_row_table__find(&p->counts, &of) ?: count_row_table__new(&p->counts, &of);
	if (!c)
		return;
	recall(c, &was);
	if (!memcmp(&was, now, sizeof(*now)) || has_shrunk(now, &was) || !keep(c, now))
		return;
	subtract(&delta, now, &was);
	/* If none of these was the longest, the maximum does not apply to them. */
	delta.max_ns = now->max_ns > was.max_ns ? now->max_ns : 0;
	add_counts(ps, p, key->func_id, &delta);
}

static void on_count(void *ctx, unsigned source, const struct ct_count_key *key,
		     const struct ct_count *now)
{
	struct dprocs *ps = ctx;
	struct dproc *p = counted_proc(ps, key->pid, key->generation);

	if (p)
		counts_of(ps, p, source, key, now);
}

static void on_old_count(void *ctx, unsigned source, const struct ct_count_key *key,
			 const struct ct_count *c)
{
	struct dprocs *ps = ctx;
	struct dproc *p = dprocs__find(ps, key->pid);

	if (is_counted(p, key->generation))
		on_count(ps, source, key, c);
	else if (p)
		add_counts(ps, p, key->func_id, c);
}

bool dproc__take_counts(struct dprocs *ps, struct dproc *p, ct_generation generation)
{
	const struct count_reader r = {.count = on_old_count, .error = on_old_error, .ctx = ps};

	if (!ps->by_process)
		return sources__take_counts_quickly(ps->sources, p->pid, generation, &r);
	/* Its target is freed with it. */
	sources__take_counts(ps->sources, p->pid, generation, &r);
	return true;
}

static void others_error(void *ctx, unsigned source, const struct ct_error_key *k, uint64_t cnt)
{
	struct dprocs *ps = ctx;
	const struct api_fn *fn = fnset__fn(ps->fns, k->func_id);

	if (fn && cnt)
		metrics__errors(ps->metrics, metrics__others(ps->metrics), fn, k->result, cnt);
}

static void others_count(void *ctx, unsigned source, const struct ct_count_key *k,
			 const struct ct_count *c)
{
	struct dprocs *ps = ctx;
	const struct api_fn *fn = fnset__fn(ps->fns, k->func_id);

	if (fn)
		metrics__counts(ps->metrics, metrics__others(ps->metrics), fn, c);
}

static void left_count(void *ctx, unsigned source, const struct ct_count_key *k,
		       const struct ct_count *c)
{
	struct dprocs *ps = ctx;

	if (is_counted(dprocs__find(ps, k->pid), k->generation))
		on_count(ps, source, k, c);
	else
		others_count(ps, source, k, c);
}

static void left_error(void *ctx, unsigned source, const struct ct_error_key *k, uint64_t cnt)
{
	struct dprocs *ps = ctx;

	if (is_counted(dprocs__find(ps, k->pid), k->generation))
		on_error(ps, source, k, cnt);
	else
		others_error(ps, source, k, cnt);
}

void dprocs__take_left(struct dprocs *ps)
{
	const struct count_reader r = {.count = left_count, .error = left_error, .ctx = ps};

	sources__take_left_counts(ps->sources, &r);
}

void dprocs__take_unknown(struct dprocs *ps, uint32_t pid, ct_generation generation)
{
	const struct count_reader r = {.count = others_count, .error = others_error, .ctx = ps};

	if (!sources__take_counts_quickly(ps->sources, pid, generation, &r))
		dprocs__add_ended(ps, pid, generation, NULL);
}

/* Ended programs */

static struct ended_program *find_ended(struct dprocs *ps, uint32_t pid, ct_generation generation)
{
	const struct ct_owner who = {.generation = generation, .pid = pid};

	return ended_program_table__find(&ps->ended, &who);
}

static bool is_ended(void *ctx, uint32_t pid, ct_generation generation)
{
	return find_ended(ctx, pid, generation);
}

static void ended_error(void *ctx, unsigned source, const struct ct_error_key *k, uint64_t cnt)
{
	struct dprocs *ps = ctx;
	struct dproc *p = find_ended(ps, k->pid, k->generation)->p;

	if (p)
		errors_of(ps, p, source, k, cnt);
	else
		others_error(ps, source, k, cnt);
}

static void ended_count(void *ctx, unsigned source, const struct ct_count_key *k,
			const struct ct_count *c)
{
	struct dprocs *ps = ctx;
	struct dproc *p = find_ended(ps, k->pid, k->generation)->p;

	if (p)
		counts_of(ps, p, source, k, c);
	else
		others_count(ps, source, k, c);
}

static void take_ended(struct dprocs *ps)
{
	const struct count_reader r = {
		.count = ended_count, .error = ended_error, .ctx = ps, .wanted = is_ended};
	struct ended_program *e;

	if (hash_cnt(&ps->ended))
		sources__take_all_counts(ps->sources, &r);
	while ((e = ended_program_table__pop(&ps->ended))) {
		sources__forget_counts(ps->sources, e->who.pid, e->who.generation);
		if (e->p)
			dprocs__free_proc(ps, e->p);
		free(e);
	}
}

void dprocs__add_ended(struct dprocs *ps, uint32_t pid, ct_generation generation, struct dproc *p)
{
	const struct ct_owner who = {.generation = generation, .pid = pid};
	struct ended_program *e =
		find_ended(ps, pid, generation) ?: ended_program_table__new(&ps->ended, &who);

	/* It no longer begins bursts. */
	if (p)
		p->level = LEVEL_OFF;
	/* Counts of another program are not its own. */
	if (p && !is_counted(p, generation))
		dproc__forget_counts(p);
	if (e && !e->p)
		e->p = p;
	else if (p)
		dprocs__free_proc(ps, p);
}

void dprocs__read_counts(struct dprocs *ps)
{
	const struct count_reader r = {.count = on_count, .ctx = ps};

	take_ended(ps);
	ps->read_ns = now_ns();
	sources__read_counts(ps->sources, &r);
}

void dprocs__read_errors(struct dprocs *ps)
{
	const struct count_reader r = {.error = on_error, .ctx = ps};

	take_ended(ps);
	ps->read_ns = now_ns();
	sources__read_counts(ps->sources, &r);
}
