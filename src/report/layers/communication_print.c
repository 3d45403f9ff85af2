/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "communication_priv.h"

#include <inttypes.h>

static void put_sizes(const struct coll_op *o, struct json *j)
{
	json_open_array(j, "sizes");
	for (unsigned i = 0; i < SIZES; i++) {
		if (!o->sizes[i])
			continue;
		json_open(j, NULL);
		if (size_below(i))
			json_u64(j, "below", size_below(i));
		json_u64(j, "count", o->sizes[i]);
		json_close(j);
	}
	json_close_array(j);
}

static void put_op(const struct coll_comm *c, const struct coll_op *o, struct json *j)
{
	json_open(j, NULL);
	json_sym(j, "op", api_op_name(o->op));
	json_u64(j, "count", o->cnt);
	json_u64(j, "grouped", o->grouped_cnt);
	json_u64(j, "errors", o->error_cnt);
	json_u64(j, "unfinished", o->unfinished_cnt);
	json_u64(j, "bytes", o->bytes);
	json_u64(j, "host_ns", o->host_ns);
	json_u64(j, "host_max_ns", o->host_max_ns);
	put_sizes(o, j);
	if (o->gpu_cnt) {
		json_u64(j, "gpu_count", o->gpu_cnt);
		json_u64(j, "gpu_bytes", o->gpu_bytes);
		json_u64(j, "gpu_ns", o->gpu_ns);
		if (c->nranks)
			json_f64(j, "busbw_gbps", coll_busbw(c, o));
	}
	json_close(j);
}

static void put_rank(const struct coll_rank *k, struct json *j)
{
	json_open(j, NULL);
	json_u64(j, "rank", k->rank);
	json_u64(j, "pid", k->pid);
	json_u64(j, "collectives", k->seq);
	json_u64(j, "last", k->last_cnt);
	json_u64(j, "late", k->late_cnt);
	json_u64(j, "late_ns", k->late_ns);
	json_u64(j, "late_max_ns", k->late_max_ns);
	json_close(j);
}

static void put_ranks(const struct coll_comm *c, struct json *j, const char *name, bool in)
{
	json_open_array(j, name);
	for (unsigned i = 0; i < c->rank_cnt; i++)
		if ((c->open.who >> i & 1) == in)
			json_u64(j, NULL, c->ranks[i].rank);
	json_close_array(j);
}

static void put_open(const struct communication *x, const struct coll_comm *c, struct json *j)
{
	json_open(j, "open");
	json_u64(j, "seq", c->open.seq);
	json_sym(j, "op", api_op_name(c->open.op));
	report_json_ts(x->r, j, "ts", c->open.first_ns);
	json_u64(j, "waiting_ns", c->open_ns);
	put_ranks(c, j, "in", true);
	put_ranks(c, j, "missing", false);
	json_close(j);
}

void communication_json(const void *a, struct json *j)
{
	const struct communication *x = a;

	json_open(j, "communication");
	json_u64(j, "calls", x->res.call_cnt);
	json_u64(j, "gpu_executions", x->gpu_cnt);
	json_u64(j, "gpu_ns", x->gpu_ns);
	json_open_array(j, "communicators");
	for (unsigned i = 0; i < x->keys.cnt; i++) {
		const struct coll_comm *c = x->comms[i];

		json_open(j, NULL);
		if (c->hash)
			json_hex(j, "communicator", c->hash);
		else
			json_null(j, "communicator");
		json_u64(j, "nranks", c->nranks);
		json_bool(j, "partial", comm_is_partial(c));
		json_bool(j, "apart", c->is_apart);
		json_u64(j, "joined", c->joined_cnt);
		json_u64(j, "late", c->late_cnt);
		json_u64(j, "different", c->differ_cnt);
		json_u64(j, "incomplete", c->missed_cnt);
		json_u64(j, "ranks_rejected", c->ranks_rejected);
		json_open_array(j, "ranks");
		for (unsigned k = 0; k < c->rank_cnt; k++)
			put_rank(&c->ranks[k], j);
		json_close_array(j);
		json_open_array(j, "operations");
		for (unsigned o = 0; o < c->op_cnt; o++)
			put_op(c, &c->ops[o], j);
		json_close_array(j);
		if (c->open.seq)
			put_open(x, c, j);
		json_close(j);
	}
	json_close_array(j);
	json_close(j);
}

static void print_ops(const struct coll_comm *c, const struct term *term)
{
	struct table t;

	table__init(&t, "calls|bytes|mean|host time|longest|GPU time|bus|operation");
	for (unsigned i = 0; i < c->op_cnt; i++) {
		const struct coll_op *o = &c->ops[i];
		struct table_row *row = table__row(&t, api_op_name(o->op));

		human_count(row->cell[0], o->cnt);
		human_bytes(row->cell[1], o->bytes);
		human_bytes(row->cell[2], o->cnt ? o->bytes / o->cnt : 0);
		human_time(row->cell[3], o->host_ns);
		human_time(row->cell[4], o->host_max_ns);
		if (!o->gpu_cnt)
			continue;
		human_time(row->cell[5], o->gpu_ns);
		if (c->nranks)
			snprintf(row->cell[6], CELL_SZ, "%.3g GB/s", coll_busbw(c, o));
	}
	table__print(&t, term);
}

static void print_ranks(const struct coll_comm *c, const struct term *term)
{
	char names[TABLE_ROWS][48];
	struct table t;

	table__init(&t, "collectives|last|late|in all|at most|rank");
	for (unsigned i = 0; i < c->rank_cnt && i < TABLE_ROWS; i++) {
		const struct coll_rank *k = &c->ranks[i];
		struct table_row *row;

		snprintf(names[i], sizeof(names[i]), "%u (process %u)", k->rank, k->pid);
		row = table__row(&t, names[i]);
		human_count(row->cell[0], k->seq);
		human_count(row->cell[1], k->last_cnt);
		human_count(row->cell[2], k->late_cnt);
		human_time(row->cell[3], k->late_ns);
		human_time(row->cell[4], k->late_max_ns);
	}
	putc('\n', term->f);
	table__print(&t, term);
}

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
		snprintf(title, sizeof(title), "Communication, communicator not known");
	if (c->rank_cnt < 2)
		term_section(term, title, "%u rank%s; this trace has one of them", c->nranks,
			     plural(c->nranks));
	else if (c->is_apart)
		term_section(term, title,
			     "%u ranks, %u of them here, in traces that do not share a clock: late "
			     "ranks are not known",
			     c->nranks, c->rank_cnt);
	else if (comm_is_partial(c))
		term_section(
			term, title,
			"%u ranks, %u of them here; the communicator is older than the trace, or calls were "
			"lost: collectives of the ranks cannot be matched",
			c->nranks, c->rank_cnt);
	else
		term_section(term, title, "%u ranks, %u of them here; %s collective%s joined",
			     c->nranks, c->rank_cnt, joined, plural(c->joined_cnt));
	print_ops(c, term);
	if (c->joined_cnt || c->open.seq)
		print_ranks(c, term);
	if (c->open.seq)
		print_open(x, c, term);
	if (c->differ_cnt)
		term_para(term,
			  "%" PRIu64 " with the same number are not the same in all ranks: "
			  "not joined.",
			  c->differ_cnt);
	if (c->missed_cnt)
		term_para(term, "%" PRIu64 " are not there in all ranks.", c->missed_cnt);
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
			"Host time is the time in calls, which only begin a collective. "
			"Late: a rank's call began a millisecond or more after the first rank's.");
}
