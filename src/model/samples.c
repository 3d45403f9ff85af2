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

void samples__add(struct thread *t, const struct raw_call *sample)
{
	unsigned cnt = sample->python_cnt;
	struct ct_python_frame *frames;
	struct sample *s;

	t->samples = t->samples ?: calloc(1, sizeof(*t->samples));
	if (!t->samples)
		return;
	s = &t->samples->of[sample->call->depth % CT_MAX_DEPTH];
	s->ns = 0;
	if (cnt > s->max) {
		frames = realloc(s->frames, cnt * sizeof(*frames));
		if (!frames)
			return;
		s->frames = frames;
		s->max = cnt;
	}
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

	return s->ns && s->ns <= raw->call->rec.ts_ns && differs >> RAW_ID_BITS &&
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

void thread_samples__free(struct thread *t)
{
	for (unsigned i = 0; t->samples && i < CT_MAX_DEPTH; i++)
		free(t->samples->of[i].frames);
	free(t->samples);
	t->samples = NULL;
}
