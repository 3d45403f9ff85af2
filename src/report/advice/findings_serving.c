/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Rules of findings.def for serving (report/serving/): see findings_rules.c. */
#include <math.h>

#include "findings_priv.h"
#include "report/serving/serving.h"

#define STEPS_MIN 8

static bool serves(const struct findings *f, struct serving_result *s)
{
	serving_result(f->r, s);
	return s->found && s->decode.cnt >= STEPS_MIN;
}

uint32_t decode_pid(const struct findings *f)
{
	struct serving_result s;

	serving_result(f->r, &s);
	return s.pid;
}

/* Lost: time from step to step when the GPU was idle; without GPU times, when the host did not wait
 * for it. */
bool decode_host(const struct findings *f, struct finding *x)
{
	struct serving_result s;
	uint64_t all, gpu;

	if (!serves(f, &s))
		return false;
	all = s.decode.ns + s.between_ns;
	gpu = s.has_gpu_times ? s.decode.gpu_ns : s.decode.sync_ns;
	if (gpu >= all || gpu * 10 >= all * (s.has_gpu_times ? 8 : 1))
		return false;
	x->lost_ns = all - gpu;
	x->steady = ratio_of(serving_decode_idle(f->r, f->run_from_ns, f->run_to_ns), x->lost_ns);
	x->at_ns = s.first_ns;
	if (!s.has_gpu_times)
		x->confidence = 0.5;
	x->v.decode_host = (struct decode_host){
		.n = s.decode.cnt,
		.each = ratio_of(all, s.decode.cnt),
		.gpu = ratio_of(gpu, s.decode.cnt),
		.launches = llround(ratio_of(s.decode.launches, s.decode.cnt)),
		.between = ratio_of(s.between_ns, s.decode.cnt),
		.measured = s.has_gpu_times,
		.replays = s.decode.graphs >= s.decode.cnt,
	};
	return true;
}

/* Applies to 5 % of the time. Lost: how much longer these steps were than a decode step. */
bool prefill_blocks(const struct findings *f, struct finding *x)
{
	struct serving_result s;
	uint64_t all;
	double gpu;

	if (!serves(f, &s))
		return false;
	all = s.prefill.ns + s.decode.ns + s.between_ns;
	if (!s.block_cnt || s.block_ns * 20 < all)
		return false;
	x->lost_ns = s.block_ns;
	x->steady = 1;
	x->at_ns = s.block_at_ns;
	gpu = s.has_gpu_times ? ratio_of(s.block_gpu_ns, s.block_all_ns) : 1;
	if (s.has_gpu_times)
		snprintf(x->other, sizeof(x->other),
			 "; in them the GPU works for %s of the time, the host alone for %s",
			 HUMAN_SHARE(gpu, 1), HUMAN_SHARE(1 - gpu, 1));
	x->v.prefill_blocks = (struct prefill_blocks){
		.n = s.block_cnt,
		.time = s.block_ns,
		.most = s.block_max_ns,
		.usual = s.decode.median_ns,
		.share = ratio_of(s.block_ns, all),
		.host = gpu < 0.5,
	};
	return true;
}

/* Nearly all prompts are admitted after others end, and the resulting batch size varies; with a
 * fixed number of slots it would be constant. Lost: not known. */
bool cache_small(const struct findings *f, struct finding *x)
{
	struct serving_result s;

	if (!serves(f, &s) || s.refill_cnt < STEPS_MIN || s.refill_cnt * 10 < s.admit_cnt * 8 ||
	    s.level_max < s.level_min + 2 || s.level_max * 2 < s.batch_max)
		return false;
	x->at_ns = s.first_ns;
	if (s.failed_alloc_cnt)
		x->confidence = 0.7;
	x->v.cache_small = (struct cache_small){
		.n = s.refill_cnt,
		.all = s.admit_cnt,
		.low = s.level_min,
		.high = s.level_max,
		.failed = s.failed_alloc_cnt,
	};
	return true;
}

/* Applies to 10 % of the steps, if they are 20 % slower. Lost: the extra time. */
bool graphs_unused(const struct findings *f, struct finding *x)
{
	struct serving_result s;

	if (!serves(f, &s) || s.eager_cnt * 10 < s.decode.cnt || s.eager_cnt < STEPS_MIN ||
	    s.eager_median_ns * 5 < s.replay_median_ns * 6)
		return false;
	x->lost_ns = s.eager_cnt * (s.eager_median_ns - s.replay_median_ns);
	x->steady = 1;
	x->at_ns = s.eager_at_ns;
	x->v.graphs_unused = (struct graphs_unused){
		.n = s.eager_cnt,
		.eager = s.eager_median_ns,
		.replay = s.replay_median_ns,
		.most = s.eager_batch_max,
		.graph = s.graph_batch_max,
		.larger = s.graph_batch_max && s.eager_batch_max > s.graph_batch_max,
	};
	return true;
}

/* Applies if 20 % of the slots are empty. Lost: not known. */
bool graphs_padded(const struct findings *f, struct finding *x)
{
	struct serving_result s;
	uint64_t empty;

	if (!serves(f, &s) || s.padded_known_cnt < STEPS_MIN)
		return false;
	empty = s.padded_rows - s.padded_real_rows;
	if (empty * 5 < s.padded_rows)
		return false;
	x->at_ns = s.padded_at_ns;
	x->v.graphs_padded = (struct graphs_padded){
		.n = s.padded_cnt,
		.all = s.padded_known_cnt,
		.places = s.padded_rows,
		.rows = s.padded_real_rows,
		.share = ratio_of(empty, s.padded_rows),
	};
	return true;
}
