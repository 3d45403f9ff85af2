/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "losses.h"

#include <errno.h>
#include <string.h>

#include "util/out.h"

static const struct {
	const char *id, *one, *many, *why, *how_to_avoid;
} rows[LOSS_CNT] = {
#define LOSS(ID, id, one, many, why, how, count) [LOSS_##ID] = {id, one, many, why, how},
#include "losses.def"
};

void losses__event(struct losses *l, const struct trace_event *ev)
{
	if (ev->kind != EVENT_LIBRARY)
		return;
	l->cnt[LOSS_LIBRARY_FAILED] += !strcmp(ev->op, "failed");
	l->cnt[LOSS_DETACHED] += !strcmp(ev->op, "detached");
}

/* Saturates, so that a huge number in a damaged file cannot make the sum small. */
static void more(uint64_t *sum, uint64_t n)
{
	*sum = n > UINT64_MAX - *sum ? UINT64_MAX : *sum + n;
}

void losses__end(struct losses *l, const struct trace_end *end)
{
	struct losses of = {
		.cnt =
			{
#define LOSS(ID, id, one, many, why, how, count) [LOSS_##ID] = count,
#include "losses.def"
			},
		.buffer_sz = end->buffer_sz,
		.write_error = end->write_error,
		.unseen = end->unseen,
		.chosen = {[CHOSEN_FILTERED] = end->stats[CT_STAT_FILTERED],
			   [CHOSEN_COUNTED] = end->stats[CT_STAT_COUNTED]},
	};

	memcpy(of.full, end->full, sizeof(of.full));
	/* Then `unseen` only refers to these libraries. */
	if (l->cnt[LOSS_LIBRARY_FAILED])
		of.cnt[LOSS_UNSEEN] = 0;
	losses__add(l, &of);
}

void losses__add(struct losses *l, const struct losses *other)
{
	for (int i = 0; i < LOSS_CNT; i++)
		more(&l->cnt[i], other->cnt[i]);
	for (int i = 0; i < QUOTA_CNT; i++)
		more(&l->full[i], other->full[i]);
	if (other->buffer_sz > l->buffer_sz)
		l->buffer_sz = other->buffer_sz;
	l->write_error = l->write_error ?: other->write_error;
	l->unseen = l->unseen ?: other->unseen;
	l->of_report |= other->of_report;
	for (int i = 0; i < CHOSEN_CNT; i++)
		more(&l->chosen[i], other->chosen[i]);
}

bool losses__any(const struct losses *l)
{
	struct loss_row row;
	unsigned i = 0;

	return losses__next(l, &i, &row);
}

/* Rows whose reason is in the end line have none of their own. */
static const char *why_of(const struct losses *l, enum loss i)
{
	if (i == LOSS_UNSEEN)
		return l->unseen ?: "";
	return rows[i].why ?: l->write_error ?: "not written";
}

/* Four times the size that was too small. */
static const char *larger_buffer(uint64_t size)
{
#define USE(now, next) "use --buffer-size " next " (it was " now "), or trace less (-e, --count)"
	static const char *const how[] = {
		USE("64K", "256K"), USE("128K", "512K"), USE("256K", "1M"),
		USE("512K", "2M"),  USE("1M", "4M"),	 USE("2M", "8M"),
		USE("4M", "16M"),   USE("8M", "32M"),	 USE("16M", "64M"),
		USE("32M", "128M"), USE("64M", "256M"),	 USE("128M", "512M"),
		USE("256M", "1G"),  USE("512M", "1G"),	 "trace less (-e, --count)",
	};
#undef USE
	size_t i = 0;

	while (i < sizeof(how) / sizeof(how[0]) && size != 65536ull << i)
		i++;
	return i < sizeof(how) / sizeof(how[0]) ? how[i] : rows[LOSS_CALLS].how_to_avoid;
}

/* How to avoid that lines are not written: depends on the reason in the end line. */
static const char *how_of(const struct losses *l, enum loss i)
{
	static const struct {
		int error;
		const char *how;
	} remedies[] = {
		{ENOSPC, "free space on the disk, or write to another one"},
		{EDQUOT, "free space within the quota, or write to another disk"},
		{EFBIG, "raise the file size limit (ulimit -f)"},
		{EPIPE, "let the reader of the output read until cudatrace ends"},
	};

	if (l->buffer_sz && !strcmp(rows[i].how_to_avoid, rows[LOSS_CALLS].how_to_avoid))
		return larger_buffer(l->buffer_sz);
	if (i != LOSS_LINES || !l->write_error)
		return rows[i].how_to_avoid;
	if (!strcmp(l->write_error, OUT_READER_SLOW))
		return "read the output faster, or write to a file";
	for (size_t n = 0; n < sizeof(remedies) / sizeof(remedies[0]); n++)
		if (!strcmp(l->write_error, strerror(remedies[n].error)))
			return remedies[n].how;
	return rows[i].how_to_avoid;
}

static struct loss_row row_at(const struct losses *l, unsigned i)
{
	enum limit_table t = i - LOSS_CNT;
	struct loss_row row;

	if (i < LOSS_CNT) {
		row = (struct loss_row){
			"",	      rows[i].id,   l->cnt[i] == 1 ? rows[i].one : rows[i].many,
			why_of(l, i), how_of(l, i), l->cnt[i]};
	} else if (t < QUOTA_CNT) {

		row = (struct loss_row){"limits_hit.",
					limit_name(t),
					limit_text(t),
					"a table of the tracer was full (docs/LIMITS.md)",
					"trace fewer processes, or a shorter part",
					l->full[t]};
	} else {
		row = (struct loss_row){"rejected.",
					limit_name(t),
					limit_text(t),
					"the report reached its limit (docs/LIMITS.md)",
					"trace or report a shorter part",
					l->of_report ? memlimit_rejected(t) : 0};
	}
	return row;
}

bool losses__row(const struct losses *l, unsigned i, struct loss_row *row)
{
	*row = row_at(l, i);
	return row->cnt || (i == LOSS_LINES && l->write_error);
}

bool losses__next(const struct losses *l, unsigned *i, struct loss_row *row)
{
	while (*i < LOSSES_MAX)
		if (losses__row(l, (*i)++, row))
			return true;
	return false;
}
