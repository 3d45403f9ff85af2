/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* --gpu-time in the summary: utilisation of devices, and work without times. */
#include "summary_priv.h"

#include "text/table.h"

void summary_gpu_event(struct summary *s, const struct trace_event *ev, struct kernel_stat *k)
{
	if (k) {
		k->gpu_cnt++;
		k->gpu_ns += event_duration_ns(ev);
	}
	gpu_devices__event(&s->run_gpus, ev);
}

void summary_print_gpu(const struct summary_view *v, const struct term *term)
{
	const struct gpu_devices *gpus = &v->sum->run_gpus;
	const struct trace_gpu *g = &v->end->gpu;
	bool is_shared = false;

	if (!g->on)
		return;
	term_section(
		term, "GPU",
		"%s of %s launch%s with a GPU time, accurate to %llu ns; of %s record%s: %llu dropped, %llu "
		"without times, %llu too late, %llu without a call",
		HUMAN_COUNT(g->launches_timed),
		HUMAN_COUNT(g->launches_timed + g->launches_untimed),
		plural_es(g->launches_timed + g->launches_untimed),
		(unsigned long long)g->clock_error_ns, HUMAN_COUNT(g->records), plural(g->records),
		(unsigned long long)g->dropped, (unsigned long long)g->untimed,
		(unsigned long long)g->lost, (unsigned long long)g->no_call);
	summary_print_table(v, &summary_table, "gpus", GPU_DEVICES_MAX, term);
	for (unsigned i = 0; i < gpus->cnt; i++)
		is_shared |= gpus->of[i]->is_shared;
	if (is_shared)
		term_para(term, GPU_SHARED_WORDS);
}
