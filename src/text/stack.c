/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "stack.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void json_stack(struct json *j, const struct stack *s)
{
	json_u64(j, "id", s->id);
	json_open_array(j, "frames");
	for (unsigned i = 0; i < s->frame_cnt; i++) {
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
}

const char *stack_frame_name(const struct stack_frame *f, char *buf, size_t size)
{
	const char *slash;

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
