/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "samples.h"

#include <stdlib.h>
#include <string.h>

/* One of each number of enclosing calls: calls in flight differ in it. A later call replaces what
 * was sent for one that has no record. */
struct samples {
	struct sample {
		uint64_t ns;		  /* 0: taken */
		uint64_t id, operator_id; /* id: its lower bits are the call's */
		uint8_t python;		  /* CT_PYTHON_F_* */
		unsigned cnt, max;
		struct ct_python_frame *frames;
	} of[CT_MAX_DEPTH];
};

static size_t frames_sz(unsigned cnt)
{
	return cnt ? quota_malloc_sz(cnt * sizeof(struct ct_python_frame)) : 0;
}

/* Makes room for so many frames. */
static bool make_frames(struct quota *q, struct proc *p, struct sample *s, unsigned cnt)
{
	size_t more = frames_sz(cnt) - frames_sz(s->max);
	struct ct_python_frame *frames;

	if (!quota__take(q, &p->samples_share, more))
		return false;
	frames = realloc(s->frames, cnt * sizeof(*frames));
	if (!frames) {
		quota__give(q, &p->samples_share, more);
		return false;
	}
	s->frames = frames;
	s->max = cnt;
	return true;
}

static struct samples *make(struct quota *q, struct proc *p)
{
	size_t size = quota_malloc_sz(sizeof(struct samples));
	struct samples *samples;

	if (!quota__take(q, &p->samples_share, size))
		return NULL;
	samples = calloc(1, sizeof(*samples));
	if (!samples)
		quota__give(q, &p->samples_share, size);
	return samples;
}

void samples__add(struct procs *ps, struct proc *p, struct thread *t, const struct raw_call *sample)
{
	struct quota *q = quotas__get(ps->quotas, QUOTA_SAMPLES);
	unsigned cnt = sample->python_cnt;
	struct sample *s;

	t->samples = t->samples ?: make(q, p);
	if (!t->samples)
		return;
	s = &t->samples->of[sample->call->depth % CT_MAX_DEPTH];
	s->ns = 0;
	if (cnt > s->max && !make_frames(q, p, s, cnt))
		return;
	if (cnt) /* none: no address either */
		memcpy(s->frames, sample->python, cnt * sizeof(*s->frames));
	s->cnt = cnt;
	s->ns = sample->call->rec.ts_ns;
	s->id = sample->id;
	s->operator_id = sample->operator_id;
	s->python = sample->call->python;
}

/* Returns whether it was sent for this call, which another producer has numbered. */
static bool is_of(const struct sample *s, const struct raw_call *raw)
{
	uint64_t differs = s->id ^ raw->id;

	return !(raw->call->rec.flags & CT_CALL_F_REUSED) && s->ns &&
	       s->ns <= raw->call->rec.ts_ns && differs >> RAW_ID_BITS &&
	       !(differs & CT_SAMPLE_ID_MASK);
}

const struct raw_call *samples__join(struct thread *t, const struct raw_call *raw, bool all,
				     struct joined_call *to)
{
	struct sample *s = t->samples->of, *end = s + CT_MAX_DEPTH;

	while (s < end && !is_of(s, raw))
		s++;
	if (s == end)
		return raw;
	s->ns = 0;
	if (!all && !(raw->call->rec.flags & CT_CALL_F_SAMPLED))
		return raw;
	memcpy(&to->call, raw->call, CT_CALL_FIXED_SZ);
	to->call.python = s->python;
	to->call.python_cnt = s->cnt;
	to->raw = *raw;
	to->raw.call = &to->call;
	to->raw.operator_id = s->operator_id;
	to->raw.python = s->frames;
	to->raw.python_cnt = s->cnt;
	return &to->raw;
}

void thread_samples__free(struct procs *ps, struct proc *p, struct thread *t)
{
	size_t size = quota_malloc_sz(sizeof(*t->samples));

	if (!t->samples)
		return;
	for (unsigned i = 0; i < CT_MAX_DEPTH; i++) {
		size += frames_sz(t->samples->of[i].max);
		free(t->samples->of[i].frames);
	}
	quota__give(quotas__get(ps->quotas, QUOTA_SAMPLES), &p->samples_share, size);
	free(t->samples);
	t->samples = NULL;
}
