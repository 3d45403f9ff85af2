/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Calls that were counted: each thread has sums of its own, which are added up here. */
#include "inject_priv.h"

#include <stdlib.h>
#include <string.h>

/* Of one process: calls in further counts that find no room are not even counted. */
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

static bool is_counted(const struct shm *m, unsigned slot, unsigned id)
{
	return shm__slot(m, slot)->counted[id / 64] & 1ull << id % 64;
}

/* May this count be read? The process says which there are, and each takes room. */
static bool is_let_in(struct inject *in, struct peer *p, unsigned slot, unsigned id)
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
	if (!shm_room_take(&in->count_room, p->count_cnt))
		return false;
	p->count_cnt++;
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

/* Of a thread's calls in flight, those of the function that are counted. */
static unsigned in_flight(const struct shm *m, unsigned slot, unsigned id)
{
	unsigned cnt = 0;

	for (unsigned d = shm__depth(m, slot); d-- > 0;) {
		const struct ct_frame *f = &shm__slot(m, slot)->frames[d];

		cnt += f->func_id == id && f->flags & CT_FRAME_F_COUNTED &&
		       !shm__has_returned(m, slot, d, 0);
	}
	return cnt;
}

/* What a thread has counted of the function. false: nothing, or there is no room for it. refused:
 * how many that was said of. */
static bool read_count(struct inject *in, struct peer *p, unsigned slot, unsigned id,
		       struct ct_count *sum, unsigned *refused)
{
	struct ct_count c;
	bool in_room;

	if (!is_counted(&p->shm, slot, id))
		return false;
	in_room = is_let_in(in, p, slot, id);
	if (!in_room && (*refused)++ >= REFUSED_MAX)
		return false;
	shm__count(&p->shm, slot, id, &c);
	if (in_room)
		add(sum, &c);
	else
		p->uncounted += calls_of(&c);
	return in_room;
}

/* unfinished: nothing but the calls in flight. */
static void read_functions(struct inject *in, struct peer *p, const struct counts *to,
			   bool unfinished)
{
	uint64_t uncounted = p->uncounted;
	unsigned refused = 0;

	if (!unfinished)
		p->uncounted = 0;
	for (unsigned id = 0; id < in->settings.fn_cnt; id++) {
		const struct ct_count_key key = {.life = p->life, .pid = p->pid, .func_id = id};
		struct ct_count sum = {0};
		bool any = false;

		for (unsigned i = 0; i < p->shm.slot_cnt; i++) {
			unsigned cnt = unfinished || p->pidfd < 0 ? in_flight(&p->shm, i, id) : 0;

			sum.unfinished += cnt;
			any |= cnt;
			any |= !unfinished && read_count(in, p, i, id, &sum, &refused);
		}
		if (any)
			to->fn(to->ctx, &key, &sum);
	}
	/* Those for which there is room by now stay lost. */
	if (p->uncounted < uncounted)
		p->uncounted = uncounted;
}

/* One's with a code, of all threads. */
struct error_sum {
	uint32_t func_id;
	int32_t result;
	uint64_t cnt;
};

static void add_error(struct peer *p, struct error_sum *sums, const struct ct_shm_error *e)
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

static void read_errors(const struct inject *in, struct peer *p, const struct counts *to)
{
	struct error_sum sums[CT_SHM_ERRORS] = {0};

	p->errors_uncounted = 0;
	for (unsigned i = 0; i < p->shm.slot_cnt; i++) {
		const struct ct_shm_slot *s = shm__slot(&p->shm, i);

		for (unsigned k = 0; k < CT_SHM_ERRORS; k++) {
			struct ct_shm_error e;

			shm_copy(&e, &s->errors[k], sizeof(e));
			if (e.cnt && e.func_id < in->settings.fn_cnt)
				add_error(p, sums, &e);
		}
	}
	for (unsigned k = 0; k < CT_SHM_ERRORS && sums[k].cnt; k++) {
		const struct ct_error_key key = {.life = p->life,
						 .pid = p->pid,
						 .func_id = sums[k].func_id,
						 .result = sums[k].result};

		to->error_fn(to->ctx, &key, sums[k].cnt);
	}
}

static void read_peer(struct inject *in, struct peer *p, const struct counts *to)
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

	for (unsigned i = 0; i < in->peer_cnt; i++)
		read_peer(in, in->peers[i], &to);
}

void inject__take_counts(struct inject *in, pid_t pid, ct_life life, levels_fn fn,
			 levels_error_fn error_fn, void *ctx)
{
	const struct counts to = {fn, error_fn, ctx};

	for (unsigned i = 0; i < in->peer_cnt; i++) {
		struct peer *p = in->peers[i];

		/* One that runs goes on counting. */
		if (p->pid != pid || (life && p->life && p->life != life) || p->pidfd >= 0)
			continue;
		read_peer(in, p, &to);
		p->counts_taken = true;
	}
}

void inject__unfinished_counts(struct inject *in, levels_fn fn, void *ctx)
{
	const struct counts to = {.fn = fn, .ctx = ctx};

	for (unsigned i = 0; i < in->peer_cnt; i++)
		if (in->peers[i]->pidfd >= 0)
			read_functions(in, in->peers[i], &to, true);
}
