/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Counted calls: each thread has its own sums, which are added up here. */
#include "inject_priv.h"

#include "util/clock.h"

#include <stdlib.h>
#include <string.h>

/* Per process: beyond this, calls in rejected counts are not even counted. */
#define REFUSED_MAX 256

struct counts {
	levels_fn fn;
	levels_error_fn error_fn;
	void *ctx;
};

static void add(struct ct_count *sum, const struct ct_count *c)
{
	sum->errors += c->errors;
	sum->entered += c->entered;
	sum->unfinished += c->unfinished;
	sum->abandoned += c->abandoned;
	sum->total_ns += c->total_ns;
	sum->bytes += c->bytes;
	if (c->max_ns > sum->max_ns)
		sum->max_ns = c->max_ns;
	for (int i = 0; i < CT_HIST_CNT; i++)
		sum->hist[i] += c->hist[i];
}

/* Returns whether this count may be read. The process decides which counts exist, and each uses
 * memory. */
static bool is_let_in(struct inject *in, struct client *p, unsigned slot, unsigned id)
{
	struct shm_slot *s = &p->shm.slots[slot];
	uint64_t bit = 1ull << id % 64;

	if (!in->count_room.max)
		return true;
	if (!s->counted)
		s->counted = calloc(CT_MAX_FUNCS / 64, sizeof(*s->counted));
	if (!s->counted)
		return false;
	if (s->counted[id / 64] & bit)
		return true;
	if (!shm_charge(&in->count_room, p->count_cnt, p->shm.owner->counts))
		return false;
	p->count_cnt++;
	p->shm.owner->counts++;
	s->counted[id / 64] |= bit;
	return true;
}

static uint64_t calls_of(const struct ct_count *c)
{
	uint64_t cnt = c->entered;

	for (int i = 0; i < CT_HIST_CNT; i++)
		cnt += c->hist[i];
	return cnt;
}

/* A function that a thread has counted, or is in. */
struct row {
	uint16_t id, slot;
	bool counted;
};
struct rows {
	struct row *of;
	unsigned cnt, room;
};
_Static_assert(CT_MAX_FUNCS <= UINT16_MAX && CT_SHM_SLOTS <= UINT16_MAX, "the numbers fit");

static void add_row(struct rows *rows, unsigned id, unsigned slot, bool counted)
{
	if (rows->cnt == rows->room) {
		unsigned room = rows->room ? 2 * rows->room : 256;
		struct row *of = realloc(rows->of, room * sizeof(*of));

		if (!of)
			return;
		rows->of = of;
		rows->room = room;
	}
	rows->of[rows->cnt++] = (struct row){id, slot, counted};
}

static int by_id(const void *a, const void *b)
{
	const struct row *x = a, *y = b;

	return x->id != y->id ? x->id - y->id : x->slot - y->slot;
}

/* Adds rows for the functions that a thread has counted, as far as the limit allows. refused:
 * number of rejected ones that were added up. */
static void add_counted(struct inject *in, struct client *p, unsigned slot, uint64_t age,
			struct rows *rows, unsigned *refused)
{
	for (unsigned k = 0; k * 64 < in->settings.fn_cnt; k++) {
		uint64_t bits = shm__slot(&p->shm, slot)->counted[k];

		for (; bits; bits &= bits - 1) {
			unsigned id = k * 64 + __builtin_ctzll(bits);
			struct ct_count c;

			if (id >= in->settings.fn_cnt)
				return;
			if (is_let_in(in, p, slot, id)) {
				add_row(rows, id, slot, true);
			} else if ((*refused)++ < REFUSED_MAX) {
				shm__count(&p->shm, slot, id, &c);
				count_limit(&c, age);
				p->uncounted += calls_of(&c);
			}
		}
	}
}

static void add_in_flight(const struct shm *m, unsigned slot, unsigned fn_cnt, struct rows *rows)
{
	for (unsigned d = shm__depth(m, slot); d-- > 0;) {
		const struct ct_frame *f = &shm__slot(m, slot)->frames[d];
		uint32_t id = f->func_id;

		if (id < fn_cnt && f->flags & CT_FRAME_F_COUNTED &&
		    !shm__has_returned(m, slot, d, 0))
			add_row(rows, id, slot, false);
	}
}

/* unfinished: only the calls in flight. */
static void read_functions(struct inject *in, struct client *p, const struct counts *to,
			   bool unfinished)
{
	uint64_t uncounted = p->uncounted, age = shm__age(&p->shm, now_ns());
	struct rows rows = {0};
	unsigned refused = 0;

	if (!unfinished)
		p->uncounted = 0;
	for (unsigned i = 0; i < p->shm.slot_cnt; i++) {
		if (!unfinished)
			add_counted(in, p, i, age, &rows, &refused);
		if (unfinished || p->pidfd < 0)
			add_in_flight(&p->shm, i, in->settings.fn_cnt, &rows);
	}
	if (rows.cnt)
		qsort(rows.of, rows.cnt, sizeof(*rows.of), by_id);
	for (unsigned i = 0; i < rows.cnt;) {
		const struct ct_count_key key = {
			.generation = p->generation, .pid = p->pid, .func_id = rows.of[i].id};
		struct ct_count sum = {0}, c;

		for (; i < rows.cnt && rows.of[i].id == key.func_id; i++) {
			if (!rows.of[i].counted) {
				sum.unfinished++;
				continue;
			}
			shm__count(&p->shm, rows.of[i].slot, key.func_id, &c);
			count_limit(&c, age);
			add(&sum, &c);
		}
		to->fn(to->ctx, &key, &sum);
	}
	free(rows.of);
	/* A count that was accepted only now had drops before: they remain in the sum. */
	if (p->uncounted < uncounted)
		p->uncounted = uncounted;
}

/* Failures of one function with one code, over all threads. */
struct error_sum {
	uint32_t func_id;
	int32_t result;
	uint64_t cnt;
};

static void add_error(struct client *p, struct error_sum *sums, const struct ct_shm_error *e)
{
	struct error_sum *s = sums, *end = sums + CT_SHM_ERRORS;

	while (s < end && s->cnt && (s->func_id != e->func_id || s->result != e->result))
		s++;
	if (s == end) {
		p->errors_uncounted += e->cnt;
		return;
	}
	s->func_id = e->func_id;
	s->result = e->result;
	s->cnt += e->cnt;
}

static void read_errors(const struct inject *in, struct client *p, const struct counts *to)
{
	struct error_sum sums[CT_SHM_ERRORS] = {0};
	uint64_t uncounted = p->errors_uncounted;
	uint64_t max = total_possible(shm__age(&p->shm, now_ns()));

	p->errors_uncounted = 0;
	for (unsigned i = 0; i < p->shm.slot_cnt; i++) {
		const struct ct_shm_slot *s = shm__slot(&p->shm, i);

		for (unsigned k = 0; k < CT_SHM_ERRORS; k++) {
			struct ct_shm_error e;

			shm_copy(&e, &s->errors[k], sizeof(e));
			if (e.cnt > max)
				e.cnt = max;
			if (e.cnt && e.func_id < in->settings.fn_cnt)
				add_error(p, sums, &e);
		}
	}
	if (p->errors_uncounted < uncounted)
		p->errors_uncounted = uncounted;
	for (unsigned k = 0; k < CT_SHM_ERRORS && sums[k].cnt; k++) {
		const struct ct_error_key key = {.generation = p->generation,
						 .pid = p->pid,
						 .func_id = sums[k].func_id,
						 .result = sums[k].result};

		to->error_fn(to->ctx, &key, sums[k].cnt);
	}
}

static void read_peer(struct inject *in, struct client *p, const struct counts *to)
{
	if (p->counts_taken)
		return;
	if (to->fn)
		read_functions(in, p, to, false);
	if (to->error_fn)
		read_errors(in, p, to);
}

void inject__read_counts(struct inject *in, levels_fn fn, levels_error_fn error_fn, void *ctx)
{
	const struct counts to = {fn, error_fn, ctx};

	for (unsigned i = 0; i < in->client_cnt; i++)
		read_peer(in, in->clients[i], &to);
}

void inject__take_counts(struct inject *in, pid_t pid, ct_generation generation, levels_fn fn,
			 levels_error_fn error_fn, void *ctx)
{
	const struct counts to = {fn, error_fn, ctx};

	for (unsigned i = 0; i < in->client_cnt; i++) {
		struct client *p = in->clients[i];

		/* A running program continues to count. */
		if (p->pid != pid || (generation && p->generation && p->generation != generation) ||
		    p->pidfd >= 0)
			continue;
		read_peer(in, p, &to);
		p->counts_taken = true;
	}
}

void inject__take_left_counts(struct inject *in, levels_fn fn, levels_error_fn error_fn, void *ctx)
{
	const struct counts to = {fn, error_fn, ctx};
	uint64_t now = now_ns();

	for (unsigned i = 0; i < in->client_cnt; i++) {
		struct client *p = in->clients[i];

		if (p->pidfd >= 0 || now - p->ended_ns < CLIENTS_LEFT_NS)
			continue;
		read_peer(in, p, &to);
		p->counts_taken = true;
	}
}

void inject__unfinished_counts(struct inject *in, levels_fn fn, void *ctx)
{
	const struct counts to = {.fn = fn, .ctx = ctx};

	for (unsigned i = 0; i < in->client_cnt; i++)
		if (in->clients[i]->pidfd >= 0)
			read_functions(in, in->clients[i], &to, true);
}
