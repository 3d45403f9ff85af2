/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include <stdio.h>

#include "report/memory/memory.h"
#include "streams_priv.h"

#define LIST_MAX 1000

static bool is_default(const struct stream *x)
{
	return stream_is_default(x) || x->tid;
}

static bool is_used(const struct stream *x)
{
	return x->submitted || x->syncs || x->recorded || x->waited;
}

static void put_stream(const struct streams *s, struct json *j, const struct stream *x)
{
	json_open(j, NULL);
	json_hex(j, "stream", x->handle);
	json_u64(j, "pid", x->pid);
	if (x->tid)
		json_u64(j, "tid", x->tid);
	json_bool(j, "default", is_default(x));
	if (is_default(x) && x->ctx && x->ctx != CONTEXT_UNKNOWN)
		json_hex(j, "context", x->ctx);
	if (x->created)
		report_json_ts(s->r, j, "created_ts", x->created_ns);
	if (x->has_flags)
		json_u64(j, "flags", x->flags);
	if (x->has_priority)
		json_i64(j, "priority", x->priority);
	json_u64(j, "launches", x->launches);
	json_u64(j, "transfers", x->transfers);
	json_u64(j, "bytes", x->bytes);
	json_u64(j, "syncs", x->syncs);
	json_u64(j, "sync_ns", x->sync_ns);
	json_u64(j, "max_depth", x->max_depth);
	json_f64(j, "mean_depth", ratio_of(x->depth_sum, x->submitted));
	json_u64(j, "events_recorded", x->recorded);
	json_u64(j, "events_waited", x->waited);
	json_close(j);
}

static const char *why(const struct streams *s)
{
	if (!s->default_work)
		return "Nothing was submitted to the legacy default stream.";
	if (!s->switches)
		return "No stream that waits for the legacy default stream was used beside it, as "
		       "far as the flags of streams were seen.";
	return "The legacy default stream and streams without CU_STREAM_NON_BLOCKING wait for one "
	       "another.";
}

void streams_json(const void *a, struct json *j)
{
	const struct streams *s = a;

	json_open(j, "streams");
	json_u64(j, "count", s->cnt);
	json_open_array(j, "list");
	for (unsigned i = 0; s->sorted && i < s->cnt && i < LIST_MAX; i++)
		put_stream(s, j, &s->list[s->sorted[i]]);
	json_close_array(j);
	json_open_array(j, "edges");
	for (unsigned i = 0; i < s->edge_keys.cnt; i++) {
		json_open(j, NULL);
		json_hex(j, "from", s->list[s->edges[i].from].handle);
		json_hex(j, "to", s->list[s->edges[i].to].handle);
		json_u64(j, "pid", s->list[s->edges[i].from].pid);
		json_u64(j, "count", s->edges[i].cnt);
		json_close(j);
	}
	json_close_array(j);
	json_open(j, "default_stream");
	json_u64(j, "launches", s->default_launches);
	json_f64(j, "share", ratio_of(s->default_launches, s->launches));
	json_u64(j, "switches", s->switches);
	json_bool(j, "serialising", s->switches);
	json_sym(j, "why", why(s));
	json_close(j);
	json_close(j);
}

static void stream_name(char name[96], const struct stream *x)
{
	if (x->tid)
		snprintf(name, 96, "default of thread %u", x->tid);
	else if (stream_is_default(x))
		snprintf(name, 96, "0x0 default, process %u", x->pid);
	else
		snprintf(name, 96, "0x%llx%s, process %u", (unsigned long long)x->handle,
			 stream_is_blocking(x) ? " blocking" : "", x->pid);
}

static void print_list(const struct streams *s, const struct term *term)
{
	unsigned top = report_rows(term, s->r->opts.top);
	char name[TABLE_ROWS][96];
	struct table_row *row;
	struct table t;

	table__init(&t, "launches|copies|bytes|waits|time|depth|stream");
	for (unsigned i = 0; s->sorted && i < s->cnt && i < top; i++) {
		const struct stream *x = &s->list[s->sorted[i]];

		if (!is_used(x))
			continue;
		stream_name(name[i], x);
		row = table__row(&t, name[i]);
		if (!row)
			break;
		human_count(row->cell[0], x->launches);
		human_count(row->cell[1], x->transfers);
		if (x->bytes)
			human_bytes(row->cell[2], x->bytes);
		human_count(row->cell[3], x->syncs);
		if (x->syncs)
			human_time(row->cell[4], x->sync_ns);
		human_count(row->cell[5], x->max_depth);
	}
	table__print(&t, term);
}

static void print_edges(const struct streams *s, const struct term *term)
{
	unsigned top = report_rows(term, s->r->opts.top);
	char cnt[CELL_SZ];

	for (unsigned i = 0; i < s->edge_keys.cnt && i < top; i++) {
		human_count(cnt, s->edges[i].cnt);
		term_para(term, "0x%llx waited for an event of 0x%llx: %s time%s",
			  (unsigned long long)s->list[s->edges[i].to].handle,
			  (unsigned long long)s->list[s->edges[i].from].handle, cnt,
			  plural(s->edges[i].cnt));
	}
}

void streams_print(const void *a, const struct term *term)
{
	const struct streams *s = a;
	char used[CELL_SZ], unused[CELL_SZ], share[CELL_SZ];
	unsigned used_cnt = 0;

	for (unsigned i = 0; i < s->cnt; i++)
		used_cnt += is_used(&s->list[i]);
	if (!used_cnt)
		return;
	human_count(used, used_cnt);
	human_count(unused, s->cnt - used_cnt);
	human_share(share, s->default_launches, s->launches);
	term_section(term, "Streams",
		     "%s used, %s unused; %s of launches on the legacy default stream", used,
		     unused, s->launches ? share : "none");
	print_list(s, term);
	print_edges(s, term);
	if (s->switches)
		term_para(term, "%s", why(s));
}
