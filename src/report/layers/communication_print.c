/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "communication_priv.h"

#include "report/section.h"

#include <inttypes.h>

static void put_ranks(const struct coll_comm *c, struct json *j, const char *name, bool in)
{
	json_open_array(j, name);
	for (unsigned i = 0; i < c->rank_cnt; i++)
		if ((c->open.who >> i & 1) == in)
			json_u64(j, NULL, c->ranks[i].rank);
	json_close_array(j);
}

static const char *busbw_text(char buf[SECTION_BUF], const struct coll_comm *c,
			      const struct coll_op *o)
{
	snprintf(buf, SECTION_BUF, "%.3g GB/s", coll_busbw(c, o));
	return buf;
}

static const char *rank_text(char buf[SECTION_BUF], const struct coll_rank *k)
{
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
		if ((c->open.who >> i & 1) == in)
			len += snprintf(buf + len, size - len, "%s%u", len ? ", " : "",
					c->ranks[i].rank);
}

static void print_open(const struct communication *x, const struct coll_comm *c,
		       const struct term *term)
{
	char in[256], missing[256], time[CELL_SZ];

	rank_list(c, true, in, sizeof(in));
	rank_list(c, false, missing, sizeof(missing));
	human_time(time, c->open_ns);
	term_para(term,
		  "Collective %" PRIu64
		  " (%s) was begun %s before the end by rank %s; not in it: %s.",
		  c->open.seq, api_op_name(c->open.op), time, in, missing);
}

static void print_comm(const struct communication *x, const struct coll_comm *c,
		       const struct term *term)
{
	char title[48], joined[CELL_SZ];

	human_count(joined, c->joined_cnt);
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
			"%u ranks, %u of them in this report, whose traces do not share a clock: late ranks are unknown",
			c->nranks, c->rank_cnt);
	else if (comm_is_partial(c))
		term_section(
			term, title,
			"%u ranks, %u of them in this report; the communicator is older than the trace, or calls were "
			"lost: collectives of the ranks cannot be matched",
			c->nranks, c->rank_cnt);
	else
		term_section(term, title,
			     "%u ranks, %u of them in this report; %s collective%s joined",
			     c->nranks, c->rank_cnt, joined, plural(c->joined_cnt));
	section_print(x->r, &coll_comm_table, x, c, "operations", TABLE_ROWS, term);
	if (c->joined_cnt || c->open.seq) {
		putc('\n', term->f);
		section_print(x->r, &coll_comm_table, x, c, "ranks", TABLE_ROWS, term);
	}
	if (c->open.seq)
		print_open(x, c, term);
	if (c->differ_cnt)
		term_para(term,
			  "%" PRIu64
			  " with the same number differ between ranks and are not joined.",
			  c->differ_cnt);
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
