/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "serving_priv.h"

static void put_sum(const struct serving *s, struct json *j, const char *name,
		    const struct serving_sum *x)
{
	if (!x->cnt)
		return;
	json_open(j, name);
	json_u64(j, "count", x->cnt);
	json_u64(j, "time_ns", x->ns);
	json_u64(j, "median_ns", x->median_ns);
	json_u64(j, "p95_ns", x->p95_ns);
	json_u64(j, "max_ns", x->max_ns);
	json_u64(j, "tokens", x->tokens);
	json_u64(j, "tokens_known", x->tokens_cnt);
	json_u64(j, "launches", x->launches);
	json_u64(j, "graph_launches", x->graphs);
	json_u64(j, "call_ns", x->call_ns);
	json_u64(j, "launch_ns", x->launch_ns);
	json_u64(j, "sync_ns", x->sync_ns);
	if (s->res.has_gpu_times)
		json_u64(j, "gpu_ns", x->gpu_ns);
	json_close(j);
}

static void put_graphs(const struct serving *s, struct json *j)
{
	const struct serving_result *r = &s->res;

	json_open(j, "graphs");
	json_u64(j, "replayed", s->replay_cnt);
	json_u64(j, "eager", s->all.cnt - s->replay_cnt);
	json_u64(j, "eager_decode", r->eager_cnt);
	json_u64(j, "padded_known", r->padded_known_cnt);
	json_u64(j, "padded", r->padded_cnt);
	json_u64(j, "padded_rows", r->padded_rows);
	json_u64(j, "padded_real_rows", r->padded_real_rows);
	json_open_array(j, "sizes");
	for (unsigned i = 0; i < s->size_cnt; i++) {
		json_open(j, NULL);
		json_u64(j, "tokens", s->sizes[i].size);
		json_u64(j, "replays", s->sizes[i].cnt);
		json_close(j);
	}
	json_close_array(j);
	json_close(j);
}

static void put_between(const struct serving *s, struct json *j)
{
	json_open(j, "between");
	json_u64(j, "time_ns", s->between_ns);
	json_u64(j, "median_ns", s->between_median_ns);
	json_u64(j, "p95_ns", s->between_p95_ns);
	json_u64(j, "pauses", s->pause_cnt);
	json_u64(j, "pauses_ns", s->pause_ns);
	json_open_array(j, "functions");
	for (unsigned i = 0; i < s->pause_keys.cnt && i < s->r->opts.top; i++) {
		const struct pause *p = &s->pauses[i];

		json_open(j, NULL);
		if (p->in) {
			json_str(j, "in", p->in);
			json_str(j, "file", p->in_file);
		}
		if (p->from)
			json_str(j, "from", p->from);
		if (p->to)
			json_str(j, "to", p->to);
		json_u64(j, "count", p->cnt);
		json_u64(j, "total_ns", p->ns);
		json_u64(j, "max_ns", p->max_ns);
		report_json_ts(s->r, j, "max_ts", p->at_ns);
		json_close(j);
	}
	json_close_array(j);
	json_close(j);
}

static void put_memory(const struct serving *s, const struct serving_thread *t, struct json *j)
{
	if (!s->block_keys.cnt)
		return;
	json_open(j, "memory");
	json_u64(j, "stays_bytes", s->stay_bytes);
	if (t->weight_cnt) {
		json_u64(j, "weights", t->weight_cnt);
		json_u64(j, "weights_bytes", t->weight_bytes);
		json_u64(j, "weights_blocks_bytes", s->weights_in_blocks);
		json_u64(j, "cache_bytes", s->kv_bytes);
		json_u64(j, "cache_blocks", s->kv_cnt);
		json_u64(j, "other_bytes", s->other_bytes);
	}
	json_u64(j, "failed_allocations", s->res.failed_alloc_cnt);
	json_close(j);
}

static void put_list(const struct serving *s, const struct serving_thread *t, struct json *j)
{
	json_open_array(j, "list");
	for (unsigned i = 0; i < t->cnt && i < SERVING_LIST_MAX; i++) {
		const struct step *x = &t->steps[i];

		json_open(j, NULL);
		report_json_ts(s->r, j, "ts", x->begin_ns);
		json_u64(j, "duration_ns", step_ns(x));
		json_u64(j, "between_ns", x->between_ns);
		json_sym(j, "phase", serving_phase_name(x->phase));
		if (x->is_setup)
			json_bool(j, "setup", true);
		if (x->tokens)
			json_u64(j, "tokens", x->tokens);
		if (x->tokens && x->at_most)
			json_bool(j, "at_most", true);
		if (x->batch)
			json_u64(j, "batch", x->batch);
		json_u64(j, "launches", x->launches);
		json_u64(j, "graphs", x->graphs);
		json_u64(j, "sync_ns", x->sync_ns);
		if (s->res.has_gpu_times)
			json_u64(j, "gpu_ns", x->gpu_ns);
		json_close(j);
	}
	json_close_array(j);
}

/* Other threads with steps: ranks of a tensor-parallel model, other engines. */
static void put_others(const struct serving *s, struct json *j)
{
	json_open_array(j, "others");
	for (unsigned i = 0, n = 0; i < s->thread_keys.cnt && i < s->thread_cap; i++) {
		const struct serving_thread *t = &s->threads[i];

		if (i == s->main || t->cnt < SERVING_STEPS_MIN || n++ >= s->r->opts.top)
			continue;
		json_open(j, NULL);
		json_u64(j, "pid", t->pid);
		json_u64(j, "tid", t->tid);
		json_u64(j, "steps", t->cnt);
		json_close(j);
	}
	json_close_array(j);
}

static void put_requests(const struct serving *s, struct json *j)
{
	json_open(j, "requests");
	json_u64(j, "at_least", s->requests_min);
	json_u64(j, "ranges", s->request_cnt);
	json_u64(j, "ranges_ns", s->request_ns);
	json_close(j);
}

/* Counts of rejected rows. */
static void put_rejected(const struct serving *s, struct json *j)
{
	if (!(s->lost_steps | s->lost_calls | s->lost_blocks | s->lost_pauses))
		return;
	json_open(j, "rejected");
	json_u64(j, "steps", s->lost_steps);
	json_u64(j, "calls_of_threads", s->lost_calls);
	json_u64(j, "blocks", s->lost_blocks);
	json_u64(j, "pauses", s->lost_pauses);
	json_close(j);
}

void serving_json(const void *a, struct json *j)
{
	const struct serving *s = a;
	const struct serving_thread *t = serving_main(s);

	if (!t && !s->r->opts.serving)
		return;
	json_open(j, "serving");
	json_bool(j, "found", s->res.found);
	json_str(j, "why", s->why);
	if (!t) {
		json_close(j);
		return;
	}
	json_u64(j, "pid", t->pid);
	json_u64(j, "tid", t->tid);
	json_str(j, "comm", t->comm);
	json_open_array(j, "engines");
	for (int e = 0; e < ENGINE_CNT; e++)
		if (s->engines[e])
			json_str(j, NULL, serving_engine_names[e]);
	json_close_array(j);
	report_json_ts(s->r, j, "first_ts", s->res.first_ns);
	report_json_ts(s->r, j, "last_ts", s->res.last_ns);
	json_u64(j, "steps", t->cnt);
	put_rejected(s, j);
	json_u64(j, "products", t->product_cnt);
	if (t->product_cnt) {
		json_sym(j, "tokens_are", s->axis == AXIS_N ? "n" : "m");
		json_f64(j, "tokens_confidence", s->axis_confidence);
	}
	if (s->phase_by) {
		json_sym(j, "phases_by", s->phase_by);
		json_f64(j, "phases_confidence", s->phase_confidence);
		if (s->old_graphs)
			json_u64(j, "old_graphs", s->old_graphs);
	}
	put_sum(s, j, "all", &s->all);
	put_sum(s, j, "prefill", &s->res.prefill);
	put_sum(s, j, "decode", &s->res.decode);
	put_sum(s, j, "setup", &s->setup);
	if (s->res.batch_max) {
		json_open(j, "batch");
		json_u64(j, "min", s->batch_min);
		json_u64(j, "median", s->res.batch_median);
		json_u64(j, "max", s->res.batch_max);
		json_close(j);
	}
	json_u64(j, "tokens_made", s->rows_made);
	if (s->rows_at_most)
		json_bool(j, "tokens_made_at_most", true);
	put_requests(s, j);
	put_graphs(s, j);
	put_between(s, j);
	put_memory(s, t, j);
	put_list(s, t, j);
	put_others(s, j);
	json_close(j);
}
