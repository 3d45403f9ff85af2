/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "line_counts.h"

#include <string.h>

/* Number of lines that the file lacks, and number of its surplus lines. */
struct difference {
	uint64_t less, more;
};

static uint64_t above(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

/* Saturates: a damaged end line may have any numbers. */
static void add(uint64_t *sum, uint64_t n)
{
	*sum = n > UINT64_MAX - *sum ? UINT64_MAX : *sum + n;
}

static void differ(struct difference *d, uint64_t in_end, uint64_t in_file)
{
	add(&d->less, above(in_end, in_file));
	add(&d->more, above(in_file, in_end));
}

void line_counts__event(struct line_counts *c, const struct trace_event *ev)
{
	bool is_call = ev->kind == EVENT_CALL;

	c->types[ev->type]++;
	c->calls += is_call;
	c->unfinished += is_call && ev->unfinished;
	c->abandoned += is_call && ev->abandoned;
}

/* Lines that are not in the file, or not readable, but counted as such. */
static uint64_t reported(const struct line_counts *c, const struct trace_end *end)
{
	uint64_t n = end->lines_lost;

	add(&n, c->invalid);
	return n;
}

/* By type, or another line of the same number would hide a missing one. A repeated call may stand
 * for a line of another type. */
static struct difference by_type(const struct line_counts *c, const struct saved_own_end *own)
{
	struct difference d = {0};
	uint64_t again;

	for (int i = 0; i < TYPE_CNT; i++)
		differ(&d, own->end.type_cnt[i], c->types[i]);
	differ(&d, own->unknown_cnt, c->unknown);
	again = own->end.write_error || d.more < c->again ? d.more : c->again;
	d.less = above(above(d.less, reported(c, &own->end)), again);
	return d;
}

/* Returns how many of n calls have no line, and are not counted as left out either. */
static uint64_t without_line(const struct line_counts *c, const struct trace_end *end, uint64_t n,
			     uint64_t lines)
{
	const uint64_t out[] = {
		lines,
		reported(c, end),
		c->unknown,
		end->stats[CT_STAT_FILTERED],
		end->stats[CT_STAT_COUNTED],
		end->stats[CT_STAT_DUPLICATES],
		end->bad_record_cnt,
		end->unknown_drop_cnt,
		end->nvtx.calls,
		end->torch.calls,
	};

	for (size_t i = 0; i < sizeof(out) / sizeof(out[0]); i++)
		n = above(n, out[i]);
	for (int i = 0; i < CT_DROP_CNT; i++)
		n = above(n, end->drops[i]);
	return n;
}

static void raise(uint64_t *max, uint64_t n)
{
	if (n > *max)
		*max = n;
}

/* After the last event of --max-events, calls are still counted, but not written. */
static uint64_t of_calls(const struct line_counts *c, const struct trace_end *end)
{
	uint64_t less = 0;

	if (!strcmp(end->reason, "max-events"))
		return 0;
	raise(&less, without_line(c, end, end->stats[CT_STAT_ENTRIES], c->calls));
	raise(&less, without_line(c, end, end->stats[CT_STAT_UNFINISHED], c->unfinished));
	raise(&less, without_line(c, end, end->stats[CT_STAT_ABANDONED], c->abandoned));
	return less;
}

void line_counts__check(const struct line_counts *c, const struct saved_own_end *own,
			struct losses *lost)
{
	const struct trace_end *end = &own->end;
	struct difference d = {0}, calls = {0};

	/* The same line may be missing in several counts. */
	if (own->has_events)
		d = by_type(c, own);
	if (own->has_calls)
		differ(&calls, end->call_cnt, c->calls);
	raise(&d.less, above(above(calls.less, reported(c, end)), c->unknown));
	raise(&d.more, calls.more);
	raise(&d.less, of_calls(c, end));
	add(&lost->cnt[LOSS_MISSING_LINES], d.less);
	/* After a write error, some of the lost lines may be in the file. */
	if (!end->write_error)
		add(&lost->cnt[LOSS_SURPLUS_LINES], above(d.more, c->again));
}
