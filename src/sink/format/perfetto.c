/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Perfetto's own format: protocol buffer packets with track events. It shows the same as the Chrome
 * trace in a sixth of the bytes. More: docs/PERFETTO.md.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "track_state.h"
#include "model/event_table.h"
#include "perfetto_args.h"
#include "perfetto_fields.h"
#include "perfetto_seq.h"
#include "sink/sink.h"
#include "timeline.h"
#include "util/log.h"
#include "util/pb.h"

/* Enough for the closing packets, also when they replace others on a full disk. */
#define CLOSING_SZ 8192

struct perfetto {
	struct sink sink;
	struct pseq q;
	struct track_state tracks;
	struct out *scratch;
	uint64_t arrow_cnt;
	/* Names of launches, by the number of the kernel's full name: number of an event's name, 0:
	 * not known. */
	uint32_t *short_names;
	unsigned cleared; /* q's count of clears when they were valid */
};

enum track_kind { TRACK_OF_PROCESS, TRACK_OF_THREAD, TRACK_OF_COUNTER, TRACK_OF_ROW };

/* Opens a packet that describes a track from ns on; the caller fills and closes it. */
static struct out *open_track(struct perfetto *p, uint64_t uuid, uint64_t ns)
{
	pseq__open(&p->q, PACKET_TRACK_DESCRIPTOR, ns);
	pb_u64(p->q.packet, TRACK_UUID, uuid);
	return p->q.packet;
}

static void close_track(struct perfetto *p)
{
	pseq__close(&p->q);
	pseq__commit(&p->q);
}

/* name: NULL when unchanged. */
static uint64_t process_track(struct perfetto *p, uint32_t pid, const char *name, uint64_t ns)
{
	bool is_new;
	uint64_t uuid = pseq__track(&p->q, TRACK_OF_PROCESS, &pid, sizeof(pid), &is_new);
	struct out *o;
	size_t at;

	if (!is_new && !name)
		return uuid;
	o = open_track(p, uuid, ns);
	at = pb_open(o, TRACK_PROCESS);
	pb_u64(o, PROCESS_PID, pid);
	if (name)
		pb_text(o, PROCESS_NAME, name, strlen(name));
	pb_close(o, at);
	close_track(p);
	return uuid;
}

static uint64_t thread_track(struct perfetto *p, uint32_t pid, uint32_t tid, const char *name,
			     uint64_t ns)
{
	const uint32_t ids[] = {pid, tid};
	bool is_new;
	uint64_t uuid = pseq__track(&p->q, TRACK_OF_THREAD, ids, sizeof(ids), &is_new), parent;
	struct out *o;
	size_t at;

	if (!is_new && !name)
		return uuid;
	parent = process_track(p, pid, NULL, ns);
	o = open_track(p, uuid, ns);
	pb_u64(o, TRACK_PARENT_UUID, parent);
	at = pb_open(o, TRACK_THREAD);
	pb_u64(o, THREAD_PID, pid);
	pb_u64(o, THREAD_TID, tid);
	if (name)
		pb_text(o, THREAD_NAME, name, strlen(name));
	pb_close(o, at);
	close_track(p);
	return uuid;
}

/* A track with a name of ours in a process, or outside of any with pid 0. */
static uint64_t named_track(struct perfetto *p, enum track_kind kind, uint32_t pid,
			    const char *name, const char *unit, uint64_t ns)
{
	size_t len = strnlen(name, 100);
	bool is_new;
	char key[104];
	uint64_t uuid, parent;
	struct out *o;
	size_t at;

	memcpy(key, &pid, sizeof(pid));
	memcpy(key + sizeof(pid), name, len);
	uuid = pseq__track(&p->q, kind, key, sizeof(pid) + len, &is_new);
	if (!is_new)
		return uuid;
	parent = pid ? process_track(p, pid, NULL, ns) : 0;
	o = open_track(p, uuid, ns);
	if (parent)
		pb_u64(o, TRACK_PARENT_UUID, parent);
	pb_text(o, TRACK_NAME, name, strlen(name));
	if (unit) {
		at = pb_open(o, TRACK_COUNTER);
		if (!strcmp(unit, "bytes"))
			pb_u64(o, COUNTER_UNIT, UNIT_SIZE_BYTES);
		else
			pb_text(o, COUNTER_UNIT_NAME, unit, strlen(unit));
		pb_close(o, at);
	}
	close_track(p);
	return uuid;
}

static void put_name_iid(struct perfetto *p, uint64_t name, const char *category)
{
	pb_u64(p->q.packet, EVENT_NAME_IID, name);
	pb_u64(p->q.packet, EVENT_CATEGORY_IIDS,
	       pseq__text(&p->q, INTERNED_EVENT_CATEGORIES, category, strlen(category)));
}

static void put_name(struct perfetto *p, const char *name, size_t len, const char *category)
{
	put_name_iid(p, pseq__text(&p->q, INTERNED_EVENT_NAMES, name, len), category);
}

/* The name of a slice. A kernel's is cached for its launches. */
static uint64_t name_iid(struct perfetto *p, const struct trace_event *ev, uint64_t kernel)
{
	char buf[TIMELINE_NAME_SZ];
	const char *name;
	uint64_t iid;
	size_t len;

	if (p->cleared != p->q.cleared) {
		memset(p->short_names, 0, PSEQ_TEXTS_MAX * sizeof(*p->short_names));
		p->cleared = p->q.cleared;
	}
	if (kernel && kernel < PSEQ_TEXTS_MAX && p->short_names[kernel])
		return p->short_names[kernel];
	name = timeline_name(ev, buf, &len);
	iid = pseq__text(&p->q, INTERNED_EVENT_NAMES, name, len);
	if (kernel && kernel < PSEQ_TEXTS_MAX)
		p->short_names[kernel] = iid;
	return iid;
}

static void put_names(struct perfetto *p, const struct trace_event *ev)
{
	const struct track_state *b = &p->tracks;

	if (b->process[0])
		process_track(p, ev->pid, b->process, ev->start_ns);
	if (b->thread[0] && !event_is_range(ev))
		thread_track(p, ev->pid, ev->tid, b->thread, ev->start_ns);
}

static void put_counter(struct perfetto *p, const struct track_counter *value)
{
	const struct chrome_counter *counter = value->counter;
	uint64_t track = named_track(p, TRACK_OF_COUNTER, value->pid, counter->name, counter->unit,
				     value->ts_ns);

	pseq__event(&p->q, value->ts_ns, TYPE_COUNTER, track, false);
	if (counter->is_milli)
		pb_f64(p->q.packet, EVENT_DOUBLE_COUNTER_VALUE, value->value / 1e3);
	else
		pb_u64(p->q.packet, EVENT_COUNTER_VALUE, value->value);
	pseq__close(&p->q);
	pseq__commit(&p->q);
}

static void put_counters(struct perfetto *p)
{
	for (unsigned i = 0; i < p->tracks.counter_cnt; i++)
		put_counter(p, &p->tracks.counters[i]);
}

static void put_arrow_end(struct perfetto *p, const char *name, char phase, uint32_t pid,
			  uint32_t tid, uint64_t ts_ns, bool with_next)
{
	struct out *o = p->q.packet;
	size_t at;

	pseq__event(&p->q, ts_ns, 0, thread_track(p, pid, tid, NULL, ts_ns), with_next);
	put_name(p, name, strlen(name), "sync");
	at = pb_open(o, EVENT_LEGACY);
	pb_u64(o, LEGACY_PHASE, phase);
	pb_u64(o, LEGACY_UNSCOPED_ID, p->arrow_cnt);
	if (phase == 'f')
		pb_u64(o, LEGACY_BIND_TO_ENCLOSING, true);
	pb_close(o, at);
	pseq__close(&p->q);
}

/* The launch was written long ago, so it cannot have the arrow's number. So an arrow's ends are
 * separate events, which belong to the slices that are open then. The newer flow_ids would cost ten
 * bytes of each launch, with or without an arrow. */
static void put_arrow(struct perfetto *p, const char *name, const struct flow_launch *from,
		      const struct trace_event *to)
{
	p->arrow_cnt++;
	thread_track(p, to->pid, from->tid, NULL, from->start_ns);
	put_arrow_end(p, name, 's', to->pid, from->tid, from->start_ns, true);
	put_arrow_end(p, name, 'f', to->pid, to->tid, to->start_ns, false);
	pseq__commit(&p->q);
}

static uint64_t slice_track(struct perfetto *p, const struct trace_event *ev)
{
	char row[TIMELINE_NAME_SZ];

	/* A process's rows are above its threads. */
	if (event_is_range(ev))
		return named_track(p, TRACK_OF_ROW, ev->pid, ev->comm, NULL, ev->start_ns);
	if (ev->kind != EVENT_CTXSW)
		return thread_track(p, ev->pid, ev->tid, NULL, ev->start_ns);
	timeline_gpu_row(ev, row);
	return named_track(p, TRACK_OF_ROW, 0, row, NULL, ev->start_ns);
}

/* Two packets, which make one unit. The viewer sorts them by time, and equal times by their order
 * here: an inner call is written before the outer one. */
static void put_call(struct perfetto *p, const struct trace_event *ev)
{
	uint64_t track = slice_track(p, ev), kernel = 0;
	struct pargs args;

	pseq__event(&p->q, ev->start_ns, TYPE_SLICE_BEGIN, track, true);
	if (timeline_kernel(ev))
		kernel = pseq__text(&p->q, INTERNED_ANNOTATION_STRINGS, timeline_kernel(ev),
				    strlen(timeline_kernel(ev)));
	put_name_iid(p, name_iid(p, ev, kernel), event_type_name(ev->type));
	pargs__init(&args, &p->q, p->scratch);
	pargs__call(&args, ev, kernel);
	pseq__close(&p->q);
	pseq__event(&p->q, ev->start_ns + event_duration_ns(ev), TYPE_SLICE_END, track, false);
	pseq__close(&p->q);
	pseq__commit(&p->q);
}

/* The track of an event without a duration. GPU events have their own rows. */
static uint64_t instant_track(struct perfetto *p, const struct trace_event *ev)
{
	char name[96];

	switch (ev->kind) {
	case EVENT_XID:
		snprintf(name, sizeof(name), "GPU %s", ev->xid.gpu ?: "errors");
		return named_track(p, TRACK_OF_ROW, 0, name, NULL, ev->start_ns);
	case EVENT_GPU_STATS:
		return named_track(p, TRACK_OF_ROW, 0, "NVML", NULL, ev->start_ns);
	case EVENT_GPU_METRICS:
		return named_track(p, TRACK_OF_ROW, 0, "PM sampling", NULL, ev->start_ns);
	case EVENT_IRQ:
		return named_track(p, TRACK_OF_ROW, 0, "GPU interrupts", NULL, ev->start_ns);
	case EVENT_RANGE:
		return slice_track(p, ev);
	case EVENT_SCHED:
		return named_track(p, TRACK_OF_ROW, ev->pid, "GPU scheduler", NULL, ev->start_ns);
	case EVENT_UVM:
		if (ev->uvm.to)
			snprintf(name, sizeof(name), "GPU%u managed memory", ev->uvm.to - 1);
		else
			snprintf(name, sizeof(name), "CPU managed memory");
		return named_track(p, TRACK_OF_ROW, ev->pid, name, NULL, ev->start_ns);
	default:
		if (event_is(ev, IS_GLOBAL) || !ev->pid)
			return named_track(p, TRACK_OF_ROW, 0, "cudatrace", NULL, ev->start_ns);
		return process_track(p, ev->pid, NULL, ev->start_ns);
	}
}

static void put_instant(struct perfetto *p, const struct trace_event *ev)
{
	uint64_t track = instant_track(p, ev);
	char buf[TIMELINE_NAME_SZ];
	struct pargs args;
	const char *name;
	size_t len;

	pseq__event(&p->q, ev->start_ns, TYPE_INSTANT, track, false);
	name = timeline_name(ev, buf, &len);
	put_name(p, name, len, event_type_name(ev->type));
	pargs__init(&args, &p->q, p->scratch);
	if (ev->op)
		args.v.ops->sym(&args.v, "op", ev->op);
	event_visit_fields(ev, &args.v);
	pseq__close(&p->q);
	pseq__commit(&p->q);
}

/* For the whole trace: the caller adds values, then calls end_global(). */
static void open_global(struct perfetto *p, struct pargs *args, const char *name, uint64_t ns)
{
	uint64_t track = named_track(p, TRACK_OF_ROW, 0, "cudatrace", NULL, ns);

	pseq__event(&p->q, ns, TYPE_INSTANT, track, false);
	put_name(p, name, strlen(name), "trace");
	pargs__init(args, &p->q, p->scratch);
}

static void close_global(struct perfetto *p)
{
	pseq__close(&p->q);
	pseq__commit(&p->q);
}

static int begin_file(struct sink *s, const struct trace_info *info)
{
	struct perfetto *p = (struct perfetto *)s;
	struct pargs args;

	pseq__begin(&p->q, info->base_ns, info->wall_ns);
	open_global(p, &args, "trace begins", info->segment ? info->segment_ns : info->base_ns);
	timeline_begin(info, &args.v);
	close_global(p);
	/* Detect an output that cannot be written before the start. */
	out__flush(s->out);
	return s->out->failed ? -s->out->error : 0;
}

static int perfetto_open(struct sink *s, const struct trace_info *info)
{
	struct perfetto *p = (struct perfetto *)s;

	p->short_names = calloc(PSEQ_TEXTS_MAX, sizeof(*p->short_names));
	p->scratch = out__memory();
	if (pseq__init(&p->q, s->out) || track_state__init(&p->tracks) || !p->short_names ||
	    !p->scratch) {
		err("cannot write a Perfetto trace: out of memory: close other programs");
		return -ENOMEM;
	}
	return begin_file(s, info);
}

static int perfetto_next_file(struct sink *s, const struct trace_info *info)
{
	track_state__next_file(&((struct perfetto *)s)->tracks);
	return begin_file(s, info);
}

static void put_event(struct perfetto *p, const struct trace_event *ev,
		      const struct timeline_place *place)
{
	pseq__ready(&p->q);
	put_names(p, ev);
	if (timeline_is_slice(ev))
		put_call(p, ev);
	else if (timeline_is_instant(ev))
		put_instant(p, ev);
	/* After the call: an arrow's end belongs to the slice that began before it. */
	for (unsigned i = 0; i < p->tracks.arrow_cnt; i++)
		put_arrow(p, "waited for", &p->tracks.arrows[i], ev);
	if (place->has_call)
		put_arrow(p, "enqueued", &place->call, ev);
	put_counters(p);
}

static void perfetto_event(struct sink *s, const struct trace_event *ev)
{
	struct perfetto *p = (struct perfetto *)s;
	struct timeline_place place;

	ev = timeline_place(ev, &place);
	track_state__event(&p->tracks, ev);
	put_event(p, ev, &place);
}

static void perfetto_again(struct sink *s, const struct trace_event *ev)
{
	struct perfetto *p = (struct perfetto *)s;
	struct timeline_place place;

	ev = timeline_place(ev, &place);
	track_state__again(&p->tracks, ev);
	put_event(p, ev, &place);
}

static void put_closing(struct perfetto *p, const struct trace_end *end)
{
	uint64_t not_written = p->sink.lost_cnt + p->sink.out->lost;
	char name[TIMELINE_LOST_SZ];
	struct pargs args;

	pseq__ready(&p->q);
	if (timeline_lost(end, not_written, name)) {
		open_global(p, &args, name, end->end_ns);
		timeline_losses(end, not_written, &args.v);
		close_global(p);
	}
	open_global(p, &args, "trace ends", end->end_ns);
	timeline_end(end, not_written, track_state__forgotten(&p->tracks), &args.v);
	close_global(p);
}

/* On a full disk the closing packets replace the last ones. */
static void perfetto_end(struct sink *s, const struct trace_end *end)
{
	struct perfetto *p = (struct perfetto *)s;
	int tries;

	if (!s->out->failed && !end->goes_on) {
		pseq__ready(&p->q);
		track_state__rest(&p->tracks);
		put_counters(p);
	}
	out__flush(s->out);
	for (tries = 0; tries < 2; tries++) {
		if (s->out->failed && out__make_room(s->out, CLOSING_SZ) < 0)
			return;
		put_closing(p, end);
		out__flush(s->out);
		if (!s->out->failed)
			return;
	}
}

static void perfetto_close(struct sink *s)
{
	struct perfetto *p = (struct perfetto *)s;

	track_state__free(&p->tracks);
	pseq__free(&p->q);
	out__close(p->scratch);
	free(p->short_names);
}

const struct sink_ops perfetto_sink_ops = {
	.size = sizeof(struct perfetto),
	.open = perfetto_open,
	.event = perfetto_event,
	.next_file = perfetto_next_file,
	.again = perfetto_again,
	.end = perfetto_end,
	.close = perfetto_close,
};
