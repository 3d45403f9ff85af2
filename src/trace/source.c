/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "source.h"

#include "util/clock.h"

#include <errno.h>
#include <stdlib.h>

/* Limits of one drain, because some records are expensive: its time, and records between clock
 * reads. */
#define DRAIN_NS    20000000ull
#define DRAIN_PIECE 128

/* A process with threads that lost records. */
struct source_drop_owner {
	struct hash_link link;
	uint32_t pid;
	uint64_t reported, lost;
};
HASH_TABLE_KEY(source_drop_owner, pid);

void source__give(struct source *s, const void *rec, size_t size)
{
	struct raw raw;

	if (raw_check(rec, size, s->number, &raw))
		s->bad_cnt++;
	else
		s->fn(s->ctx, &raw);
}

void source__on_count(void *reading, const struct ct_count_key *key, const struct ct_count *c)
{
	const struct source_reading *to = reading;

	to->r->count(to->r->ctx, to->number, key, c);
}

void source__on_error(void *reading, const struct ct_error_key *key, uint64_t cnt)
{
	const struct source_reading *to = reading;

	to->r->error(to->r->ctx, to->number, key, cnt);
}

bool source__is_wanted(void *reading, uint32_t pid, ct_generation generation)
{
	const struct source_reading *to = reading;

	return to->r->wanted(to->r->ctx, pid, generation);
}

int source__fd(const struct source *s)
{
	return s->ops->fd ? s->ops->fd(s) : -1;
}

bool source__was_full(struct source *s)
{
	return s->ops->was_full && s->ops->was_full(s);
}

static void totals(struct source *s, struct ct_totals *sum)
{
	*sum = (struct ct_totals){0};
	if (s->ops->totals)
		s->ops->totals(s, sum);
}

uint64_t source__lost(struct source *s)
{
	struct ct_totals sum;

	totals(s, &sum);
	return drops_sum(sum.drops);
}

uint64_t source__newly_lost(struct source *s)
{
	uint64_t before = s->lost_reported, cnt = source__lost(s);

	/* Losses of a thread that is ending at this moment may appear in no counter. */
	if (cnt <= before)
		return 0;
	s->lost_reported = cnt;
	return cnt - before;
}

static void add_drop_owner(void *ctx, const struct seen_thread *t)
{
	struct source *s = ctx;
	struct source_drop_owner *l;

	if (!t->lost)
		return;
	l = source_drop_owner_table__find(&s->drop_owners, &t->pid)
		    ?: source_drop_owner_table__new(&s->drop_owners, &t->pid);
	if (l)
		l->lost += t->lost;
}

bool source__drop_owners(struct source *s, uint64_t cnt, void (*fn)(void *ctx, uint32_t pid),
			 void *ctx)
{
	uint64_t sum = 0;

	if (s->ops->drop_owners) {
		s->ops->drop_owners(s, fn, ctx);
		return true;
	}
	if (s->ops->each_thread)
		s->ops->each_thread(s, add_drop_owner, s);
	hash_each (l, &s->drop_owners)
		sum += l->lost > l->reported ? l->lost - l->reported : 0;
	hash_each (l, &s->drop_owners) {
		if (sum == cnt && l->lost > l->reported)
			fn(ctx, l->pid);
		l->reported = l->lost;
		l->lost = 0;
		if (l->reported)
			continue;
		source_drop_owner_table__del(&s->drop_owners, l);
		free(l);
	}
	return sum == cnt;
}

static void close_one(struct source *s)
{
	if (s->ops->close)
		s->ops->close(s);
	source_drop_owner_table__free(&s->drop_owners);
	free(s);
}

int sources__open(struct sources *ss, const struct source_ops *ops, unsigned number,
		  struct tracer *t, source_fn fn, void *ctx)
{
	struct source *s = calloc(1, ops->size);
	int ret;

	if (!s)
		return -ENOMEM;
	s->ops = ops;
	s->number = number;
	s->next_ns = SOURCE_NONE;
	s->fn = fn;
	s->ctx = ctx;
	ret = ops->open(s, t);
	if (!ret) {
		ss->of[ss->cnt++] = s;
		return 0;
	}
	close_one(s);
	return ret == SOURCE_UNUSED ? 0 : ret;
}

void sources__close(struct sources *ss)
{
	while (ss->cnt)
		close_one(ss->of[--ss->cnt]);
}

/* NULL: no source has a record. *until is lowered to the time of the oldest record of the
 * others. */
static struct source *oldest(const struct sources *ss, uint64_t *until)
{
	struct source *first = NULL;
	uint64_t others = SOURCE_NONE;

	for (unsigned i = 0; i < ss->cnt; i++) {
		struct source *s = ss->of[i];

		if (s->next_ns == SOURCE_NONE)
			continue;
		if (!first || s->next_ns < first->next_ns) {
			others = first ? first->next_ns : others;
			first = s;
		} else if (s->next_ns < others) {
			others = s->next_ns;
		}
	}
	if (others < *until)
		*until = others;
	return first;
}

/* Checks until all records sent before now are complete; each source ensures that this ends. */
static void look(const struct sources *ss, uint64_t now)
{
	bool whole;

	do {
		whole = true;
		for (unsigned i = 0; i < ss->cnt; i++)
			if (!ss->of[i]->ops->look(ss->of[i], now))
				whole = false;
	} while (!whole);
}

/* Takes records sent until now; all other sources were read up to that time, too. */
static size_t take(const struct sources *ss, size_t max, uint64_t now)
{
	size_t cnt = 0;

	while (cnt < max) {
		uint64_t until = now;
		struct source *s = oldest(ss, &until);

		if (!s || s->next_ns > now)
			break;
		cnt += s->ops->take(s, max - cnt, until);
		/* The next record is incomplete, and the others' records may follow from it. */
		if (s->next_ns <= until)
			break;
	}
	return cnt;
}

size_t sources__drain(struct sources *ss, size_t max)
{
	uint64_t ahead_ns = 0, begin_ns = now_ns();
	size_t cnt = 0, left;

	for (unsigned i = 0; i < ss->cnt; i++)
		if (ss->of[i]->ops->woken)
			ss->of[i]->ops->woken(ss->of[i]);
	while (cnt < max) {
		uint64_t now = now_ns(), until = SOURCE_NONE;
		const struct source *first;

		look(ss, now);
		first = oldest(ss, &until);
		if (!first)
			break;
		/* It was sent after the clock was read, and its cause may be in a source already
		 * read, so read again. It is taken the next time, even if the processors'
		 * clocks differ. */
		if (first->next_ns > now && first->next_ns != ahead_ns) {
			ahead_ns = first->next_ns;
			continue;
		}
		if (cnt && now - begin_ns >= DRAIN_NS)
			return max;
		left = max - cnt < DRAIN_PIECE ? max - cnt : DRAIN_PIECE;
		cnt += take(ss, left, first->next_ns > now ? first->next_ns : now);
	}
	return cnt;
}

void sources__fill_end(const struct sources *ss, struct trace_end *end)
{
	for (unsigned k = 0; k < ss->cnt; k++)
		if (ss->of[k]->ops->fill_end)
			ss->of[k]->ops->fill_end(ss->of[k], end);
}

void sources__totals(const struct sources *ss, struct ct_totals *sum)
{
	struct ct_totals one;

	*sum = (struct ct_totals){0};
	for (unsigned k = 0; k < ss->cnt; k++) {
		totals(ss->of[k], &one);
		for (int i = 0; i < CT_STAT_CNT; i++)
			sum->stats[i] += one.stats[i];
		for (int i = 0; i < CT_DROP_CNT; i++)
			sum->drops[i] += one.drops[i];
		sum->cost_ns += one.cost_ns;
		if (one.busiest > sum->busiest)
			sum->busiest = one.busiest;
	}
}

uint64_t sources__lost(const struct sources *ss)
{
	struct ct_totals sum;

	sources__totals(ss, &sum);
	return drops_sum(sum.drops);
}

uint64_t sources__bad_records(const struct sources *ss)
{
	uint64_t cnt = 0;

	for (unsigned i = 0; i < ss->cnt; i++) {
		const struct source *s = ss->of[i];

		cnt += s->bad_cnt + (s->ops->bad_records ? s->ops->bad_records(s) : 0);
	}
	return cnt;
}

/* Calls a function of all sources that have it, in order. */
#define EACH(ss, op, ...)                                                                          \
	for (unsigned i = 0; i < (ss)->cnt; i++)                                                   \
		if ((ss)->of[i]->ops->op)                                                          \
	(ss)->of[i]->ops->op((ss)->of[i], ##__VA_ARGS__)

/* As EACH(); ret becomes the first result that is not 0. */
#define EACH_RET(ret, ss, op, ...)                                                                 \
	for (unsigned i = 0; i < (ss)->cnt; i++) {                                                 \
		struct source *s = (ss)->of[i];                                                    \
		int err = s->ops->op ? s->ops->op(s, __VA_ARGS__) : 0;                             \
                                                                                                   \
		(ret) = (ret) ? (ret) : err;                                                       \
	}

void sources__unfinished(struct sources *ss)
{
	EACH(ss, unfinished);
}

void sources__prepare_child(const struct sources *ss, const char *program)
{
	EACH(ss, prepare_child, program);
}

unsigned sources__live(struct sources *ss, pid_t *pids, unsigned max)
{
	unsigned cnt = 0;

	for (unsigned i = 0; i < ss->cnt; i++)
		if (ss->of[i]->ops->live)
			cnt += ss->of[i]->ops->live(ss->of[i], pids + (cnt < max ? cnt : max),
						    cnt < max ? max - cnt : 0);
	return cnt;
}

void sources__each_thread(struct sources *ss, thread_fn fn, void *ctx)
{
	EACH(ss, each_thread, fn, ctx);
}

void sources__left(struct sources *ss, pid_t pid, ct_generation generation, uint64_t now)
{
	EACH(ss, left, pid, generation, now);
}

void sources__enclosing(struct sources *ss, pid_t pid, uint32_t tid, uint64_t at_ns,
			struct inject_enclosing *out)
{
	*out = (struct inject_enclosing){0};
	EACH(ss, enclosing, pid, tid, at_ns, out);
}

void sources__stop(struct sources *ss)
{
	EACH(ss, stop);
}

bool sources__are_over(struct sources *ss)
{
	bool over = true;

	for (unsigned k = 0; k < ss->cnt; k++)
		if (ss->of[k]->ops->is_over)
			over &= ss->of[k]->ops->is_over(ss->of[k]);
	return over;
}

int sources__set_level(struct sources *ss, unsigned func_id, const struct fn_level *l)
{
	int ret = 0;

	EACH_RET(ret, ss, set_level, func_id, l);
	return ret;
}

int sources__set_always(struct sources *ss, unsigned func_id, bool always)
{
	int ret = 0;

	EACH_RET(ret, ss, set_always, func_id, always);
	return ret;
}

int sources__set_sampled(struct sources *ss, unsigned func_id, uint32_t below)
{
	int ret = 0;

	EACH_RET(ret, ss, set_sampled, func_id, below);
	return ret;
}

int sources__set_proc(struct sources *ss, pid_t pid, enum ct_proc_level level)
{
	int ret = 0;

	EACH_RET(ret, ss, set_proc, pid, level);
	return ret;
}

void sources__set_default(struct sources *ss, enum ct_proc_level level)
{
	EACH(ss, set_default, level);
}

void sources__read_counts(struct sources *ss, const struct count_reader *r)
{
	EACH(ss, read_counts, r);
}

void sources__take_counts(struct sources *ss, pid_t pid, ct_generation generation,
			  const struct count_reader *r)
{
	EACH(ss, take_counts, pid, generation, r);
}

bool sources__take_counts_quickly(struct sources *ss, pid_t pid, ct_generation generation,
				  const struct count_reader *r)
{
	bool all = true;

	for (unsigned i = 0; i < ss->cnt; i++) {
		struct source *s = ss->of[i];

		if (s->ops->is_slow_to_take && s->ops->is_slow_to_take(s, pid, generation))
			all = false;
		else if (s->ops->take_counts)
			s->ops->take_counts(s, pid, generation, r);
	}
	return all;
}

void sources__take_all_counts(struct sources *ss, const struct count_reader *r)
{
	EACH(ss, take_all_counts, r);
}

void sources__forget_counts(struct sources *ss, pid_t pid, ct_generation generation)
{
	EACH(ss, forget_counts, pid, generation);
}

void sources__take_left_counts(struct sources *ss, const struct count_reader *r)
{
	EACH(ss, take_left_counts, r);
}

void sources__unfinished_counts(struct sources *ss, const struct count_reader *r)
{
	EACH(ss, unfinished_counts, r);
}
