/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "fecs.h"

#include <string.h>

/* A record as the driver writes it: a header, then the context switch. */
struct record {
	uint16_t type, subtype;
	uint32_t vardata;
	uint8_t tag, vmid;
	uint16_t seq;
	uint32_t context, pid;
	uint16_t reserved;
	uint8_t gpu_instance, compute_instance;
	uint64_t time;
};
_Static_assert(sizeof(struct record) == FECS_RECORD_SZ, "a slot of the driver's ring");
_Static_assert(offsetof(struct record, pid) == 16 && offsetof(struct record, time) == 24,
	       "offsets are the driver's");

enum { TYPE_SWITCH = 2, TYPE_SWITCH_V2 = 134 };

enum tag {
	TAG_SAVE_END = 0x03, /* only in more detailed logs than ours */
	TAG_CONTEXT_START = 0x05,
	TAG_START = 0x06,
	TAG_END = 0x07,
	TAG_LAST = 0x0d, /* other tags up to here are intermediate steps */
	TAG_ENGINE_RESET = 0xfe,
};

void fecs__init(struct fecs *f, uint64_t begin)
{
	*f = (struct fecs){.last = begin, .latest = UINT64_MAX};
}

static void end_slice(struct fecs *f, uint64_t end, struct fecs_slice *slice)
{
	*slice = f->now;
	slice->end = end;
	f->runs = false;
	f->now.missed = 0;
}

static bool on_start(struct fecs *f, const struct record *r, struct fecs_slice *slice)
{
	bool ended = f->runs;

	if (ended)
		end_slice(f, r->time, slice);
	f->runs = true;
	f->now.pid = r->pid;
	f->now.context = r->context;
	f->now.start = r->time;
	f->now.before = false;
	return ended;
}

/* The log's first record is an end: its process used the GPU when the log began. */
static void take_before(struct fecs *f, const struct record *r, uint64_t began)
{
	f->runs = true;
	f->now.pid = r->pid;
	f->now.context = r->context;
	f->now.start = began < r->time ? began : r->time;
	f->now.before = true;
}

/* The running slice has ended at an unknown time. */
static void lose(struct fecs *f, uint64_t missed)
{
	f->missed_cnt += missed;
	f->now.missed += missed;
	f->unpaired_cnt += f->runs;
	f->runs = false;
}

/* Compare only the process: a context has several channels, so start and end may have different
 * ones. */
static bool on_end(struct fecs *f, const struct record *r, struct fecs_slice *slice)
{
	if (!f->runs || f->now.pid != r->pid) {
		f->unpaired_cnt++;
		f->runs = false;
		return false;
	}
	end_slice(f, r->time, slice);
	return true;
}

/* The clocks are not exact: the first record may be before the assumed start. */
static bool is_sound(const struct fecs *f, const struct record *r, bool first)
{
	return (r->type == TYPE_SWITCH || r->type == TYPE_SWITCH_V2) &&
	       (r->time >= f->last || first) && r->time <= f->latest &&
	       (r->tag <= TAG_LAST || r->tag == TAG_ENGINE_RESET);
}

bool fecs__record(struct fecs *f, const void *record, struct fecs_slice *slice)
{
	bool first = !f->any;
	uint64_t before = f->last;
	struct record r;
	uint16_t gap;

	memcpy(&r, record, sizeof(r));
	gap = first ? 0 : (uint16_t)(r.seq - f->seq - 1);
	f->record_cnt++;
	f->any = true;
	f->seq = r.seq;
	if (gap)
		lose(f, gap);
	if (!is_sound(f, &r, first)) {
		f->bad_cnt++;
		lose(f, 0);
		return false;
	}
	f->last = r.time;
	switch (r.tag) {
	case TAG_START:
	case TAG_CONTEXT_START:
		return on_start(f, &r, slice);
	case TAG_END:
	case TAG_SAVE_END:
		if (first)
			take_before(f, &r, before);
		return on_end(f, &r, slice);
	case TAG_ENGINE_RESET:
		if (!f->runs)
			return false;
		end_slice(f, r.time, slice);
		return true;
	default:
		return false;
	}
}

bool fecs__rest(struct fecs *f, uint64_t end, struct fecs_slice *slice)
{
	if (!f->runs)
		return false;
	end_slice(f, end > f->last ? end : f->last, slice);
	return true;
}
