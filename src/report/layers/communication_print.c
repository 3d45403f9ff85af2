/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Collectives as text and JSON. */
#include "communication_priv.h"

#include "report/section.h"

#include <inttypes.h>

static const char *busbw_text(char buf[SECTION_BUF], const struct coll_comm *c,
			      const struct coll_op *o)
{
	snprintf(buf, SECTION_BUF, "%.3g GB/s", coll_busbw(c, o));
	return buf;
}

static bool has_global_rank(const struct report *r, const struct coll_rank *k)
{
	uint32_t rank;

	return communication_rank(r, k->pid, &rank);
}

static uint32_t global_rank(const struct report *r, const struct coll_rank *k)
{
	uint32_t rank;

	communication_rank(r, k->pid, &rank);
	return rank;
}

static const char *rank_text(char buf[SECTION_BUF], const struct report *r,
			     const struct coll_rank *k)
{
	if (has_global_rank(r, k))
		snprintf(buf, SECTION_BUF, "%u (global rank %u, process %u)", k->rank,
			 global_rank(r, k), k->pid);
	else
		snprintf(buf, SECTION_BUF, "%u (process %u)", k->rank, k->pid);
	return buf;
}

#define SECTION_STATE struct communication
#define SECTION_ROWS  "report/layers/communication.section"
#include "report/section_rows.h"

static void rank_list(const struct coll_comm *c, bool in, char *buf, size_t size)
{
	size_t len = 0;

	buf[0] = 0;
	for (unsigned i = 0; i < c->rank_cnt && len + 16 < size; i++)
		if (who_has(&c->open.who, i) == in)
			len += snprintf(buf + len, size - len, "%s%u", len ? ", " : "",
					c->ranks[i].rank);
}

static void print_open(const struct communication *x, const struct coll_comm *c,
		       const struct term *term)
{
	char in[256], missing[256];

	rank_list(c, true, in, sizeof(in));
	rank_list(c, false, missing, sizeof(missing));
	term_para(term,
		  "Collective %" PRIu64
		  " (%s) was begun %s before the end by rank %s; not in it: %s.",
		  c->open.seq, api_op_name(c->open.op), HUMAN_TIME(c->open_ns), in, missing);
}

static void print_difference(const struct coll_comm *c, const struct term *term)
{
	const struct coll_side *x = c->differ;
	char bytes[2][CELL_SZ];

	for (unsigned i = 0; i < 2; i++)
		human_bytes(bytes[i], x[i].bytes);
	term_para(
		term,
		"The first is %" PRIu64
		": rank %u called %s of %s, rank %u %s of %s. All ranks must call the same: they may wait for each other for ever, unless a call was not recorded.",
		c->differ_seq, x[0].rank, api_op_name(x[0].op), bytes[0], x[1].rank,
		api_op_name(x[1].op), bytes[1]);
}

static void print_comm(const struct communication *x, const struct coll_comm *c,
		       const struct term *term)
{
	char title[48];

	if (c->hash)
		snprintf(title, sizeof(title), "Communication, 0x%" PRIx64, c->hash);
	else
		snprintf(title, sizeof(title), "Communication, unknown communicator");
	if (c->rank_cnt < 2)
		term_section(term, title, "%u rank%s; this trace has one of them", c->nranks,
			     plural(c->nranks));
	else if (c->is_apart)
		term_section(
			term, title,
			"%u ranks, %u of them in this report, whose clocks could not be compared: late ranks are unknown",
			c->nranks, c->rank_cnt);
	else if (comm_is_partial(c))
		term_section(
			term, title,
			"%u ranks, %u of them in this report; the communicator is older than the trace, or calls were "
			"lost: collectives of the ranks cannot be matched",
			c->nranks, c->rank_cnt);
	else
		term_section(
			term, title, "%u ranks, %u of them in this report; %s collective%s joined",
			c->nranks, c->rank_cnt, HUMAN_COUNT(c->joined_cnt), plural(c->joined_cnt));
	section_print(x->r, &coll_comm_table, x, c, "operations", TABLE_ROWS, term);
	if (c->joined_cnt || c->open.seq) {
		term_gap(term);
		section_print(x->r, &coll_comm_table, x, c, "ranks", TABLE_ROWS, term);
	}
	if (c->open.seq)
		print_open(x, c, term);
	if (c->joined_cnt && coll_clock_error(c))
		term_para(
			term,
			"Its ranks are on several machines. Their times are aligned by the ends of collectives, and are off by at most %s.",
			HUMAN_TIME(coll_clock_error(c)));
	if (c->differ_cnt)
		term_para(term,
			  "%" PRIu64
			  " with the same number differ between ranks and are not joined.",
			  c->differ_cnt);
	if (c->differ_cnt)
		print_difference(c, term);
	if (c->missed_cnt)
		term_para(term, "%" PRIu64 " are missing on some ranks.", c->missed_cnt);
}

void communication_print(const void *a, const struct term *term)
{
	const struct communication *x = a;
	unsigned most = report_rows(term, x->r->opts.top), shown = 0;

	for (unsigned i = 0; i < x->keys.cnt; i++) {
		if (!x->comms[i]->op_cnt)
			continue;
		if (shown++ == most) {
			term_para(term, "There are more communicators: --top N shows them.");
			break;
		}
		print_comm(x, x->comms[i], term);
	}
	if (shown)
		term_para(
			term,
			"Host time: time in calls, which only begin a collective. "
			"Late: a rank's call began a millisecond or more after the first rank's.");
}
