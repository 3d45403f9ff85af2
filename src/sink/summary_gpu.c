/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* --gpu-time in the summary: how busy the devices were, and what has no time. */
#include "summary_priv.h"

#include <stdio.h>
#include <stdlib.h>

#include "model/gpu_busy.h"
#include "text/json.h"
#include "text/table.h"

struct gpu_dev_stat {
	uint32_t number;
	uint64_t executions;
	struct gpu_busy busy;
};

/* NULL: there are too many, or there is no memory. */
static struct gpu_dev_stat *device_of(struct summary *s, uint32_t number)
{
	struct gpu_dev_stat *d;

	for (unsigned i = 0; i < s->run_gpu_cnt; i++)
		if (s->run_gpus[i]->number == number)
			return s->run_gpus[i];
	d = s->run_gpu_cnt < SUMMARY_GPUS_MAX ? calloc(1, sizeof(*d)) : NULL;
	if (!d)
		return NULL;
	d->number = number;
	if (!gpu_busy__init(&d->busy)) {
		gpu_busy__free(&d->busy);
		free(d);
		return NULL;
	}
	return s->run_gpus[s->run_gpu_cnt++] = d;
}

void summary_gpu_event(struct summary *s, const struct trace_event *ev, struct kernel_stat *k)
{
	struct gpu_dev_stat *d = device_of(s, ev->gpu.device);
	uint64_t ns = event_duration_ns(ev);

	if (k) {
		k->gpu_cnt++;
		k->gpu_ns += ns;
	}
	if (!d)
		return;
	d->executions++;
	gpu_busy__add(&d->busy, ev->start_ns, ev->end_ns, ev->op[0] == 'c' || ev->op[0] == 'm');
}

void summary_gpu_finish(struct summary *s)
{
	for (unsigned i = 0; i < s->run_gpu_cnt; i++)
		gpu_busy__finish(&s->run_gpus[i]->busy);
}

void summary_gpu_free(struct summary *s)
{
	for (unsigned i = 0; i < s->run_gpu_cnt; i++) {
		gpu_busy__free(&s->run_gpus[i]->busy);
		free(s->run_gpus[i]);
	}
}

static uint64_t span_of(const struct gpu_dev_stat *d)
{
	return d->busy.last - d->busy.first;
}

static uint64_t idle_of(const struct gpu_dev_stat *d)
{
	return span_of(d) - d->busy.parts[GPU_ANY].total;
}

void summary_print_gpu(const struct summary *s, const struct term *term,
		       const struct trace_end *end)
{
	char name[SUMMARY_GPUS_MAX][16], timed[CELL_SZ], all[CELL_SZ], records[CELL_SZ];
	const struct trace_gpu *g = &end->gpu;
	struct table t;

	if (!g->on)
		return;
	human_count(timed, g->launches_timed);
	human_count(all, g->launches_timed + g->launches_untimed);
	human_count(records, g->records);
	term_section(
		term, "GPU",
		"%s of %s launches have a GPU time, right to %llu ns; of %s records %llu were dropped, %llu "
		"have no times, %llu came too late, %llu have no call",
		timed, all, (unsigned long long)g->clock_error_ns, records,
		(unsigned long long)g->dropped, (unsigned long long)g->untimed,
		(unsigned long long)g->lost, (unsigned long long)g->no_call);
	table__init(&t, "executions|span|compute|copy|both|idle|idle share|device");
	for (unsigned i = 0; i < s->run_gpu_cnt; i++) {
		const struct gpu_dev_stat *d = s->run_gpus[i];
		struct table_row *r;

		snprintf(name[i], sizeof(name[i]), "GPU %u", d->number);
		r = table__row(&t, name[i]);
		if (!r)
			break;
		human_count(r->cell[0], d->executions);
		human_time(r->cell[1], span_of(d));
		human_time(r->cell[2], d->busy.parts[GPU_COMPUTE].total);
		human_time(r->cell[3], d->busy.parts[GPU_COPYING].total);
		human_time(r->cell[4], gpu_busy__overlap(&d->busy));
		human_time(r->cell[5], idle_of(d));
		human_share(r->cell[6], idle_of(d), span_of(d));
	}
	if (t.row_cnt)
		table__print(&t, term);
}

void summary_gpu_json(struct json *j, const struct summary *s, const struct trace_end *end)
{
	if (!end->gpu.on)
		return;
	json_open_array(j, "gpus");
	for (unsigned i = 0; i < s->run_gpu_cnt; i++) {
		const struct gpu_dev_stat *d = s->run_gpus[i];

		json_open(j, NULL);
		json_u64(j, "device", d->number);
		json_u64(j, "executions", d->executions);
		json_u64(j, "span_ns", span_of(d));
		json_u64(j, "compute_ns", d->busy.parts[GPU_COMPUTE].total);
		json_u64(j, "copy_ns", d->busy.parts[GPU_COPYING].total);
		json_u64(j, "overlap_ns", gpu_busy__overlap(&d->busy));
		json_u64(j, "idle_ns", idle_of(d));
		json_close(j);
	}
	json_close_array(j);
	json_u64(j, "gpu_launches_timed", end->gpu.launches_timed);
	json_u64(j, "gpu_launches_untimed", end->gpu.launches_untimed);
}
