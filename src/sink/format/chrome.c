/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Trace Event Format for chrome://tracing and Perfetto: a JSON array, one event a line, each but
 * the last followed by a comma. Both viewers load an array without an end, so a file that was cut
 * off or is still being written is valid. More: docs/CHROME.md.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "track_state.h"
#include "model/event_table.h"
#include "text/json.h"
#include "sink/sink.h"
#include "text/stack.h"
#include "timeline.h"
#include "util/log.h"
#include "util/out.h"

/* Enough for the closing line, also when it replaces others on a full disk. */
#define CLOSING_SZ 8192

struct chrome {
	struct sink sink;
	struct track_state tracks;
	uint64_t arrow_cnt;
	uint64_t gpu_rows; /* named in this file */
};

static const char *const type_cname[TYPE_CNT] = {
#define CLASS(id, name, TYPE, type, detail, queries, chrome, ...) [TYPE_##TYPE] = chrome,
#include "decode/cuda_classes.def"
#undef CLASS
};

/* Writes nanoseconds of the monotonic clock as microseconds of the trace. A call may have begun
 * before the trace. */
static void put_ts(struct chrome *c, uint64_t ns)
{
	struct out *o = c->sink.out;

	if (ns < c->sink.base_ns) {
		out_char(o, '-');
		out_milli(o, c->sink.base_ns - ns);
	} else {
		out_milli(o, ns - c->sink.base_ns);
	}
}

static void put_str(struct out *o, const char *s)
{
	out_json_str(o, s, strlen(s));
}

static void put_head(struct chrome *c, const char *name, size_t name_len, const char *cat,
		     const char *ph, uint64_t ts_ns)
{
	struct out *o = c->sink.out;

	out_lit(o, "{\"name\":");
	out_json_str(o, name, name_len);
	if (cat) {
		out_lit(o, ",\"cat\":\"");
		out_str(o, cat);
		out_char(o, '"');
	}
	out_lit(o, ",\"ph\":\"");
	out_str(o, ph);
	out_lit(o, "\",\"ts\":");
	put_ts(c, ts_ns);
}

static void put_ids(struct chrome *c, uint32_t pid, uint32_t tid)
{
	struct out *o = c->sink.out;

	out_lit(o, ",\"pid\":");
	out_u64(o, pid);
	out_lit(o, ",\"tid\":");
	out_u64(o, tid);
}

static void next_line(struct chrome *c)
{
	out_lit(c->sink.out, ",\n");
	out__commit(c->sink.out);
}

/* Names of processes and threads, and their display order. */
static void put_meta(struct chrome *c, const char *what, uint32_t pid, uint32_t tid,
		     const char *name, int index)
{
	struct out *o = c->sink.out;

	out_lit(o, "{\"name\":\"");
	out_str(o, what);
	out_lit(o, "\",\"ph\":\"M\"");
	put_ids(c, pid, tid);
	if (name) {
		out_lit(o, ",\"args\":{\"name\":");
		put_str(o, name);
	} else {
		out_lit(o, ",\"args\":{\"sort_index\":");
		if (index < 0)
			out_char(o, '-');
		out_u64(o, index < 0 ? -index : index);
	}
	out_lit(o, "}}");
	next_line(c);
}

/* GPUs are threads of process 0. */
static uint32_t gpu_tid(const struct trace_event *ev)
{
	return ev->ctxsw.minor + 1;
}

static void put_gpu_name(struct chrome *c, const struct trace_event *ev)
{
	uint64_t bit = 1ull << (ev->ctxsw.minor & 63);
	char row[TIMELINE_NAME_SZ];

	if (c->gpu_rows & bit)
		return;
	if (!c->gpu_rows)
		put_meta(c, "process_name", 0, 0, "GPUs", 0);
	c->gpu_rows |= bit;
	timeline_gpu_row(ev, row);
	put_meta(c, "thread_name", 0, gpu_tid(ev), row, 0);
}

static void put_names(struct chrome *c, const struct trace_event *ev)
{
	const struct track_state *b = &c->tracks;

	if (ev->kind == EVENT_CTXSW)
		put_gpu_name(c, ev);
	if (b->new_process)
		put_meta(c, "process_sort_index", ev->pid, ev->pid, NULL, b->index);
	if (b->process[0])
		put_meta(c, "process_name", ev->pid, ev->pid, b->process, 0);
	if (b->thread[0])
		put_meta(c, "thread_name", ev->pid, ev->tid, b->thread, 0);
	if (b->thread[0] && event_is_range(ev))
		put_meta(c, "thread_sort_index", ev->pid, ev->tid, NULL, -1);
}

static void put_counter(struct chrome *c, const struct track_counter *value)
{
	const struct chrome_counter *counter = value->counter;
	struct out *o = c->sink.out;

	put_head(c, counter->name, strlen(counter->name), counter->cat, "C", value->ts_ns);
	out_lit(o, ",\"pid\":");
	out_u64(o, value->pid);
	out_lit(o, ",\"args\":{\"");
	out_str(o, counter->unit);
	out_lit(o, "\":");
	if (counter->is_milli)
		out_milli(o, value->value);
	else
		out_u64(o, value->value);
	out_lit(o, "}}");
	next_line(c);
}

static void put_counters(struct chrome *c)
{
	for (unsigned i = 0; i < c->tracks.counter_cnt; i++)
		put_counter(c, &c->tracks.counters[i]);
}

static void put_arrow_end(struct chrome *c, const char *name, const char *ph, uint64_t ts_ns,
			  uint32_t pid, uint32_t tid)
{
	struct out *o = c->sink.out;

	put_head(c, name, strlen(name), "sync", ph, ts_ns);
	out_lit(o, ",\"id\":");
	out_u64(o, c->arrow_cnt);
	put_ids(c, pid, tid);
}

/* Both ends are written on one line, when the waiting call is known, so no arrow lacks an end. They
 * lie at the very start of their calls, where no nested call can be mistaken for them. */
static void put_arrow(struct chrome *c, const char *name, const struct flow_launch *from,
		      const struct trace_event *to)
{
	c->arrow_cnt++;
	put_arrow_end(c, name, "s", from->start_ns, to->pid, from->tid);
	out_lit(c->sink.out, "},");
	put_arrow_end(c, name, "f", to->start_ns, to->pid, to->tid);
	out_lit(c->sink.out, ",\"bp\":\"e\"}");
	next_line(c);
}

static void put_call_args(struct chrome *c, const struct trace_event *ev)
{
	struct json j;

	out_lit(c->sink.out, ",\"args\":");
	json__init(&j, c->sink.out);
	json_open(&j, NULL);
	if (ev->kind == EVENT_CALL && timeline_kernel(ev))
		json_str(&j, "call", ev->name);
	if (ev->fn && strcmp(ev->fn->symbol, ev->name))
		json_str(&j, "symbol", ev->fn->symbol);
	event_visit_fields(ev, &j.v);
	if (ev->kind == EVENT_CALL || ev->kind == EVENT_CTXSW || event_is_range(ev))
		timeline_result(ev, &j.v, true);
	json_stack_names(&j, ev->stack);
	if (ev->fn && event_has_args(ev)) {
		json_open(&j, "args");
		event_visit_args(ev, &j.v);
		json_close(&j);
	}
	json_close(&j);
}

/* The colour of the call that enqueues such work. */
static const char *cname_of_gpu(const struct trace_event *ev)
{
	switch (ev->op[0]) {
	case 'k':
		return type_cname[TYPE_KERNEL];
	case 'g':
		return type_cname[TYPE_GRAPH];
	default:
		return type_cname[TYPE_TRANSFER];
	}
}

/* A complete event ("X") even when the call never returned: viewers draw a begin without an end to
 * the end of the trace, over everything that the thread did afterwards. */
static void put_call(struct chrome *c, const struct trace_event *ev)
{
	struct out *o = c->sink.out;
	const char *cname = type_cname[ev->type], *name;
	char buf[TIMELINE_NAME_SZ];
	size_t len;

	name = timeline_name(ev, buf, &len);
	put_head(c, name, len, event_type_name(ev->type), "X", ev->start_ns);
	out_lit(o, ",\"dur\":");
	out_milli(o, event_duration_ns(ev));
	if (ev->kind == EVENT_CTXSW)
		put_ids(c, 0, gpu_tid(ev));
	else
		put_ids(c, ev->pid, ev->tid);
	if (ev->kind == EVENT_DRIVER)
		cname = "generic_work";
	if (ev->kind == EVENT_GPU)
		cname = cname_of_gpu(ev);
	if (ev->is_error && event_returned(ev))
		cname = "terrible";
	if (cname) {
		out_lit(o, ",\"cname\":\"");
		out_str(o, cname);
		out_char(o, '"');
	}
	put_call_args(c, ev);
	out_char(o, '}');
	next_line(c);
}

/* Events without a duration. A GPU error concerns all processes, and so do the tracer's events: a
 * line across all tracks. */
static void put_instant(struct chrome *c, const struct trace_event *ev)
{
	bool is_global = event_is(ev, IS_GLOBAL) || !ev->pid;
	char buf[TIMELINE_NAME_SZ];
	const char *name;
	struct json j;
	size_t len;

	name = timeline_name(ev, buf, &len);
	put_head(c, name, len, event_type_name(ev->type), "i", ev->start_ns);
	out_str(c->sink.out, is_global		       ? ",\"s\":\"g\""
			     : ev->kind == EVENT_RANGE ? ",\"s\":\"t\""
						       : ",\"s\":\"p\"");
	put_ids(c, ev->pid, ev->tid);
	out_lit(c->sink.out, ",\"args\":");
	json__init(&j, c->sink.out);
	json_open(&j, NULL);
	if (ev->op)
		json_sym(&j, "op", ev->op);
	event_visit_fields(ev, &j.v);
	json_close(&j);
	out_char(c->sink.out, '}');
	next_line(c);
}

static void put_global(struct chrome *c, struct json *j, const char *name, uint64_t ts_ns)
{
	put_head(c, name, strlen(name), "trace", "i", ts_ns);
	out_lit(c->sink.out, ",\"s\":\"g\"");
	put_ids(c, 0, 0);
	out_lit(c->sink.out, ",\"args\":");
	json__init(j, c->sink.out);
	json_open(j, NULL);
}

static void put_header(struct chrome *c, const struct trace_info *info)
{
	struct json j;

	put_global(c, &j, "trace begins", info->segment ? info->segment_ns : info->base_ns);
	timeline_begin(info, &j.v);
	json_close(&j);
	out_char(c->sink.out, '}');
	next_line(c);
}

static int begin_file(struct sink *s, const struct trace_info *info)
{
	struct chrome *c = (struct chrome *)s;

	out_lit(s->out, "[\n");
	out__commit(s->out);
	put_header(c, info);
	/* Detect an output that cannot be written before the start. */
	out__flush(s->out);
	return s->out->failed ? -s->out->error : 0;
}

static int chrome_open(struct sink *s, const struct trace_info *info)
{
	struct chrome *c = (struct chrome *)s;

	if (track_state__init(&c->tracks)) {
		err("cannot write a Chrome trace: out of memory: close other programs");
		return -ENOMEM;
	}
	return begin_file(s, info);
}

static int chrome_next_file(struct sink *s, const struct trace_info *info)
{
	track_state__next_file(&((struct chrome *)s)->tracks);
	((struct chrome *)s)->gpu_rows = 0;
	return begin_file(s, info);
}

static void put_event(struct chrome *c, const struct trace_event *ev,
		      const struct timeline_place *place)
{
	put_names(c, ev);
	if (timeline_is_slice(ev))
		put_call(c, ev);
	else if (timeline_is_instant(ev))
		put_instant(c, ev);
	/* After the call: both viewers look for an arrow's end among events already read. */
	for (unsigned i = 0; i < c->tracks.arrow_cnt; i++)
		put_arrow(c, "waited for", &c->tracks.arrows[i], ev);
	if (place->has_call)
		put_arrow(c, "enqueued", &place->call, ev);
	put_counters(c);
}

static void chrome_event(struct sink *s, const struct trace_event *ev)
{
	struct chrome *c = (struct chrome *)s;
	struct timeline_place place;

	ev = timeline_place(ev, &place);
	track_state__event(&c->tracks, ev);
	put_event(c, ev, &place);
}

static void chrome_again(struct sink *s, const struct trace_event *ev)
{
	struct chrome *c = (struct chrome *)s;
	struct timeline_place place;

	ev = timeline_place(ev, &place);
	track_state__again(&c->tracks, ev);
	put_event(c, ev, &place);
}

static uint64_t not_written(const struct chrome *c)
{
	return c->sink.lost_cnt + c->sink.out->lost;
}

/* The last line: an event without a comma. */
static void put_closing(struct chrome *c, const struct trace_end *end)
{
	struct json j;

	put_global(c, &j, "trace ends", end->end_ns);
	timeline_end(end, not_written(c), track_state__forgotten(&c->tracks), &j.v);
	json_close(&j);
	out_lit(c->sink.out, "}]\n");
	out__commit(c->sink.out);
}

/* A prominent line across all tracks. */
static void put_losses(struct chrome *c, const struct trace_end *end)
{
	char name[TIMELINE_LOST_SZ];
	struct json j;

	if (!timeline_lost(end, not_written(c), name))
		return;
	put_global(c, &j, name, end->end_ns);
	timeline_losses(end, not_written(c), &j.v);
	json_close(&j);
	out_char(c->sink.out, '}');
	next_line(c);
}

/* On a full disk the closing lines replace the last ones. */
static void chrome_end(struct sink *s, const struct trace_end *end)
{
	struct chrome *c = (struct chrome *)s;
	int tries;

	if (!s->out->failed && !end->goes_on) {
		track_state__rest(&c->tracks);
		put_counters(c);
	}
	out__flush(s->out);
	for (tries = 0; tries < 2; tries++) {
		if (s->out->failed && out__make_room(s->out, CLOSING_SZ) < 0)
			return;
		put_losses(c, end);
		put_closing(c, end);
		out__flush(s->out);
		if (!s->out->failed)
			return;
	}
}

static void chrome_close(struct sink *s)
{
	struct chrome *c = (struct chrome *)s;

	track_state__free(&c->tracks);
}

const struct sink_ops chrome_sink_ops = {
	.size = sizeof(struct chrome),
	.open = chrome_open,
	.event = chrome_event,
	.next_file = chrome_next_file,
	.again = chrome_again,
	.end = chrome_end,
	.close = chrome_close,
};
