/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "stack.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void json_python(struct json *j, const struct stack *s, unsigned first)
{
	if (first == s->frame_cnt)
		return;
	json_open_array(j, "python");
	for (unsigned i = first; i < s->frame_cnt; i++) {
		const struct stack_frame *f = &s->frames[i];

		json_open(j, NULL);
		if (f->symbol)
			json_str(j, "function", f->symbol);
		if (f->module)
			json_str(j, "file", f->module);
		if (f->line)
			json_u64(j, "line", f->line);
		if (!f->module)
			json_hex(j, "code", f->ip);
		json_close(j);
	}
	json_close_array(j);
}

void json_stack(struct json *j, const struct stack *s)
{
	unsigned i;

	json_u64(j, "id", s->id);
	json_open_array(j, "frames");
	for (i = 0; i < s->frame_cnt && !s->frames[i].python; i++) {
		const struct stack_frame *f = &s->frames[i];

		json_open(j, NULL);
		json_hex(j, "ip", f->ip);
		if (f->module) {
			json_str(j, "module", f->module);
			json_hex(j, "offset", f->offset);
		}
		if (f->build_id)
			json_str(j, "build_id", f->build_id);
		if (f->symbol)
			json_str(j, "symbol", f->symbol);
		json_close(j);
	}
	json_close_array(j);
	json_python(j, s, i);
}

/* "Block.forward (model.py:12)" */
static const char *python_name(const struct stack_frame *f, char *buf, size_t size)
{
	const char *slash = f->module ? strrchr(f->module, '/') : NULL;
	const char *file = slash ? slash + 1 : f->module;

	if (!file)
		snprintf(buf, size, "[python] 0x%" PRIx64, f->ip);
	else
		snprintf(buf, size, "%.120s (%.100s:%" PRIu32 ")",
			 f->symbol ? f->symbol : "[python]", file, f->line);
	return buf;
}

const char *stack_frame_name(const struct stack_frame *f, char *buf, size_t size)
{
	const char *slash;

	if (f->python)
		return python_name(f, buf, size);
	if (f->symbol)
		return f->symbol;
	if (!f->module) {
		snprintf(buf, size, "0x%" PRIx64, f->ip);
		return buf;
	}
	slash = strrchr(f->module, '/');
	snprintf(buf, size, "%.200s+0x%" PRIx64, slash ? slash + 1 : f->module, f->offset);
	return buf;
}

void json_stack_names(struct json *j, const struct stack *s)
{
	char buf[256];

	if (!s)
		return;
	json_open_array(j, "stack");
	for (unsigned i = 0; i < s->frame_cnt; i++)
		json_str(j, NULL, stack_frame_name(&s->frames[i], buf, sizeof(buf)));
	json_close_array(j);
}
