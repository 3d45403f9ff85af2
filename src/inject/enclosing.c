/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Finds the library's calls that enclosed a recent moment in a thread. Their records are still in
 * the ring, because a call's record is sent at its end; or they have not returned. */
#include "inject_priv.h"

#include "util/time_budget.h"

/* Maximum records searched for one call. */
#define RECORDS_MAX 4096

struct search {
	uint64_t at_ns;
	const struct fnset *fns;
	struct inject_enclosing *out;
	uint64_t ids[2 * CT_MAX_DEPTH]; /* as the process numbers them */
	uint64_t inner;			/* of the last that began */
};

static void note(struct search *s, uint64_t id, unsigned api, uint64_t start_ns)
{
	struct inject_enclosing *out = s->out;

	/* Already found in the ring: its frame is about to be removed. */
	for (unsigned i = 0; i < out->cnt; i++)
		if (s->ids[i] == id)
			return;
	if (out->cnt == sizeof(s->ids) / sizeof(s->ids[0]))
		return;
	s->ids[out->cnt++] = id;
	if (api < API_CNT)
		out->of_api[api]++;
	if (out->cnt > 1 && start_ns < out->start_ns)
		return;
	s->inner = id;
	out->start_ns = start_ns;
}

static void look_at_frames(struct search *s, const struct shm *m, unsigned slot)
{
	for (unsigned i = 0, depth = shm__depth(m, slot); i < depth; i++) {
		struct ct_frame f;

		shm_copy(&f, &shm__slot(m, slot)->frames[i], sizeof(f));
		if (f.start_ns > s->at_ns || f.flags & CT_FRAME_F_COUNTED)
			continue;
		/* On another stack: the earlier calls do not enclose it. */
		if (!f.depth)
			*s->out = (struct inject_enclosing){0};
		note(s, f.call_id, f.api, f.start_ns);
	}
}

static void on_record(void *ctx, const struct ct_call *c)
{
	struct search *s = ctx;
	const struct api_fn *fn;

	if (c->rec.flags & CT_CALL_F_ENTRY_ONLY || c->rec.ts_ns > s->at_ns || c->end_ns < s->at_ns)
		return;
	fn = fnset__fn(s->fns, c->func_id);
	note(s, c->call_id, fn ? fn->api : API_CNT, c->rec.ts_ns);
}

void inject__enclosing(struct inject *in, pid_t pid, uint32_t tid, uint64_t at_ns,
		       struct inject_enclosing *out)
{
	struct work w;

	*out = (struct inject_enclosing){0};
	for (unsigned i = 0; i < in->client_cnt; i++) {
		struct client *p = in->clients[i];

		for (unsigned k = 0; p->pid == pid && k < p->shm.slot_cnt; k++) {
			struct search s = {.at_ns = at_ns, .fns = in->settings.fns, .out = out};

			if (p->shm.slots[k].tid != tid)
				continue;
			/* Frames must be read before records, because a record is written before
			 * its frame is removed. */
			look_at_frames(&s, &p->shm, k);
			if (!time_budget__begin(&w, p->uid, WORK_RINGS)) {
				shm__each_call(&p->shm, k, RECORDS_MAX, on_record, &s);
				time_budget__end(&w);
			}
			if (!out->cnt)
				continue;
			out->id = clients__trace_id(in, &p->shm.slots[k], s.inner);
			return;
		}
	}
}
