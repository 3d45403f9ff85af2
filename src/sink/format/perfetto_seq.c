/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "perfetto_seq.h"

#include <errno.h>

#include "intern.h"
#include "perfetto_fields.h"
#include "util/pb.h"

#define SEQUENCE_ID	 1
#define TAG(field, wire) ((field) << 3 | (wire))

/* Parses the head of a packet. Returns its total length, 0 when too few bytes are there. *body is
 * the start of its fields. */
static size_t packet_len(const char *p, size_t n, size_t *body)
{
	uint64_t len = 0;
	size_t i = 1;

	for (unsigned shift = 0; i < n && i <= PB_VARINT_MAX; i++, shift += 7) {
		len |= (uint64_t)(p[i] & 0x7f) << shift;
		if (!(p[i] & 0x80)) {
			*body = i + 1;
			return i + 1 + len;
		}
	}
	return 0;
}

/* The first of two packets is recognised by its first field, which in all others is the sequence.
 * Half a slice would cover everything that its thread did later. */
static size_t unit_len(const char *p, size_t n)
{
	size_t body, first = packet_len(p, n, &body), second;

	if (!first || body >= n)
		return 0;
	if (p[body] != TAG(PACKET_TIMESTAMP, PB_VARINT))
		return first;
	if (first >= n)
		return 0;
	second = packet_len(p + first, n - first, &body);
	return second ? first + second : 0;
}

int pseq__init(struct pseq *q, struct out *out)
{
	q->out = out;
	out->unit_len = unit_len;
	q->texts = intern__new();
	q->tracks = intern__new();
	if (!q->texts || !q->tracks)
		return -ENOMEM;
	q->packet = out__memory();
	q->news = out__memory();
	return q->packet && q->news ? 0 : -ENOMEM;
}

void pseq__free(struct pseq *q)
{
	intern__free(q->texts);
	intern__free(q->tracks);
	out__close(q->packet);
	out__close(q->news);
}

static void put_time(struct pseq *q, uint64_t ns)
{
	struct out *o = q->packet;

	if (ns >= q->last_ns) {
		pb_u64(o, PACKET_TIMESTAMP, ns - q->last_ns);
		q->last_ns = ns;
		return;
	}
	/* An incremental clock cannot go backwards: a call is written when it ends, after inner
	 * calls. */
	pb_u64(o, PACKET_TIMESTAMP, ns);
	pb_u64(o, PACKET_TIMESTAMP_CLOCK_ID, BUILTIN_CLOCK_MONOTONIC);
}

static void put_clock(struct out *o, unsigned id, uint64_t ns)
{
	size_t at = pb_open(o, SNAPSHOT_CLOCKS);

	pb_u64(o, CLOCK_ID, id);
	pb_u64(o, CLOCK_TIMESTAMP, ns);
	if (id == OUR_CLOCK)
		pb_u64(o, CLOCK_IS_INCREMENTAL, true);
	pb_close(o, at);
}

/* Clears the incremental state. */
static void put_state(struct pseq *q, uint64_t wall_ns)
{
	struct out *o = q->packet;
	size_t at;

	q->cleared++;
	o->len = 0;
	pb_u64(o, PACKET_SEQUENCE_ID, SEQUENCE_ID);
	pb_u64(o, PACKET_SEQUENCE_FLAGS, SEQ_INCREMENTAL_STATE_CLEARED);
	at = pb_open(o, PACKET_DEFAULTS);
	pb_u64(o, DEFAULTS_TIMESTAMP_CLOCK_ID, OUR_CLOCK);
	pb_close(o, at);
	at = pb_open(o, PACKET_CLOCK_SNAPSHOT);
	put_clock(o, BUILTIN_CLOCK_MONOTONIC, q->last_ns);
	put_clock(o, OUR_CLOCK, q->last_ns);
	if (wall_ns)
		put_clock(o, BUILTIN_CLOCK_REALTIME, wall_ns);
	pb_u64(o, SNAPSHOT_PRIMARY_TRACE_CLOCK, BUILTIN_CLOCK_MONOTONIC);
	pb_close(o, at);
	pb_bytes(q->out, TRACE_PACKET, o->buf, o->len);
	pseq__commit(q);
}

void pseq__begin(struct pseq *q, uint64_t base_ns, uint64_t wall_ns)
{
	q->last_ns = base_ns;
	q->lost = q->out->lost;
	intern__empty(q->texts, true);
	intern__empty(q->tracks, false);
	put_state(q, wall_ns);
}

void pseq__ready(struct pseq *q)
{
	bool lost = q->lost != q->out->lost;

	if (lost || intern__full(q->tracks))
		intern__empty(q->tracks, false);
	if (!lost && !intern__full(q->texts))
		return;
	q->lost = q->out->lost;
	intern__empty(q->texts, true);
	put_state(q, 0);
}

uint64_t pseq__text(struct pseq *q, unsigned field, const char *s, size_t len)
{
	bool is_new;
	uint64_t iid = intern__get(q->texts, field, s, len, &is_new);
	size_t at;

	if (!is_new)
		return iid;
	at = pb_open(q->news, field);
	pb_u64(q->news, INTERNED_IID, iid);
	pb_text(q->news, INTERNED_TEXT, s, len);
	pb_close(q->news, at);
	return iid;
}

uint64_t pseq__track(struct pseq *q, unsigned kind, const void *key, size_t len, bool *is_new)
{
	char whole[128];

	/* One table for all kinds: numbers are unique over all. */
	whole[0] = (char)kind;
	if (len > sizeof(whole) - 1)
		len = sizeof(whole) - 1;
	memcpy(whole + 1, key, len);
	return intern__get(q->tracks, 0, whole, len + 1, is_new);
}

void pseq__open(struct pseq *q, unsigned field, uint64_t ns)
{
	q->packet->len = q->news->len = 0;
	pb_u64(q->packet, PACKET_SEQUENCE_ID, SEQUENCE_ID);
	put_time(q, ns);
	q->event = pb_open(q->packet, field);
}

void pseq__event(struct pseq *q, uint64_t ns, unsigned type, uint64_t track, bool with_next)
{
	if (with_next) {
		q->packet->len = q->news->len = 0;
		put_time(q, ns);
		pb_u64(q->packet, PACKET_SEQUENCE_ID, SEQUENCE_ID);
		q->event = pb_open(q->packet, PACKET_TRACK_EVENT);
	} else {
		pseq__open(q, PACKET_TRACK_EVENT, ns);
	}
	if (type)
		pb_u64(q->packet, EVENT_TYPE, type);
	pb_u64(q->packet, EVENT_TRACK_UUID, track);
}

void pseq__close(struct pseq *q)
{
	struct out *o = q->packet;

	pb_close(o, q->event);
	if (q->news->len)
		pb_bytes(o, PACKET_INTERNED_DATA, q->news->buf, q->news->len);
	pb_bytes(q->out, TRACE_PACKET, o->buf, o->len);
}

void pseq__commit(struct pseq *q)
{
	out__commit(q->out);
}
