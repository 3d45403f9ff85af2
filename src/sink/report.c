/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A report of a trace made while tracing: written at the end, in the form of its file's name
 * (report_format_by_path()). */
#include "model/event_table.h"
#include "sink.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "report/format.h"
#include "saved/stack_pool.h"
#include "saved/strings.h"
#include "util/log.h"
#include "util/out.h"
#include "util/memlimit.h"

#define NAME_SLOTS 1024

struct live_report {
	struct sink s;
	struct report *report;
	struct strings *strings;
	struct stack_pool *stacks;
	/* A kernel's name keeps its address while a process has it. */
	struct {
		const char *from, *to;
	} names[NAME_SLOTS];
};

static int live_open(struct sink *s, const struct trace_info *info)
{
	struct live_report *l = (struct live_report *)s;
	struct report_opts opts = {
		.top = REPORT_TOP_DEFAULT,
		.full = true,
		.html = !strcmp(report_format_by_path(s->out->name)->name, "html"),
	};

	l->strings = strings__new();
	l->stacks = stack_pool__new();
	l->report = l->strings && l->stacks ? report__new(&opts, info) : NULL;
	if (l->report)
		return 0;
	err("cannot write a report: out of memory: close other programs");
	return -ENOMEM;
}

static const char *intern(struct live_report *l, const char *s)
{
	return s ? strings__text(l->strings, s, strlen(s)) : NULL;
}

static const char *intern_name(struct live_report *l, const char *name)
{
	unsigned i = ((uintptr_t)name >> 4) % NAME_SLOTS;

	if (name && (l->names[i].from != name || strcmp(l->names[i].to, name) != 0)) {
		l->names[i].from = name;
		l->names[i].to = intern(l, name);
	}
	return name ? l->names[i].to : NULL;
}

/* As in a saved trace: a location in a module, or an address without one. */
static const struct stack *intern_stack(struct live_report *l, const struct stack *stack)
{
	const struct stack *known = stack_pool__get(l->stacks, stack->id);
	struct stack *copy;

	if (known)
		return known;
	copy = stack_pool__make(l->stacks, stack->frame_cnt);
	if (!copy)
		return NULL;
	copy->id = stack->id;
	for (unsigned i = 0; i < stack->frame_cnt; i++) {
		const struct stack_frame *f = &stack->frames[i];

		copy->frames[copy->frame_cnt++] = (struct stack_frame){
			.ip = f->module ? 0 : f->ip,
			.offset = f->module ? f->offset : 0,
			.module = intern(l, f->module),
			.build_id = intern(l, f->build_id),
			.symbol = intern(l, f->symbol),
			.python = f->python,
			.line = f->line,
		};
	}
	return stack_pool__put(l->stacks, copy);
}

/* Copies the texts of its kind. */
static void intern_fields(struct live_report *l, struct trace_event *ev)
{
	const struct event_rows *rows = &event_kinds[ev->kind].rows;

	for (const struct event_field *f = rows->first; f < rows->end; f++) {
		const char **at = (const char **)((char *)ev + f->offset);

		if (f->size && form_is_text(f->form))
			*at = intern(l, *at);
	}
}

/* An event points to data of the model, which later changes or is freed. */
static void live_event(struct sink *s, const struct trace_event *ev)
{
	struct live_report *l = (struct live_report *)s;
	struct driver_info drv;
	struct trace_event copy = *ev;

	/* A definition is no event of its own: the stack comes with the first call that has it. */
	if (ev->kind == EVENT_STACK)
		return;
	memlimit_set_owner(l, ev->pid);
	copy.comm = intern(l, ev->comm);
	copy.stack = ev->stack ? intern_stack(l, ev->stack) : NULL;
	if (ev->kind == EVENT_CALL) {
		copy.launch.kernel = intern_name(l, ev->launch.kernel);
		copy.launch.kernel_mangled = intern_name(l, ev->launch.kernel_mangled);
		copy.range_text = intern_name(l, ev->range_text);
		copy.operator= intern_name(l, ev->operator);
	} else {
		copy.name = intern(l, ev->name);
		copy.op = intern(l, ev->op);
		intern_fields(l, &copy);
	}
	if (ev->drv) {
		drv = *ev->drv;
		drv.device = intern(l, drv.device);
		drv.sched_values = intern(l, drv.sched_values);
		copy.drv = &drv;
	}
	report__event(l->report, &copy);
}

static void live_end(struct sink *s, const struct trace_end *end)
{
	struct live_report *l = (struct live_report *)s;
	struct term term = term_of_fd(s->out->fd);

	report__finish(l->report, end, NULL, 0);
	if (report_format_by_path(s->out->name)->write(l->report, s->out, &term)) {
		out__rollback(s->out);
		s->lost_cnt = s->event_cnt;
		err("cannot write the report to %s: out of memory: close other programs",
		    s->out->name);
	}
	out__commit(s->out);
}

static void live_close(struct sink *s)
{
	struct live_report *l = (struct live_report *)s;

	report__free(l->report);
	stack_pool__free(l->stacks);
	strings__free(l->strings);
}

const struct sink_ops report_sink_ops = {
	.size = sizeof(struct live_report),
	.open = live_open,
	.event = live_event,
	.end = live_end,
	.close = live_close,
};
