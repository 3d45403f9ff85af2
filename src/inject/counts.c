/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Calls that were counted: each thread has sums of its own, which are added up here. */
#include "inject_priv.h"

#include <string.h>

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

/* Of a thread's calls in flight, those of the function that are counted. */
static unsigned in_flight(const struct shm *m, unsigned slot, unsigned id)
{
	unsigned cnt = 0;

	for (unsigned d = shm__depth(m, slot); d-- > 0;) {
		const struct ct_frame *f = &shm__slot(m, slot)->frames[d];

		cnt += f->func_id == id && f->flags & CT_FRAME_F_COUNTED;
	}
	return cnt;
}

/* unfinished: nothing but the calls in flight. */
static void read_functions(const struct inject *in, const struct peer *p, const struct counts *to,
			   bool unfinished)
{
	for (unsigned id = 0; id < in->settings.fn_cnt; id++) {
		const struct ct_count_key key = {.life = p->life, .pid = p->pid, .func_id = id};
		struct ct_count sum = {0};
		bool any = false;

		for (unsigned i = 0; i < p->shm.slot_cnt; i++) {
			unsigned cnt = unfinished || p->pidfd < 0 ? in_flight(&p->shm, i, id) : 0;

			sum.unfinished += cnt;
			any |= cnt;
			if (unfinished || !is_counted(&p->shm, i, id))
				continue;
			any = true;
			add(&sum, &shm__counts(&p->shm, i)[id]);
		}
		if (any)
			to->fn(to->ctx, &key, &sum);
	}
}

static void read_errors(const struct inject *in, const struct peer *p, const struct counts *to)
{
	for (unsigned i = 0; i < p->shm.slot_cnt; i++) {
		const struct ct_shm_slot *s = shm__slot(&p->shm, i);

		for (unsigned k = 0; k < CT_SHM_ERRORS; k++) {
			struct ct_error_key key = {.life = p->life, .pid = p->pid};
			struct ct_shm_error e;

			shm_copy(&e, &s->errors[k], sizeof(e));
			key.func_id = e.func_id;
			key.result = e.result;
			if (e.cnt && e.func_id < in->settings.fn_cnt)
				to->error_fn(to->ctx, &key, e.cnt);
		}
	}
}

static void read_peer(const struct inject *in, const struct peer *p, const struct counts *to)
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
		if (p->pid != pid || (life && p->life != life) || p->pidfd >= 0)
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
