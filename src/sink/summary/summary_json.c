/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The summary as JSON. Times are in milliseconds, as in the trace itself. */
#include "summary_priv.h"

#include <stdlib.h>

#include "text/json.h"
#include "text/losses_text.h"

/* Longer tables are cut: the totals include the rest. */
#define JSON_ROWS_MAX 1000

static void put_ms(struct json *j, const char *name, uint64_t ns)
{
	json_f64(j, name, ns / 1e6);
}

static void put_classes(struct json *j, const struct summary *s)
{
	unsigned i;

	json_open_array(j, "classes");
	for (i = 0; i < CLASS_CNT; i++) {
		if (!s->classes[i].cnt)
			continue;
		json_open(j, NULL);
		json_str(j, "class", api_class_name(i));
		json_u64(j, "calls", s->classes[i].cnt);
		put_ms(j, "ms", s->classes[i].total_ns);
		json_close(j);
	}
	json_close_array(j);
}

static void put_functions(struct json *j, const struct summary *s)
{
	size_t cnt, i;
	struct fn_row *rows = summary_fns(s, &cnt);

	if (cnt)
		qsort(rows, cnt, sizeof(*rows), fn_row_by_time);
	json_open_array(j, "functions");
	for (i = 0; i < cnt; i++) {
		const struct fn_stat *st = &rows[i].st;

		json_open(j, NULL);
		json_str(j, "name", rows[i].name);
		json_u64(j, "calls", st->cnt);
		put_ms(j, "ms", st->total_ns);
		if (st->untimed_cnt)
			json_u64(j, "entry_only", st->untimed_cnt);
		if (st->cnt > st->untimed_cnt)
			json_f64(j, "mean_us", st->total_ns / 1e3 / (st->cnt - st->untimed_cnt));
		json_f64(j, "max_us", st->max_ns / 1e3);
		json_u64(j, "errors", st->error_cnt);
		put_ms(j, "wait_ms", st->wait_ns);
		if (s->has_off_cpu && st->wait_cnt)
			put_ms(j, "wait_off_cpu_ms", st->off_cpu_ns);
		json_close(j);
	}
	json_close_array(j);
	free(rows);
}

static void put_kernels(struct json *j, const struct summary *s)
{
	size_t cnt, i;
	const struct kernel_stat **list = summary_kernels(s, &cnt);

	json_open(j, "launches");
	json_u64(j, "total", s->launch_cnt);
	put_ms(j, "ms", s->launch_ns);
	json_u64(j, "captured", s->launch_node_cnt);
	json_u64(j, "unnamed", s->launch_unnamed_cnt);
	json_u64(j, "streams", s->stream_cnt);
	json_u64(j, "distinct", cnt);
	json_open_array(j, "kernels");
	for (i = 0; i < cnt && i < JSON_ROWS_MAX; i++) {
		json_open(j, NULL);
		json_str(j, "kernel", list[i]->name);
		json_u64(j, "launches", list[i]->cnt);
		json_u64(j, "captured", list[i]->node_cnt);
		put_ms(j, "ms", list[i]->total_ns);
		json_f64(j, "max_us", list[i]->max_ns / 1e3);
		if (list[i]->gpu_cnt) {
			json_u64(j, "gpu_executions", list[i]->gpu_cnt);
			put_ms(j, "gpu_ms", list[i]->gpu_ns);
		}
		json_close(j);
	}
	json_close_array(j);
	json_close(j);
	json_open(j, "graphs");
	json_u64(j, "launches", s->graph_launch_cnt);
	put_ms(j, "ms", s->graph_launch_ns);
	json_u64(j, "instantiated", s->instantiate_cnt);
	json_close(j);
	free(list);
}

static void put_memory(struct json *j, const struct summary *s)
{
	unsigned i;

	json_open_array(j, "memory");
	for (i = 0; i < MEM_KIND_CNT; i++) {
		json_open(j, NULL);
		json_str(j, "kind", mem_shown_name[i]);
		json_u64(j, "allocs", s->mem[i].alloc_cnt);
		json_u64(j, "frees", s->mem[i].free_cnt);
		json_u64(j, "allocated", s->mem[i].alloc_bytes);
		json_u64(j, "peak", s->mem[i].peak);
		json_u64(j, "at_end", s->mem[i].live + s->mem[i].kept);
		json_close(j);
	}
	json_close_array(j);
}

static void put_transfers(struct json *j, const struct summary *s)
{
	const struct transfer_stat *t;
	unsigned i;

	json_open_array(j, "transfers");
	for (i = 0; i < TRANSFER_KIND_CNT; i++) {
		t = &s->transfers[i];
		if (!t->cnt)
			continue;
		json_open(j, NULL);
		json_str(j, "kind", transfer_kind_name(i));
		json_u64(j, "calls", t->cnt);
		json_u64(j, "bytes", t->bytes);
		put_ms(j, "ms", t->total_ns);
		json_u64(j, "sync_calls", t->sync_cnt);
		json_u64(j, "sync_bytes", t->sync_bytes);
		put_ms(j, "sync_ms", t->sync_ns);
		json_close(j);
	}
	json_close_array(j);
}

static void put_errors(struct json *j, const struct summary *s)
{
	unsigned i;

	json_open_array(j, "errors");
	for (i = 0; i < s->error_kinds; i++) {
		json_open(j, NULL);
		json_i64(j, "result", s->errors[i].code);
		json_str(j, "error", fn_result_name(s->errors[i].first, s->errors[i].code));
		json_u64(j, "calls", s->errors[i].cnt);
		json_str(j, "first", s->errors[i].first->name);
		json_close(j);
	}
	json_close_array(j);
}

static void put_end(struct json *j, const struct trace_end *end)
{
	unsigned i;

	json_open(j, "drops");
	for (i = 0; i < CT_DROP_CNT; i++)
		json_u64(j, drop_name(i), end->drops[i]);
	json_close(j);
	json_u64(j, "bad_records", end->bad_record_cnt);
	json_open(j, "limits_hit");
	for (i = 0; i < QUOTA_CNT; i++)
		if (end->full[i])
			json_u64(j, limit_name(i), end->full[i]);
	json_close(j);
	json_f64(j, "probe_cost_ns", end->probe_cost_ns);
	put_ms(j, "cost_ms", end->cost_ns);
	json_f64(j, "cost_share", end->cost_share);
	json_f64(j, "max_thread_overhead", end->max_thread_overhead);
	json_open_array(j, "costs");
	for (i = 0; i < end->costly_cnt; i++) {
		json_open(j, NULL);
		json_str(j, "symbol", end->costly[i].fn->symbol);
		put_ms(j, "ms", end->costly[i].ns);
		json_close(j);
	}
	json_close_array(j);
	put_ms(j, "detail_low_saving_ms", end->detail_low_saving_ns);
	json_str(j, "reason", end->reason);
	json_str(j, "not_traced", end->not_traced);
}

/* Values derived from arguments. */
static void put_redacted(struct json *j)
{
	json_null(j, "launches");
	json_null(j, "graphs");
	json_null(j, "memory");
	json_null(j, "transfers");
}

void summary__json(struct summary *s, struct out *out, const struct trace_info *info,
		   const struct trace_end *end)
{
	struct losses lost = summary_losses(s, end);
	struct json j;

	gpu_devices__finish(&s->run_gpus);
	json__init(&j, out);
	json_open(&j, NULL);
	json_str(&j, "type", "summary");
	json_u64(&j, "schema", TRACE_SCHEMA);
	losses_json(&lost, &j);
	put_ms(&j, "wall_ms", end->end_ns > info->base_ns ? end->end_ns - info->base_ns : 0);
	json_u64(&j, "processes", s->proc_cnt);
	json_u64(&j, "events", s->event_cnt);
	json_u64(&j, "calls", s->call_cnt);
	put_ms(&j, "call_ms", s->call_ns);
	put_classes(&j, s);
	if (info->redacted)
		json_str(&j, "redacted", info->redacted);
	if (summary_redacts_args(info)) {
		put_redacted(&j);
	} else {
		put_kernels(&j, s);
		put_memory(&j, s);
		put_transfers(&j, s);
	}
	summary_gpu_json(&j, s, end);
	range_sums__json(s->ranges, &j, "ranges");
	range_sums__json(s->operators, &j, "operators");
	allocator_sums__json(s->allocator, &j, "allocator");
	json_open(&j, "waits");
	json_u64(&j, "calls", s->wait_cnt);
	put_ms(&j, "ms", s->wait_ns);
	json_close(&j);
	summary_json_driver(s, &j, end, info->kernel_probe);
	s->residency.info = info;
	residency__sort(&s->residency);
	if (info->gpu_ctxsw)
		residency__json(&s->residency, &j);
	gpu_sums__json(s->gpus, &j, "gpu_stats");
	put_functions(&j, s);
	json_u64(&j, "failed", s->error_cnt);
	put_errors(&j, s);
	json_u64(&j, "unfinished", s->unfinished_cnt);
	json_u64(&j, "abandoned", s->abandoned_cnt);
	summary_json_counted(&j, end);
	put_end(&j, end);
	json_close(&j);
	out_char(out, '\n');
	out__commit(out);
}
