/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "timeline.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "decode/nv/nv_decode.h"
#include "model/losses.h"
#include "text/kernel_name.h"
#include "text/losses_text.h"

const char *timeline_name(const struct trace_event *ev, char buf[TIMELINE_NAME_SZ], size_t *len)
{
	const char *name = ev->name;

	if (timeline_kernel(ev))
		return kernel_short_name(timeline_kernel(ev), len);
	if (ev->kind == EVENT_DRIVER && ev->drv->io && ev->drv->io->class) {
		snprintf(buf, TIMELINE_NAME_SZ, "alloc %s", ev->drv->io->class->name);
		name = buf;
	} else if (ev->kind == EVENT_RANGE) {
		name = ev->range.text ?: name;
	} else if (ev->kind == EVENT_XID) {
		snprintf(buf, TIMELINE_NAME_SZ, "Xid %u", ev->xid.xid);
		name = buf;
	} else if (ev->kind == EVENT_CTXSW && ev->pid) {
		snprintf(buf, TIMELINE_NAME_SZ, "%.32s %u", ev->comm, ev->pid);
		name = buf;
	} else if (ev->kind == EVENT_CTXSW) {
		name = ev->ctxsw.owner ?: name;
	}
	*len = strlen(name);
	return name;
}

const struct trace_event *timeline_place(const struct trace_event *ev, struct timeline_place *to)
{
	to->has_call = false;
	if (ev->kind != EVENT_GPU && !event_is_range(ev))
		return ev;
	to->ev = *ev;
	if (event_is_range(ev)) {
		to->ev.tid = range_row_tid(ev);
		range_row_name(ev, to->row);
		to->ev.comm = to->row;
		return &to->ev;
	}
	to->ev.tid = gpu_row_tid(ev);
	gpu_row_name(ev, to->row);
	to->ev.comm = to->row;
	to->has_call = ev->gpu.call && ev->tid;
	to->call =
		(struct flow_launch){.start_ns = ev->start_ns - ev->gpu.queue_ns, .tid = ev->tid};
	return &to->ev;
}

void timeline_gpu_row(const struct trace_event *ev, char buf[TIMELINE_NAME_SZ])
{
	snprintf(buf, TIMELINE_NAME_SZ, "GPU %u: contexts", ev->ctxsw.minor);
}

bool timeline_is_instant(const struct trace_event *ev)
{
	if (ev->kind == EVENT_GPU_STATS)
		return strcmp(ev->op, "sample") && strcmp(ev->op, "process");
	if (ev->kind == EVENT_GPU_METRICS)
		return strcmp(ev->op, "sample");
	if (ev->kind == EVENT_NETWORK)
		return false;
	if (ev->kind == EVENT_ALLOCATOR)
		return !strcmp(ev->op, "oom");
	return ev->kind != EVENT_STACK && !timeline_is_slice(ev);
}

static void put_text(struct visitor *v, const char *name, const char *s)
{
	if (s)
		v->ops->text(v, name, s, strlen(s), false);
	else
		v->ops->none(v, name);
}

void timeline_result(const struct trace_event *ev, struct visitor *v, bool ok)
{
	const char *error;

	if (ev->unfinished)
		visit_bool(v, "unfinished", true);
	if (ev->abandoned)
		visit_bool(v, "abandoned", true);
	if (ev->entry_only)
		visit_bool(v, "entry_only", true);
	if (!ev->fn || !event_returned(ev) || ev->fn->no_result)
		return;
	if (ok || ev->result)
		v->ops->i64(v, "result", ev->result);
	if (!ev->is_error)
		return;
	error = fn_result_name(ev->fn, ev->result);
	v->ops->sym(v, "error", error ? error : "unknown");
}

static void put_libs(const struct trace_info *info, struct visitor *v)
{
	v->ops->open_array(v, "libs");
	for (unsigned i = 0; i < info->lib_cnt; i++) {
		v->ops->open(v, NULL);
		put_text(v, "path", info->libs[i].path);
		put_text(v, "build_id", info->libs[i].build_id);
		v->ops->u64(v, "functions", info->libs[i].attached_cnt);
		v->ops->close(v);
	}
	v->ops->close_array(v);
}

static void put_wall_time(uint64_t ns, struct visitor *v)
{
	time_t sec = ns / 1000000000;
	char date[32], text[64];
	struct tm tm;

	gmtime_r(&sec, &tm);
	strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(text, sizeof(text), "%s.%09uZ", date, (unsigned)(ns % 1000000000));
	put_text(v, "wall_time", text);
}

void timeline_begin(const struct trace_info *info, struct visitor *v)
{
	put_text(v, "cudatrace", info->version);
	if (info->argv) {
		v->ops->open_array(v, "command");
		for (unsigned i = 0; i < info->argc; i++)
			put_text(v, NULL, info->argv[i]);
		v->ops->close_array(v);
	}
	put_text(v, "hostname", info->hostname);
	put_text(v, "kernel", info->kernel);
	put_text(v, "machine", info->machine);
	put_text(v, "driver", info->driver_version);
	v->ops->i64(v, "cuda_version", info->cuda_version);
	put_libs(info, v);
	put_text(v, "traced", info->traced);
	put_text(v, "not_traced", info->not_traced);
	put_text(v, "mechanism", info->mechanism);
	if (info->kernel_probe)
		put_text(v, "kernel_probe", info->kernel_probe);
	if (info->gpu_ctxsw)
		put_text(v, "gpu_ctxsw", info->gpu_ctxsw);
	if (info->redacted)
		put_text(v, "redacted", info->redacted);
	v->ops->open_array(v, "degraded");
	for (unsigned i = 0; i < info->degraded_cnt; i++)
		put_text(v, NULL, info->degraded[i]);
	v->ops->close_array(v);
	v->ops->f64(v, "probe_cost_ns", info->probe_cost_ns);
	put_wall_time(info->wall_ns, v);
	if (info->segment)
		v->ops->u64(v, "segment", info->segment);
	/* A tracer that is killed cannot write more. */
	put_text(v, "without_trace_ends", "incomplete: cut off, or still being written");
}

static struct losses losses_of(const struct trace_end *end, uint64_t not_written)
{
	struct losses l = {0};

	if (end->lost)
		l = *end->lost;
	else
		losses__end(&l, end);
	l.cnt[LOSS_LINES] += not_written;
	return l;
}

void timeline_losses(const struct trace_end *end, uint64_t not_written, struct visitor *v)
{
	struct losses l = losses_of(end, not_written);
	struct loss_row row;
	char name[64];

	for (unsigned i = 0; losses__next(&l, &i, &row);) {
		snprintf(name, sizeof(name), "%s%s", row.prefix, row.id);
		v->ops->u64(v, name, row.cnt);
	}
}

bool timeline_lost(const struct trace_end *end, uint64_t not_written, char buf[TIMELINE_LOST_SZ])
{
	static const char before[] = "INCOMPLETE, missing: ";
	const size_t n = sizeof(before) - 1;
	struct losses l = losses_of(end, not_written);

	memcpy(buf, before, n);
	return !end->goes_on && losses_line(&l, buf + n, TIMELINE_LOST_SZ - n);
}

void timeline_end(const struct trace_end *end, uint64_t not_written, uint64_t forgotten,
		  struct visitor *v)
{
	char text[TIMELINE_LOST_SZ];

	put_text(v, "reason", end->reason);
	if (!end->goes_on) {
		bool complete = !timeline_lost(end, not_written, text);

		if (v->ops->boolean)
			v->ops->boolean(v, "complete", complete);
		else
			v->ops->u64(v, "complete", complete);
		v->ops->open(v, "lost");
		timeline_losses(end, not_written, v);
		v->ops->close(v);
	}
	v->ops->u64(v, "events", end->event_cnt);
	v->ops->u64(v, "calls", end->call_cnt);
	v->ops->u64(v, "counted", end->stats[CT_STAT_COUNTED]);
	v->ops->u64(v, "not_written", not_written);
	v->ops->u64(v, "bad_records", end->bad_record_cnt);
	v->ops->open(v, "drops");
	for (unsigned i = 0; i < CT_DROP_CNT; i++)
		v->ops->u64(v, drop_name(i), end->drops[i]);
	v->ops->close(v);
	v->ops->u64(v, "forgotten", forgotten);
	v->ops->f64(v, "probe_cost_ns", end->probe_cost_ns);
	v->ops->f64(v, "cost_ms", end->cost_ns / 1e6);
	v->ops->f64(v, "cost_share", end->cost_share);
	v->ops->f64(v, "max_thread_overhead", end->max_thread_overhead);
}
