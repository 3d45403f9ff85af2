/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What is missing from a trace, or from a report of it: one list for all views (losses.def). A
 * trace is complete when the list is empty. What the user did not want (--min-duration, --count,
 * files that rotation removed) is no loss; it is counted beside the list.
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

/* What is not there because the user wanted it so. */
enum chosen { CHOSEN_FILTERED, CHOSEN_COUNTED, CHOSEN_REMOVED, CHOSEN_CNT };

/* All zero: nothing is missing. */
struct losses {
	uint64_t cnt[LOSS_CNT];
	uint64_t full[QUOTA_CNT];
	const char *write_error; /* of LOSS_LINES, which may be 0 then; NULL: none */
	bool of_report; /* what reports of this process had no room for (memlimit.h), too */
	uint64_t chosen[CHOSEN_CNT];
};

struct loss_row {
	const char *prefix, *id; /* as one: the name in JSON */
	const char *what, *why, *how_to_avoid;
	uint64_t cnt;
};

/* The event may be one that says that something is missing. */
void losses__event(struct losses *l, const struct trace_event *ev);
/* What an end line has. Its strings must live as long as l. */
void losses__end(struct losses *l, const struct trace_end *end);
void losses__add(struct losses *l, const struct losses *other);
bool losses__any(const struct losses *l);
/* The next row from *i on, which is 0 at first. False: there are no more. */
bool losses__next(const struct losses *l, unsigned *i, struct loss_row *row);

#endif /* MODEL_LOSSES_H */
