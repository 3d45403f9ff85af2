/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The traces that the server reads: their events, and the report that was made last. */
#ifndef MCP_TRACES_H
#define MCP_TRACES_H

#include "answer.h"
#include "mcp.h"
#include "saved/end_sum.h"
#include "saved/reader.h"

struct traces {
	const struct mcp_opts *o;
	/* Called now and then while files are read: whether to stop. */
	bool (*is_cancelled)(void *ctx);
	void *ctx;

	struct reader *reader, *reading; /* of the report; now */
	unsigned tick_cnt;
	bool is_stopped;

	/* The report; NULL: none. */
	struct report *report;
	int file; /* of which file; -1: of all */
	struct step_change changes[CHANGES_MAX];
	unsigned change_cnt;
	struct saved_file *files;
	struct end_sum ends;
	unsigned trace_cnt;
};

/* Frees the report. */
void traces__drop(struct traces *t);
/* For another pass over files: frees the report, unless both fit. Afterwards: frees it if its
 * counts of rejected rows have those of the pass. */
void traces__make_room(struct traces *t);
void traces__settle(struct traces *t);
/* Sets the number of the file of this name, -1 for NULL. Returns 0, or -EINVAL after
 * answer__fail(). */
int traces__find(const struct traces *t, const char *name, int *file, struct answer *a);
/* Makes the report of a file (-1: of all) with these changes. It is valid until the next call of
 * another function here. Returns 0, -ECANCELED, or another -errno after answer__fail(). */
int traces__report(struct traces *t, int file, const struct step_change *changes,
		   unsigned change_cnt, struct answer *a);
/* Reads a file (-1: all). ops->event has to call traces__tick(). *reader, which the caller frees,
 * has the strings of the events. files: one for each file that is read. Returns as
 * traces__report(). */
int traces__read(struct traces *t, int file, const struct reader_ops *ops, void *ctx,
		 struct reader **reader, struct saved_file *files, struct answer *a);
void traces__tick(struct traces *t);

#endif /* MCP_TRACES_H */
