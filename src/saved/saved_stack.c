/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Stacks of a saved trace: defined on their own lines, referenced by later calls. */
#include "saved_value.h"

#include <errno.h>

/* Frames of one stack: only a hostile file has more. */
#define FRAMES_MAX 1024

void saved_stack_ids_clear(struct saved *s)
{
	stack_pool__forget_ids(s->stacks);
}

void saved_stacks_free(struct saved *s)
{
	stack_pool__free(s->stacks);
	parser__free(s->list);
	parser__free(s->memory[0]);
	parser__free(s->memory[1]);
}

static void read_frame(struct saved *s, const struct json_value *p, struct stack_frame *f)
{
	const struct member *m;

	m = parsed_find(p, "module");
	f->module = m ? member_str(s, m) : NULL;
	m = parsed_find(p, "build_id");
	f->build_id = m ? member_str(s, m) : NULL;
	m = parsed_find(p, "symbol");
	f->symbol = m ? member_str(s, m) : NULL;
	m = parsed_find(p, f->module ? "offset" : "ip");
	if (m)
		*(f->module ? &f->offset : &f->ip) = member_u64(m);
}

static void read_python(struct saved *s, const struct json_value *p, struct stack_frame *f)
{
	const struct member *m;

	f->python = 1;
	m = parsed_find(p, "file");
	f->module = m ? member_str(s, m) : NULL;
	m = parsed_find(p, "function");
	f->symbol = m ? member_str(s, m) : NULL;
	m = parsed_find(p, f->module ? "line" : "code");
	if (m && f->module)
		f->line = (uint32_t)member_u64(m);
	else if (m)
		f->ip = member_u64(m);
}

static void
read_frames(struct saved *s, const struct json_value *all, struct stack *st, unsigned max,
	    void (*read)(struct saved *s, const struct json_value *p, struct stack_frame *f))
{
	struct json_value one;

	for (unsigned i = 0; i < all->cnt && st->frame_cnt < max; i++)
		if (all->m[i].val == VAL_OBJECT && !parser__slice(s->inner, &all->m[i], &one))
			read(s, &one, &st->frames[st->frame_cnt++]);
}

int saved_stack(struct saved *s, const struct json_value *p, const char **why)
{
	const struct member *id = parsed_find(p, "id"), *frames = parsed_find(p, "frames");
	const struct member *python = parsed_find(p, "python");
	struct stack *st;
	struct json_value all;
	unsigned max;

	*why = "it is a stack without frames: was it changed?";
	if (!id || !frames || frames->val != VAL_ARRAY)
		return -EINVAL;
	*why = "out of memory: close other programs";
	if (!s->list)
		s->list = parser__new();
	if (!s->list || parser__slice(s->list, frames, &all))
		return -EINVAL;
	max = all.cnt;
	if (python && (python->val != VAL_ARRAY || parser__slice(s->list, python, &all)))
		python = NULL;
	max += python ? all.cnt : 0;
	if (max > FRAMES_MAX)
		max = FRAMES_MAX;
	st = stack_pool__make(s->stacks, max);
	if (!st)
		return SAVED_STACK;
	st->id = member_u64(id);
	if (!parser__slice(s->list, frames, &all))
		read_frames(s, &all, st, max, read_frame);
	if (python && !parser__slice(s->list, python, &all))
		read_frames(s, &all, st, max, read_python);
	stack_pool__put(s->stacks, st);
	return SAVED_STACK;
}

const struct stack *saved_stack_of(const struct saved *s, uint64_t number)
{
	return stack_pool__get(s->stacks, number);
}
