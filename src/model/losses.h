/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The losses of a trace, or of a report of it: one list for all views (losses.def). A
 * trace is complete if the list is empty. Data that the user excluded (--min-duration, --count,
 * files that rotation removed) is not in the list; it is counted separately.
 */
#ifndef MODEL_LOSSES_H
#define MODEL_LOSSES_H

#include "model/event.h"
#include "model/trace.h"
#include "util/memlimit.h"

enum loss {
#define LOSS(ID, ...) LOSS_##ID,
#include "losses.def"
	LOSS_CNT
};

/* Data that is absent because the user excluded it. */
enum chosen { CHOSEN_FILTERED, CHOSEN_COUNTED, CHOSEN_REMOVED, CHOSEN_CNT };

/* All zero: nothing is missing. */
struct losses {
	uint64_t cnt[LOSS_CNT];
	uint64_t full[QUOTA_CNT];
	uint64_t buffer_sz; /* size of the largest ring buffers that dropped records; 0: unknown */
	const char *write_error; /* reason for LOSS_LINES, whose count may be 0 then; NULL: none */
	const char *unseen;	 /* reason for LOSS_UNSEEN; NULL: none */
	bool of_report;		 /* includes what this process's reports rejected (memlimit.h) */
	uint64_t chosen[CHOSEN_CNT];
};

struct loss_row {
	const char *prefix, *id; /* together: the name in JSON */
	const char *what, *why, *how_to_avoid;
	uint64_t cnt;
};

/* Counts the loss if the event reports one. */
void losses__event(struct losses *l, const struct trace_event *ev);
/* Adds the losses in an end line. Its strings must live as long as l. */
void losses__end(struct losses *l, const struct trace_end *end);
void losses__add(struct losses *l, const struct losses *other);
bool losses__any(const struct losses *l);
/* Row i of LOSSES_MAX possible ones. Returns false if nothing of it is missing. */
#define LOSSES_MAX (LOSS_CNT + LIMIT_TABLE_CNT)
bool losses__row(const struct losses *l, unsigned i, struct loss_row *row);
/* Gets the next row; *i is 0 at first. Returns false if there are no more. */
bool losses__next(const struct losses *l, unsigned *i, struct loss_row *row);

#endif /* MODEL_LOSSES_H */
