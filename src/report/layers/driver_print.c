/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What reached the kernel driver, as JSON and as text. */
#include "driver_priv.h"

static void put_times(struct json *j, const struct dr_row *row)
{
	json_u64(j, "count", row->cnt);
	json_u64(j, "total_ns", row->total_ns);
}

static void put_ioctls(const struct driver_calls *d, struct json *j)
{
	json_open_array(j, "commands");
	for (unsigned i = 0; i < d->commands.keys.cnt; i++) {
		const struct dr_row *row = &d->commands.rows[i];

		json_open(j, NULL);
		json_str(j, "name", row->name);
		json_str(j, "device", row->other);
		put_times(j, row);
		json_u64(j, "mean_ns", ratio_of(row->total_ns, row->cnt) + 0.5);
		json_u64(j, "max_ns", row->max_ns);
		json_u64(j, "errors", row->error_cnt);
		json_close(j);
	}
	json_close_array(j);
	json_open_array(j, "calls");
	for (unsigned i = 0; i < d->calls.keys.cnt; i++) {
		const struct dr_row *row = &d->calls.rows[i];

		json_open(j, NULL);
		json_str(j, "call", row->name);
		json_u64(j, "ioctls", row->cnt);
		json_u64(j, "total_ns", row->total_ns);
		json_u64(j, "calls", row->call_cnt);
		json_close(j);
	}
	json_close_array(j);
	json_open_array(j, "pairs");
	for (unsigned i = 0; i < d->pairs.keys.cnt; i++) {
		json_open(j, NULL);
		json_str(j, "call", d->pairs.rows[i].other);
		json_str(j, "name", d->pairs.rows[i].name);
		put_times(j, &d->pairs.rows[i]);
		json_close(j);
	}
	json_close_array(j);
}

static void put_sched(const struct driver_calls *d, struct json *j)
{
	json_open_array(j, "scheduler");
	for (unsigned i = 0; i < d->sched.keys.cnt; i++) {
		const struct dr_row *row = &d->sched.rows[i];

		json_open(j, NULL);
		json_str(j, "op", row->name);
		json_str(j, "name", row->other);
		json_str(j, "meaning", row->text);
		json_u64(j, "count", row->cnt);
		report_json_ts(d->r, j, "first_ts", row->first_ns);
		json_close(j);
	}
	json_close_array(j);
}

static void put_errors(const struct driver_calls *d, struct json *j)
{
	json_open_array(j, "xids");
	for (unsigned i = 0; i < d->xids.keys.cnt; i++) {
		const struct dr_row *row = &d->xids.rows[i];
		unsigned number = (unsigned)(uintptr_t)row->other;

		json_open(j, NULL);
		json_u64(j, "xid", number);
		json_u64(j, "count", row->cnt);
		report_json_ts(d->r, j, "first_ts", row->first_ns);
		json_str(j, "meaning", nv_xid_text(number));
		json_str(j, "gpu", row->name);
		json_close(j);
	}
	json_close_array(j);
	json_open(j, "uvm");
	json_u64(j, "faults", d->fault_cnt);
	json_u64(j, "migrations", d->migration_cnt);
	json_u64(j, "evictions", d->eviction_cnt);
	if (!d->r->args_redacted)
		json_u64(j, "bytes", d->uvm_bytes);
	json_close(j);
}

void driver_json(const void *a, struct json *j)
{
	const struct driver_calls *d = a;

	json_open(j, "driver");
	json_bool(j, "traced", d->is_seen || d->r->info->kernel_probe);
	json_u64(j, "ioctls", d->ioctl_cnt);
	json_u64(j, "total_ns", d->total_ns);
	json_u64(j, "errors", d->error_cnt);
	json_u64(j, "outside", d->outside_cnt);
	put_ioctls(d, j);
	put_sched(d, j);
	put_errors(d, j);
	json_u64(j, "step_ns", d->step_ns);
	json_open_array(j, "per_second");
	for (unsigned i = 0; i < d->second_cnt; i++)
		json_u64(j, NULL, d->seconds[i]);
	json_close_array(j);
	json_close(j);
}

static void print_rows(const struct driver_calls *d, const struct term *term,
		       const struct dr_rows *rows, const char *heads, bool is_calls)
{
	unsigned top = report_rows(term, d->r->opts.top);
	struct table_row *cells;
	struct table t;

	table__init(&t, heads);
	for (unsigned i = 0; i < rows->keys.cnt && i < top; i++) {
		const struct dr_row *row = &rows->rows[i];

		cells = table__row(&t, row->name);
		human_count(cells->cell[0], row->cnt);
		human_time(cells->cell[1], row->total_ns);
		human_time(cells->cell[2], ratio_of(row->total_ns, row->cnt));
		human_time(cells->cell[3], row->max_ns);
		cells->red = row->error_cnt;
		if (is_calls)
			human_count(cells->cell[4], row->call_cnt);
		else if (row->error_cnt)
			human_count(cells->cell[4], row->error_cnt);
	}
	if (t.row_cnt)
		table__print(&t, term);
}

void driver_print(const void *a, const struct term *term)
{
	const struct driver_calls *d = a;
	char count[CELL_SZ], time[CELL_SZ], outside[CELL_SZ];

	if (!d->ioctl_cnt && !d->sched_cnt && !d->xid_cnt)
		return;
	human_count(count, d->ioctl_cnt);
	human_time(time, d->total_ns);
	human_count(outside, d->outside_cnt);
	term_section(term, "Kernel driver", "%s ioctl%s in %s, %s of them outside of CUDA calls",
		     count, plural(d->ioctl_cnt), time, outside);
	print_rows(d, term, &d->commands, "count|time|mean|max|errors|ioctl", false);
	print_rows(d, term, &d->calls, "ioctls|time|mean|max|in calls|CUDA call", true);
	for (unsigned i = 0; i < d->sched.keys.cnt; i++) {
		const struct dr_row *row = &d->sched.rows[i];

		human_count(count, row->cnt);
		term_para(term, "scheduler: %s x %s%s%s", count, row->name, row->text ? ", " : "",
			  row->text ? row->text : "");
	}
	for (unsigned i = 0; i < d->xids.keys.cnt; i++) {
		unsigned number = (unsigned)(uintptr_t)d->xids.rows[i].other;
		const char *meaning = nv_xid_text(number);

		human_count(count, d->xids.rows[i].cnt);
		term_para(term, "Xid %u: %s x %s", number, count, meaning ? meaning : "unknown");
	}
}
