/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the model calls things, and an event's meaning as named values. */
#include "driver.h"
#include "event.h"
#include "trace.h"

#include <string.h>

static const char *const type_names[TYPE_CNT] = {
	[TYPE_INIT] = "init",	      [TYPE_DEVICE] = "device",
	[TYPE_CONTEXT] = "context",   [TYPE_MODULE] = "module",
	[TYPE_MEMORY] = "memory",     [TYPE_TRANSFER] = "transfer",
	[TYPE_KERNEL] = "kernel",     [TYPE_GRAPH] = "graph",
	[TYPE_STREAM] = "stream",     [TYPE_EVENT] = "event",
	[TYPE_SYNC] = "sync",	      [TYPE_OCCUPANCY] = "occupancy",
	[TYPE_TEXTURE] = "texture",   [TYPE_INTEROP] = "interop",
	[TYPE_PROFILER] = "profiler", [TYPE_COLLECTIVE] = "collective",
	[TYPE_OTHER] = "other",	      [TYPE_PROCESS] = "process",
	[TYPE_LIBRARY] = "library",   [TYPE_SCHEDULER] = "scheduler",
	[TYPE_XID] = "xid",	      [TYPE_INTERRUPT] = "interrupt",
	[TYPE_UVM] = "uvm",	      [TYPE_TRACER] = "tracer",
	[TYPE_STACK] = "stack",
};

static const char *const drop_names[CT_DROP_CNT] = {
	[CT_DROP_CALL] = "calls",
	[CT_DROP_TASK] = "tasks",
	[CT_DROP_LIB] = "libraries",
	[CT_DROP_THREADS] = "threads",
	[CT_DROP_DEPTH] = "depth",
	[CT_DROP_NV] = "driver",
	[CT_DROP_COUNT] = "counts",
	[CT_DROP_ERRORS] = "errors",
	[CT_DROP_THREADS_SHARE] = "threads_share",
	[CT_DROP_NV_SHARE] = "driver_share",
	[CT_DROP_PROCESSES] = "processes",
};

static const char *const stat_names[CT_STAT_CNT] = {
	[CT_STAT_ENTRIES] = "entries",	     [CT_STAT_RETURNS] = "returns",
	[CT_STAT_ABANDONED] = "abandoned",   [CT_STAT_UNFINISHED] = "unfinished",
	[CT_STAT_FILTERED] = "filtered",     [CT_STAT_ORPHANS] = "orphans",
	[CT_STAT_DUPLICATES] = "duplicates", [CT_STAT_ENTRY_ONLY] = "entry_only",
	[CT_STAT_COUNTED] = "counted",
};

const char *event_type_name(enum event_type t)
{
	return t < TYPE_CNT ? type_names[t] : "other";
}

const char *drop_name(enum ct_drop d)
{
	return d < CT_DROP_CNT && drop_names[d] ? drop_names[d] : "other";
}

const char *stat_name(enum ct_stat s)
{
	return s < CT_STAT_CNT && stat_names[s] ? stat_names[s] : "other";
}

void event_visit_args(const struct event *ev, struct visitor *v)
{
	if (ev->text && v->ops->raw)
		v->ops->raw(v, ev->text->args, ev->text->args_len);
	else if (ev->fn && !ev->text && (ev->word_cnt || ev->cap_cnt)) /* none: --no-args */
		cuda_visit_args(ev->fn, ev->words, ev->word_cnt, ev->caps, ev->cap_cnt, v);
}

static void visit_dim(struct visitor *v, const char *name, const uint32_t dim[3])
{
	v->ops->open_array(v, name);
	for (int i = 0; i < 3; i++)
		v->ops->u64(v, NULL, dim[i]);
	v->ops->close_array(v);
}

static void visit_text(struct visitor *v, const char *name, const char *s)
{
	v->ops->text(v, name, s, strlen(s), false);
}

static void visit_kernel(const struct launch_info *l, struct visitor *v)
{
	const char *name = l->kernel ? l->kernel : l->kernel_mangled;

	if (!name)
		return;
	visit_text(v, "kernel", name);
	if (l->kernel_mangled && name != l->kernel_mangled && strcmp(name, l->kernel_mangled))
		visit_text(v, "kernel_mangled", l->kernel_mangled);
	if (l->kernel_guessed)
		v->ops->sym(v, "kernel_source", "handle");
}

static void visit_launch(const struct launch_info *l, struct visitor *v)
{
	if (l->func)
		v->ops->hex(v, "func", l->func);
	if (l->has_config) {
		visit_dim(v, "grid", l->grid);
		visit_dim(v, "block", l->block);
		v->ops->u64(v, "shared_mem", l->shared_mem_sz);
		if (l->cluster[0] | l->cluster[1] | l->cluster[2])
			visit_dim(v, "cluster", l->cluster);
	}
	if (l->cooperative)
		visit_bool(v, "cooperative", true);
}

void event_visit_fields(const struct event *ev, struct visitor *v)
{
	unsigned has = ev->has;

	if (ev->text) {
		if (v->ops->raw)
			v->ops->raw(v, ev->text->fields, ev->text->fields_len);
		return;
	}
	if (ev->kind == EVENT_TRACER) {
		if (ev->level_from) {
			v->ops->sym(v, "from", ev->level_from);
			v->ops->sym(v, "to", ev->level_to);
		} else {
			v->ops->u64(v, "events", ev->lost);
		}
		visit_text(v, "why", ev->note);
		return;
	}
	if (ev->kind != EVENT_CALL) {
		driver_visit_fields(ev, v);
		return;
	}
	if (has & HAS_IOCTLS) {
		v->ops->u64(v, "ioctls", ev->ioctl_cnt);
		if (ev->ioctl_cnt)
			v->ops->f64(v, "ioctl_us", ev->ioctl_ns / 1e3);
	}
	if (has & HAS_OFF_CPU)
		v->ops->f64(v, "off_cpu_us", ev->off_cpu_ns / 1e3);
	if (has & HAS_SIZE)
		v->ops->u64(v, "size", ev->size);
	if (has & HAS_PTR)
		v->ops->hex(v, "ptr", ev->ptr);
	if (has & HAS_STREAM)
		v->ops->hex(v, "stream", ev->stream);
	if (has & HAS_EVENT)
		v->ops->hex(v, "event", ev->event);
	if ((has & HAS_DIR) && copy_dir_name(ev->dir))
		v->ops->sym(v, "direction", copy_dir_name(ev->dir));
	if (has & HAS_BANDWIDTH)
		v->ops->f64(v, "bandwidth_gbps", ev->bandwidth_gbps);
	if (has & (HAS_LAUNCH | HAS_KERNEL))
		visit_kernel(&ev->launch, v);
	if (has & HAS_LAUNCH)
		visit_launch(&ev->launch, v);
	if (ev->capturing)
		visit_bool(v, "capturing", true);
}
