/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* --gpu-time in the summary: utilisation of devices, and work without times. */
#include "summary_priv.h"

#include <stdio.h>

#include "text/json.h"
#include "text/table.h"

void summary_gpu_event(struct summary *s, const struct trace_event *ev, struct kernel_stat *k)
{
	if (k) {
		k->gpu_cnt++;
		k->gpu_ns += event_duration_ns(ev);
	}
	gpu_devices__event(&s->run_gpus, ev);
}

void summary_print_gpu(const struct summary *s, const struct term *term,
		       const struct trace_end *end)
{
	char name[GPU_DEVICES_MAX][DEVICE_LABEL_SZ], timed[CELL_SZ], all[CELL_SZ], records[CELL_SZ];
	const struct trace_gpu *g = &end->gpu;
	bool is_shared = false;
	struct table t;

	if (!g->on)
		return;
	human_count(timed, g->launches_timed);
	human_count(all, g->launches_timed + g->launches_untimed);
	human_count(records, g->records);
	term_section(
		term, "GPU",
		"%s of %s launch%s with a GPU time, accurate to %llu ns; of %s record%s: %llu dropped, %llu "
		"without times, %llu too late, %llu without a call",
		timed, all, plural_es(g->launches_timed + g->launches_untimed),
		(unsigned long long)g->clock_error_ns, records, plural(g->records),
		(unsigned long long)g->dropped, (unsigned long long)g->untimed,
		(unsigned long long)g->lost, (unsigned long long)g->no_call);
	table__init(&t, "executions|span|compute|copy|both|idle|share|device");
	for (unsigned i = 0; i < s->run_gpus.cnt; i++) {
		const struct gpu_device *d = s->run_gpus.of[i];
		struct table_row *r;

		device_label(name[i], &d->is, d->number);
		r = table__row(&t, name[i]);
		if (!r)
			break;
		is_shared |= d->is_shared;
		human_count(r->cell[0], d->executions);
		human_time(r->cell[1], gpu_device__span(d));
		human_time(r->cell[2], d->busy.parts[GPU_COMPUTE].total);
		human_time(r->cell[3], d->busy.parts[GPU_COPYING].total);
		human_time(r->cell[4], gpu_busy__overlap(&d->busy));
		human_time(r->cell[5], gpu_device__idle(d));
		human_share(r->cell[6], gpu_device__idle(d), gpu_device__span(d));
	}
	if (t.row_cnt)
		table__print(&t, term);
	if (is_shared)
		term_para(term, GPU_SHARED_WORDS);
}

void summary_gpu_json(struct json *j, const struct summary *s, const struct trace_end *end)
{
	if (!end->gpu.on)
		return;
	json_open_array(j, "gpus");
	for (unsigned i = 0; i < s->run_gpus.cnt; i++) {
		const struct gpu_device *d = s->run_gpus.of[i];

		json_open(j, NULL);
		json_u64(j, "device", d->number);
		if (d->is.is_known)
			json_str(j, "uuid", d->is.uuid);
		if (d->is_shared)
			json_bool(j, "shared", true);
		json_u64(j, "executions", d->executions);
		json_u64(j, "span_ns", gpu_device__span(d));
		json_u64(j, "compute_ns", d->busy.parts[GPU_COMPUTE].total);
		json_u64(j, "copy_ns", d->busy.parts[GPU_COPYING].total);
		json_u64(j, "overlap_ns", gpu_busy__overlap(&d->busy));
		json_u64(j, "communicating_ns", d->busy.parts[GPU_COMMUNICATING].total);
		json_u64(j, "alone_ns", gpu_busy__alone(&d->busy));
		json_u64(j, "idle_ns", gpu_device__idle(d));
		json_close(j);
	}
	json_close_array(j);
	json_u64(j, "gpu_launches_timed", end->gpu.launches_timed);
	json_u64(j, "gpu_launches_untimed", end->gpu.launches_untimed);
}
