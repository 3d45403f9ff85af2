/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "memory_priv.h"

#include "text/stack.h"

static void put_device(struct json *j, const char *name, int device)
{
	if (device < 0)
		json_null(j, name);
	else
		json_i64(j, name, device);
}

static void put_kinds(const struct memory *m, struct json *j)
{
	json_open_array(j, "kinds");
	for (unsigned i = 0; i < BLOCK_KIND_CNT; i++) {
		const struct kind_stat *k = &m->kinds[i];

		if (!k->allocs && !k->frees)
			continue;
		json_open(j, NULL);
		json_sym(j, "kind", block_desc[i].name);
		json_u64(j, "allocs", k->allocs);
		json_u64(j, "frees", k->frees);
		json_u64(j, "alloc_bytes", k->alloc_bytes);
		json_u64(j, "live_bytes", k->live + k->kept);
		json_u64(j, "peak_bytes", k->peak);
		if (k->peak)
			report_json_ts(m->r, j, "peak_ts", k->peak_ns);
		json_u64(j, "alloc_ns", k->alloc_ns);
		json_u64(j, "free_ns", k->free_ns);
		json_close(j);
	}
	json_close_array(j);
}

static void put_dev_row(const struct memory *m, struct json *j, const struct dev_row *d)
{
	if (!d->peak)
		return;
	json_open(j, NULL);
	put_device(j, "device", d->device);
	json_u64(j, "pid", d->pid);
	json_u64(j, "live_bytes", d->live + d->kept);
	json_u64(j, "peak_bytes", d->peak);
	report_json_ts(m->r, j, "peak_ts", d->peak_ns);
	json_close(j);
}

static void put_devices(const struct memory *m, struct json *j)
{
	json_open_array(j, "devices");
	for (unsigned i = 0; i < m->dev_row_cnt; i++)
		put_dev_row(m, j, m->dev_rows[i]);
	put_dev_row(m, j, &m->other_dev);
	json_close_array(j);
}

static void put_sizes(const struct memory *m, struct json *j)
{
	json_open_array(j, "sizes");
	for (unsigned i = 0; i < SIZE_BITS; i++) {
		if (!m->sizes[i].cnt)
			continue;
		json_open(j, NULL);
		json_u64(j, "below", 1ull << i);
		json_u64(j, "count", m->sizes[i].cnt);
		json_u64(j, "bytes", m->sizes[i].bytes);
		json_close(j);
	}
	json_close_array(j);
}

static void put_leak(const struct memory *m, struct json *j, const struct leak *l)
{
	json_open(j, NULL);
	json_hex(j, "ptr", l->ptr);
	if (l->size_known)
		json_u64(j, "size", l->size);
	else
		json_null(j, "size");
	json_sym(j, "kind", block_desc[l->kind].name);
	report_json_ts(m->r, j, "ts", l->start_ns);
	json_u64(j, "id", l->id);
	json_str(j, "call", l->call);
	json_u64(j, "pid", l->pid);
	if (l->device >= 0)
		json_i64(j, "device", l->device);
	json_sym(j, "end", leak_end_name[l->end]);
	json_stack_names(j, l->stack);
	json_close(j);
}

static void put_leaks(const struct memory *m, struct json *j)
{
	json_open_array(j, "leaks");
	for (unsigned i = 0; i < m->leak_list_cnt; i++)
		put_leak(m, j, &m->leaks[i]);
	json_close_array(j);
	json_u64(j, "leak_bytes", m->leak_bytes);
	json_u64(j, "leak_count", m->leak_cnt);
	json_open(j, "leak_ends");
	for (unsigned i = 0; i < LEAK_END_CNT; i++) {
		if (!m->leak_ends[i].cnt)
			continue;
		json_open(j, leak_end_name[i]);
		json_u64(j, "count", m->leak_ends[i].cnt);
		json_u64(j, "bytes", m->leak_ends[i].bytes);
		json_close(j);
	}
	json_close(j);
}

static void put_bad_frees(const struct memory *m, struct json *j)
{
	const char *error;

	json_open_array(j, "bad_frees");
	for (unsigned i = 0; i < m->bad_free_list_cnt; i++) {
		const struct bad_free *b = &m->bad_frees[i];

		json_open(j, NULL);
		json_sym(j, "what", bad_free_name[b->what]);
		json_hex(j, "ptr", b->ptr);
		report_json_ts(m->r, j, "ts", b->start_ns);
		json_u64(j, "id", b->id);
		json_str(j, "call", b->call);
		json_u64(j, "pid", b->pid);
		if (b->what == BAD_DOUBLE)
			report_json_ts(m->r, j, "freed_ts", b->freed_ns);
		if (b->inside)
			json_hex(j, "inside", b->inside);
		error = api_result_name(api_at(API_CUDA), b->error);
		if (error)
			json_sym(j, "error", error);
		json_f64(j, "confidence", b->confidence);
		json_close(j);
	}
	json_close_array(j);
	json_u64(j, "bad_free_count", m->bad_free_cnt);
	json_u64(j, "unmatched_frees", m->unmatched_free_cnt);
	json_u64(j, "unseen_frees", m->unseen_free_cnt);
	json_u64(j, "late_frees", m->late_free_cnt);
	json_u64(j, "too_late_frees", m->too_late_cnt);
	if (m->rejected_cnt)
		json_u64(j, "rejected", m->rejected_cnt);
}

static void put_fragmentation(const struct memory *m, struct json *j)
{
	const struct fragmentation *f = &m->frag;

	json_open(j, "fragmentation");
	if (f->ranges) {
		json_u64(j, "pid", f->pid);
		report_json_ts(m->r, j, "ts", f->ts_ns);
	}
	json_u64(j, "ranges", f->ranges);
	json_u64(j, "regions", f->regions);
	json_u64(j, "holes", f->holes);
	json_u64(j, "largest_hole", f->largest_hole);
	json_u64(j, "span", f->span);
	json_f64(j, "share", f->span ? (double)f->hole_bytes / f->span : 0);
	json_close(j);
}

static void put_over_time(const struct memory *m, struct json *j)
{
	const struct mem_time *t = &m->time;

	json_open(j, "over_time");
	json_u64(j, "step_ns", t->step_ns);
	json_open(j, "kinds");
	for (unsigned k = 0; k < BLOCK_KIND_CNT; k++) {
		if (!m->kinds[k].allocs)
			continue;
		json_open_array(j, block_desc[k].name);
		for (unsigned i = 0; i <= t->last; i++)
			json_u64(j, NULL, t->max[k][i]);
		json_close_array(j);
	}
	json_close(j);
	json_open_array(j, "allocs");
	for (unsigned i = 0; i <= t->last && m->alloc_cnt; i++)
		json_u64(j, NULL, t->allocs[i]);
	json_close_array(j);
	json_close(j);
}

void memory__json(const void *a, struct json *j)
{
	const struct memory *m = a;

	json_open(j, memory_ops.name);
	put_kinds(m, j);
	put_devices(m, j);
	json_u64(j, "peak_bytes", m->device_peak);
	if (m->device_peak)
		report_json_ts(m->r, j, "peak_ts", m->device_peak_ns);
	json_f64(j, "rate", memory_rate(m));
	put_sizes(m, j);
	put_leaks(m, j);
	put_bad_frees(m, j);
	if (m->failed_cnt) {
		json_open(j, "failed_allocs");
		json_u64(j, "count", m->failed_cnt);
		json_u64(j, "largest", m->failed_largest);
		report_json_ts(m->r, j, "first_ts", m->failed_first_ns);
		json_close(j);
	}
	if (m->pool_made_cnt || m->pool_gone_cnt || m->pool_trim_cnt) {
		json_open(j, "pools");
		json_u64(j, "created", m->pool_made_cnt);
		json_u64(j, "destroyed", m->pool_gone_cnt);
		json_u64(j, "trims", m->pool_trim_cnt);
		json_close(j);
	}
	json_bool(j, "reset_unknown", m->reset_unknown);
	put_fragmentation(m, j);
	put_over_time(m, j);
	json_close(j);
}
