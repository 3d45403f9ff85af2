/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "event_copy.h"

#include <stdlib.h>
#include <string.h>

#include "model/event_table.h"
#include "saved/stack_pool.h"
#include "saved/strings.h"

#define NAME_SLOTS 1024

struct event_copies {
	struct strings *strings;
	struct stack_pool *stacks;
	/* A kernel's name keeps its address while a process has it. */
	struct {
		const char *from, *to;
	} names[NAME_SLOTS];
	struct trace_event copy;
	struct driver_info drv;
};

struct event_copies *event_copies__new(void)
{
	struct event_copies *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->strings = strings__new();
	c->stacks = stack_pool__new();
	if (c->strings && c->stacks)
		return c;
	event_copies__free(c);
	return NULL;
}

void event_copies__free(struct event_copies *c)
{
	if (!c)
		return;
	stack_pool__free(c->stacks);
	strings__free(c->strings);
	free(c);
}

static const char *intern(struct event_copies *c, const char *s)
{
	return s ? strings__text(c->strings, s, strlen(s)) : NULL;
}

static const char *intern_name(struct event_copies *c, const char *name)
{
	unsigned i = ((uintptr_t)name >> 4) % NAME_SLOTS;

	if (name && (c->names[i].from != name || strcmp(c->names[i].to, name) != 0)) {
		c->names[i].from = name;
		c->names[i].to = intern(c, name);
	}
	return name ? c->names[i].to : NULL;
}

/* Frames are as in a saved trace: a location in a module, or an address without one. */
static const struct stack *intern_stack(struct event_copies *c, const struct stack *stack)
{
	const struct stack *known = stack_pool__get(c->stacks, stack->id);
	struct stack *copy;

	if (known)
		return known;
	copy = stack_pool__make(c->stacks, stack->frame_cnt);
	if (!copy)
		return NULL;
	copy->id = stack->id;
	for (unsigned i = 0; i < stack->frame_cnt; i++) {
		const struct stack_frame *f = &stack->frames[i];

		copy->frames[copy->frame_cnt++] = (struct stack_frame){
			.ip = f->module ? 0 : f->ip,
			.offset = f->module ? f->offset : 0,
			.module = intern(c, f->module),
			.build_id = intern(c, f->build_id),
			.symbol = intern(c, f->symbol),
			.python = f->python,
			.line = f->line,
		};
	}
	return stack_pool__put(c->stacks, copy);
}

/* Copies the texts of its kind. */
static void intern_fields(struct event_copies *c, struct trace_event *ev)
{
	const struct event_rows *rows = &event_kinds[ev->kind].rows;

	for (const struct event_field *f = rows->first; f < rows->end; f++) {
		const char **at = (const char **)((char *)ev + f->offset);

		if (f->size && form_is_text(f->form))
			*at = intern(c, *at);
	}
}

const struct trace_event *event_copy(struct event_copies *c, const struct trace_event *ev)
{
	struct trace_event *copy = &c->copy;

	*copy = *ev;
	copy->comm = intern(c, ev->comm);
	copy->stack = ev->stack ? intern_stack(c, ev->stack) : NULL;
	if (ev->kind == EVENT_CALL) {
		copy->launch.kernel = intern_name(c, ev->launch.kernel);
		copy->launch.kernel_mangled = intern_name(c, ev->launch.kernel_mangled);
		copy->range_text = intern_name(c, ev->range_text);
		copy->operator= intern_name(c, ev->operator);
	} else {
		copy->name = intern(c, ev->name);
		copy->op = intern(c, ev->op);
		intern_fields(c, copy);
	}
	if (ev->drv) {
		c->drv = *ev->drv;
		c->drv.device = intern(c, ev->drv->device);
		c->drv.sched_values = intern(c, ev->drv->sched_values);
		copy->drv = &c->drv;
	}
	return copy;
}
