/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "plain.h"

#include "view.h"
#include "text/json.h"
#include "text/term.h"
#include "util/out.h"
#include "util/plain.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void put_cell(FILE *f, const struct view_col *col, const char *text)
{
	int pad = col->width - term_columns(text, strlen(text));

	fprintf(f, "%*s", pad > 0 && !col->is_text ? pad : 0, "");
	plain_print(f, text, strlen(text));
	fprintf(f, "%*s  ", pad > 0 && col->is_text ? pad : 0, "");
}

static void print_text(const struct top_stats *r, const struct view *s, FILE *f)
{
	char text[1024];

	view_sums(r, text, sizeof(text));
	fprintf(f, "%s\n", text);
	view_lost(r, text, sizeof(text));
	fprintf(f, "%s\n", text);
	for (unsigned c = 0; c < s->col_cnt; c++)
		put_cell(f, &s->cols[c], s->cols[c].head);
	fprintf(f, "%s\n", s->name_head);
	for (unsigned i = 0; i < s->cnt; i++) {
		const struct view_line *l = &s->lines[i];

		for (unsigned c = 0; c < s->col_cnt; c++)
			put_cell(f, &s->cols[c], l->cell[c]);
		plain_print(f, l->name, strlen(l->name));
		fputs(l->is_over ? " (ended)\n" : "\n", f);
	}
	fputc('\n', f);
}

static void put_sums(struct json *j, const struct top_sums *sums)
{
	json_u64(j, "calls", sums->calls);
	json_u64(j, "errors", sums->errors);
	json_u64(j, "launches", sums->launches);
	json_u64(j, "copied_bytes", sums->copied);
	json_micro(j, "wait_ms", sums->wait_ns);
}

static void put_fn(struct json *j, const struct top_fn *f)
{
	json_open(j, NULL);
	json_str(j, "symbol", f->fn->symbol);
	json_u64(j, "calls", f->diff.calls);
	json_u64(j, "errors", f->diff.errors);
	json_micro(j, "ms", f->diff.total_ns);
	json_milli(j, "max_us", f->now.max_ns);
	json_u64(j, "all_calls", f->now.calls);
	json_close(j);
}

static void put_row(struct json *j, const struct top_row *row)
{
	json_open(j, NULL);
	json_u64(j, "pid", row->pid);
	json_str(j, "owner", row->owner);
	json_str(j, "command", row->command);
	json_bool(j, "ended", row->ended);
	put_sums(j, &row->diff);
	if (row_knows_cost(row))
		json_micro(j, "cost_ms", row->diff.cost_ns);
	else
		json_null(j, "cost_ms");
	json_bool(j, "copies_uncounted", row->unsized);
	json_u64(j, "device_bytes", row->mem.bytes[MEM_DEVICE]);
	json_u64(j, "host_bytes", row->mem.bytes[MEM_HOST]);
	json_u64(j, "managed_bytes", row->mem.bytes[MEM_MANAGED]);
	json_bool(j, "ran_before", row->is_late);
	json_open_array(j, "functions");
	for (unsigned i = 0; i < row->fn_cnt; i++)
		if (row->fns[i].diff.calls)
			put_fn(j, &row->fns[i]);
	json_close_array(j);
	json_close(j);
}

static void print_json(const struct top_stats *r, const struct view *s, struct out *o)
{
	uint64_t device_bytes;
	const struct top_sums sums = stats__sums(r, &device_bytes);
	struct json j;

	json__init(&j, o);
	json_open(&j, NULL);
	json_f64(&j, "seconds", (r->to_ns - r->from_ns) / 1e9);
	put_sums(&j, &sums);
	json_micro(&j, "cost_ms", sums.cost_ns);
	json_u64(&j, "device_bytes", device_bytes);
	json_bool(&j, "complete", !losses__any(&r->losses) && !r->unlisted);
	json_u64(&j, "lost", r->lost);
	json_str(&j, "lost_what", r->lost_what);
	json_u64(&j, "unlisted", r->unlisted);
	json_str(&j, "not_traced", r->session->t.not_traced);
	json_open_array(&j, "processes");
	for (unsigned i = 0; i < s->cnt; i++)
		put_row(&j, s->lines[i].key);
	json_close_array(&j);
	json_close(&j);
	out_bytes(o, "\n", 1);
}

int top_print(const struct top_stats *r, bool json)
{
	struct view s = {0};
	struct out *o;
	int ret = 0;

	if (!view__of_procs(&s, r, procs_order))
		ret = -ENOMEM;
	errno = 0;
	if (json) {
		o = out__memory();
		if (o) {
			print_json(r, &s, o);
			fwrite(o->buf, 1, o->len, stdout);
			out__close(o);
		}
	} else {
		print_text(r, &s, stdout);
	}
	view__free(&s);
	if (fflush(stdout) || ferror(stdout))
		ret = errno ? -errno : -EIO;
	return ret;
}
