/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The summary's parts for --kernel and --sched, as text and as JSON. */
#include "summary_priv.h"

#include <stdlib.h>
#include <string.h>

#include "decode/nv/nv.h"
#include "text/json.h"
#include "text/table.h"

static void print_head(const struct driver_stat *d, const struct term *term, size_t cmd_cnt)
{
	static const char *const names[DRV_OP_CNT] = {NULL, "open", "mmap", "close", "poll"};
	char ioctls[CELL_SZ], cmds[CELL_SZ], time[CELL_SZ], cell[CELL_SZ], rest[256] = "";
	size_t n = 0;

	human_count(ioctls, d->op_cnt[DRV_IOCTL]);
	human_count(cmds, cmd_cnt);
	human_time(time, d->ioctl_ns);
	for (unsigned i = DRV_OPEN; i < DRV_OP_CNT; i++) {
		if (!d->op_cnt[i])
			continue;
		human_count(cell, d->op_cnt[i]);
		n += (size_t)snprintf(rest + n, sizeof(rest) - n, "; %s %s%s", cell, names[i],
				      plural(d->op_cnt[i]));
	}
	if (d->unfinished_cnt) {
		human_count(cell, d->unfinished_cnt);
		snprintf(rest + n, sizeof(rest) - n, "; %s had not returned", cell);
	}
	term_section(term, "Into the NVIDIA driver", "%s ioctl%s of %s kind%s in %s%s", ioctls,
		     plural(d->op_cnt[DRV_IOCTL]), cmds, plural(cmd_cnt), time, rest);
}

static void print_cmds(const struct term *term, const struct cmd_stat **list, size_t cnt)
{
	struct table_row *r;
	struct table t;

	table__init(&t, "count|time|mean|max|errors|ioctl");
	for (size_t i = 0; i < cnt && i < (size_t)summary_top(term); i++) {
		const struct cmd_stat *c = list[i];

		r = table__row(&t, c->name);
		human_count(r->cell[0], c->cnt);
		human_time(r->cell[1], c->total_ns);
		human_time(r->cell[2], (double)c->total_ns / c->cnt);
		human_time(r->cell[3], c->max_ns);
		if (c->error_cnt)
			human_count(r->cell[4], c->error_cnt);
		r->red = c->error_cnt;
	}
	if (t.row_cnt)
		table__print(&t, term);
}

static int cmd_by_errors(const void *a, const void *b)
{
	const struct cmd_stat *x = *(const struct cmd_stat *const *)a;
	const struct cmd_stat *y = *(const struct cmd_stat *const *)b;

	if (x->error_cnt != y->error_cnt)
		return x->error_cnt < y->error_cnt ? 1 : -1;
	return strcmp(x->name, y->name);
}

static void print_failed(const struct driver_stat *d, const struct term *term,
			 const struct cmd_stat **list, size_t cnt)
{
	char names[TABLE_ROWS][160], total[CELL_SZ];
	struct table_row *r;
	struct table t;

	if (!d->op_errors[DRV_IOCTL] || !cnt)
		return;
	human_count(total, d->op_errors[DRV_IOCTL]);
	term_section(term, "Failed ioctls", "%s: a status other than NV_OK, or ioctl() failed",
		     total);
	qsort(list, cnt, sizeof(*list), cmd_by_errors);
	table__init(&t, "errors|ioctl");
	for (size_t i = 0; i < cnt && i < (size_t)summary_top(term) && list[i]->error_cnt; i++) {
		const char *error = list[i]->first_error;

		snprintf(names[i], sizeof(names[i]), "%s, first %s", list[i]->name,
			 error ? error : "without a name");
		r = table__row(&t, names[i]);
		human_count(r->cell[0], list[i]->error_cnt);
		r->red = true;
	}
	table__print(&t, term);
}

static void put_call_row(struct table *t, const char *name, uint64_t calls, uint64_t cnt,
			 uint64_t ns)
{
	struct table_row *r = table__row(t, name);

	if (calls)
		human_count(r->cell[0], calls);
	human_count(r->cell[1], cnt);
	human_time(r->cell[2], ns);
	if (!calls)
		return;
	snprintf(r->cell[3], CELL_SZ, "%.1f", (double)cnt / calls);
	human_time(r->cell[4], (double)ns / calls);
}

/* Driver requests of calls, including calls within them. */
static void print_calls(const struct driver_stat *d, const struct term *term, struct fn_row *rows,
			size_t cnt)
{
	struct table t;

	table__init(&t, "calls|ioctls|time|per call|time per call|function");
	qsort(rows, cnt, sizeof(*rows), fn_row_by_driver);
	for (size_t i = 0; i < cnt && i < (size_t)summary_top(term) && rows[i].st.ioctl_cnt; i++)
		put_call_row(&t, rows[i].name, rows[i].st.cnt, rows[i].st.ioctl_cnt,
			     rows[i].st.ioctl_ns);
	if (d->outside_cnt)
		put_call_row(&t, "(outside CUDA calls)", 0, d->outside_cnt, d->outside_ns);
	if (!t.row_cnt)
		return;
	putc('\n', term->f);
	table__print(&t, term);
}

static void print_slowest(const struct driver_stat *d, const struct term *term)
{
	char names[SUMMARY_SLOWEST][320];
	struct table_row *r;
	struct table t;

	if (!d->slow_cnt)
		return;
	putc('\n', term->f);
	table__init(&t, "time|slowest ioctls");
	for (unsigned i = 0; i < d->slow_cnt; i++) {
		const struct slow_ioctl *slow = &d->slowest[i];

		snprintf(names[i], sizeof(names[i]), "%s%s%s%s%s", slow->name,
			 slow->class ? " " : "", slow->class ? slow->class : "",
			 slow->call ? " in " : "", slow->call ? slow->call : "");
		r = table__row(&t, names[i]);
		human_time(r->cell[0], slow->ns);
	}
	table__print(&t, term);
}

static void print_ops(const struct term *term, const char *title, const struct op_stat *ops,
		      unsigned kinds)
{
	char text[512] = "", cell[CELL_SZ], bytes[CELL_SZ];
	size_t n = 0;

	for (unsigned i = 0; i < kinds && n < sizeof(text); i++) {
		human_count(cell, ops[i].cnt);
		human_bytes(bytes, ops[i].bytes);
		n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%s %s%s%s", n ? ", " : "",
				      cell, ops[i].op, ops[i].bytes ? " of " : "",
				      ops[i].bytes ? bytes : "");
	}
	if (kinds)
		term_section(term, title, "%s", text);
}

static void print_objects(const struct term *term, const struct trace_end *end)
{
	char refused[CELL_SZ], unknown[CELL_SZ];

	if (!end->object_unknown_cnt && !end->object_refused_cnt)
		return;
	putc('\n', term->f);
	human_count(refused, end->object_refused_cnt);
	human_count(unknown, end->object_unknown_cnt);
	if (end->object_unknown_cnt)
		fprintf(term->f,
			"  %s ioctl%s on objects whose allocation was not recorded: no class\n",
			unknown, plural(end->object_unknown_cnt));
	if (end->object_refused_cnt)
		fprintf(term->f, "  %s object%s not stored: the table of handles was full\n",
			refused, plural(end->object_refused_cnt));
}

void summary_print_driver(const struct summary *s, const struct term *term, struct fn_row *rows,
			  size_t cnt, const struct trace_info *info, const struct trace_end *end)
{
	uint64_t wall_ns = end->end_ns > info->base_ns ? end->end_ns - info->base_ns : 0;
	const struct driver_stat *d = &s->driver;
	char count[CELL_SZ], rate[CELL_SZ];
	const struct cmd_stat **list;
	size_t cmd_cnt;

	if (info->kernel_probe || d->op_cnt[DRV_IOCTL]) {
		list = summary_cmds(s, &cmd_cnt);
		print_head(d, term, cmd_cnt);
		print_cmds(term, list, cmd_cnt);
		print_calls(d, term, rows, cnt);
		print_slowest(d, term);
		print_objects(term, end);
		print_failed(d, term, list, cmd_cnt);
		free(list);
	}
	print_ops(term, "GPU scheduler", d->sched, d->sched_kinds);
	print_ops(term, "Managed memory", d->uvm, d->uvm_kinds);
	if (!d->irq_cnt)
		return;
	human_count(count, d->irq_cnt);
	human_count(rate, wall_ns ? (uint64_t)(d->irq_cnt * 1e9 / wall_ns + 0.5) : 0);
	term_section(term, "GPU interrupts", "%s (%s/s)", count, rate);
}

/* JSON */

static void put_ms(struct json *j, const char *name, uint64_t ns)
{
	json_f64(j, name, ns / 1e6);
}

static void put_cmds(const struct summary *s, struct json *j)
{
	size_t cnt;
	const struct cmd_stat **list = summary_cmds(s, &cnt);

	json_open_array(j, "commands");
	for (size_t i = 0; i < cnt; i++) {
		const struct cmd_stat *c = list[i];

		json_open(j, NULL);
		json_str(j, "name", c->name);
		json_u64(j, "count", c->cnt);
		put_ms(j, "ms", c->total_ns);
		json_f64(j, "mean_us", c->total_ns / 1e3 / c->cnt);
		json_f64(j, "max_us", c->max_ns / 1e3);
		json_u64(j, "errors", c->error_cnt);
		if (c->error_cnt)
			json_str(j, "first_error", c->first_error);
		json_close(j);
	}
	json_close_array(j);
	free(list);
}

static void put_calls(const struct summary *s, struct json *j)
{
	size_t cnt;
	struct fn_row *rows = summary_fns(s, &cnt);

	if (cnt)
		qsort(rows, cnt, sizeof(*rows), fn_row_by_driver);
	json_open_array(j, "functions");
	for (size_t i = 0; i < cnt; i++) {
		if (!rows[i].st.ioctl_cnt)
			continue;
		json_open(j, NULL);
		json_str(j, "name", rows[i].name);
		json_u64(j, "calls", rows[i].st.cnt);
		json_u64(j, "ioctls", rows[i].st.ioctl_cnt);
		put_ms(j, "ms", rows[i].st.ioctl_ns);
		json_close(j);
	}
	json_close_array(j);
	json_open(j, "outside");
	json_u64(j, "ioctls", s->driver.outside_cnt);
	put_ms(j, "ms", s->driver.outside_ns);
	json_close(j);
	free(rows);
}

static void put_slowest(const struct driver_stat *d, struct json *j)
{
	json_open_array(j, "slowest");
	for (unsigned i = 0; i < d->slow_cnt; i++) {
		json_open(j, NULL);
		json_str(j, "name", d->slowest[i].name);
		json_f64(j, "us", d->slowest[i].ns / 1e3);
		json_str(j, "class", d->slowest[i].class);
		json_str(j, "call", d->slowest[i].call);
		json_close(j);
	}
	json_close_array(j);
}

static void put_ops(struct json *j, const char *name, const struct op_stat *ops, unsigned kinds)
{
	json_open_array(j, name);
	for (unsigned i = 0; i < kinds; i++) {
		json_open(j, NULL);
		json_str(j, "op", ops[i].op);
		json_u64(j, "count", ops[i].cnt);
		if (ops[i].bytes)
			json_u64(j, "bytes", ops[i].bytes);
		json_close(j);
	}
	json_close_array(j);
}

static void put_xids(const struct driver_stat *d, struct json *j)
{
	json_open_array(j, "xids");
	for (unsigned i = 0; i < d->xid_kinds; i++) {
		json_open(j, NULL);
		json_u64(j, "xid", d->xids[i].number);
		json_u64(j, "count", d->xids[i].cnt);
		json_str(j, "meaning", nv_xid_text(d->xids[i].number));
		json_str(j, "gpu", d->xids[i].gpu);
		json_str(j, "message", d->xids[i].message);
		json_close(j);
	}
	json_close_array(j);
}

void summary_json_driver(const struct summary *s, struct json *j, const struct trace_end *end,
			 bool is_traced)
{
	static const char *const names[DRV_OP_CNT] = {"ioctls", "opens", "mmaps", "closes",
						      "polls"};
	const struct driver_stat *d = &s->driver;

	if (!is_traced && !d->op_cnt[DRV_IOCTL] && !d->irq_cnt && !d->xid_cnt)
		return;
	json_open(j, "driver");
	for (unsigned i = 0; i < DRV_OP_CNT; i++)
		json_u64(j, names[i], d->op_cnt[i]);
	put_ms(j, "ioctl_ms", d->ioctl_ns);
	json_u64(j, "failed_ioctls", d->op_errors[DRV_IOCTL]);
	json_u64(j, "unfinished", d->unfinished_cnt);
	json_u64(j, "objects_refused", end->object_refused_cnt);
	json_u64(j, "objects_unknown", end->object_unknown_cnt);
	put_cmds(s, j);
	put_calls(s, j);
	put_slowest(d, j);
	put_ops(j, "scheduler", d->sched, d->sched_kinds);
	put_ops(j, "managed_memory", d->uvm, d->uvm_kinds);
	put_xids(d, j);
	json_u64(j, "interrupts", d->irq_cnt);
	json_close(j);
}
