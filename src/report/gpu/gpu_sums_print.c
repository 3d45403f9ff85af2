/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include <inttypes.h>

#include "gpu_sums_priv.h"

#include "text/table.h"

static double mean_of(const struct gpu_value *v)
{
	return v->cnt ? v->sum / v->cnt : 0;
}

static void device_name(const struct gpu_device *d, char *buf, size_t size)
{
	if (d->gpu_instance == UINT64_MAX)
		snprintf(buf, size, "%" PRIu64 " %s", d->gpu, d->model);
	else
		snprintf(buf, size, "%" PRIu64 "/%" PRIu64 "/%" PRIu64 " %s", d->gpu,
			 d->gpu_instance, d->compute_instance, d->model);
}

/* Thousandths of a percent. */
static void percent_cell(char cell[CELL_SZ], const struct gpu_value *v, double x)
{
	if (v->cnt)
		human_share(cell, x, 100000);
}

static bool any_device(const struct gpu_sums *g, enum ct_gpu_value id)
{
	for (unsigned i = 0; i < g->device_cnt; i++)
		if (g->devices[i].values[id].cnt)
			return true;
	return false;
}

static void print_devices(const struct gpu_sums *g, const struct term *term)
{
	bool gpm = any_device(g, CT_GPU_SM_ACTIVE);
	char names[TABLE_ROWS][160];
	struct table t;

	table__init(&t, gpm ? "busy|most|SMs|tensor|DRAM|memory|power|GPU"
			    : "busy|most|SM clock|memory|power|GPU");
	for (unsigned i = 0; i < g->device_cnt && i < TABLE_ROWS; i++) {
		const struct gpu_device *d = &g->devices[i];
		const struct gpu_value *v = d->values;
		struct table_row *row;
		int c = 2;

		device_name(d, names[i], sizeof(names[i]));
		row = table__row(&t, names[i]);
		percent_cell(row->cell[0], &v[CT_GPU_UTIL], mean_of(&v[CT_GPU_UTIL]));
		percent_cell(row->cell[1], &v[CT_GPU_UTIL], v[CT_GPU_UTIL].max);
		if (gpm) {
			percent_cell(row->cell[c++], &v[CT_GPU_SM_ACTIVE],
				     mean_of(&v[CT_GPU_SM_ACTIVE]));
			percent_cell(row->cell[c++], &v[CT_GPU_TENSOR_ACTIVE],
				     mean_of(&v[CT_GPU_TENSOR_ACTIVE]));
			percent_cell(row->cell[c++], &v[CT_GPU_DRAM_ACTIVE],
				     mean_of(&v[CT_GPU_DRAM_ACTIVE]));
		} else if (v[CT_GPU_SM_CLOCK].cnt) {
			snprintf(row->cell[c++], CELL_SZ, "%.0f MHz", mean_of(&v[CT_GPU_SM_CLOCK]));
		} else {
			c++;
		}
		if (v[CT_GPU_MEMORY_USED].cnt)
			human_bytes(row->cell[c], v[CT_GPU_MEMORY_USED].max);
		if (v[CT_GPU_POWER].cnt)
			snprintf(row->cell[c + 1], CELL_SZ, "%.0f W",
				 mean_of(&v[CT_GPU_POWER]) / 1e3);
	}
	table__print(&t, term);
}

static void print_processes(const struct gpu_sums *g, const struct term *term)
{
	char names[TABLE_ROWS][64];
	struct table t;

	if (!g->process_cnt)
		return;
	putc('\n', term->f);
	table__init(&t, "busy|most|memory|GPU|process");
	for (unsigned i = 0; i < g->process_cnt && i < 10; i++) {
		const struct gpu_process *p = &g->processes[i];
		const struct gpu_value *v = p->values;
		struct table_row *row;

		snprintf(names[i], sizeof(names[i]), "%u %s", p->pid, p->comm);
		row = table__row(&t, names[i]);
		percent_cell(row->cell[0], &v[CT_GPU_SM_UTIL], mean_of(&v[CT_GPU_SM_UTIL]));
		percent_cell(row->cell[1], &v[CT_GPU_SM_UTIL], v[CT_GPU_SM_UTIL].max);
		if (v[CT_GPU_MEMORY_USED].cnt)
			human_bytes(row->cell[2], v[CT_GPU_MEMORY_USED].max);
		snprintf(row->cell[3], CELL_SZ, "%" PRIu64, g->devices[p->device].gpu);
	}
	table__print(&t, term);
}

/* What somebody should look at. */
static void print_notes(const struct gpu_sums *g, const struct term *term)
{
	for (unsigned i = 0; i < g->device_cnt; i++) {
		const struct gpu_device *d = &g->devices[i];
		const struct gpu_value *v = d->values;
		char time[CELL_SZ];

		human_time(time, d->throttled_ns);
		if (d->throttled_ns)
			term_para(term, "GPU %" PRIu64 " was kept slow for %s: %s", d->gpu, time,
				  d->throttle);
		if (v[CT_GPU_XIDS].max)
			term_para(term, "GPU %" PRIu64 ": %" PRIu64 " Xids, the last was %" PRIu64,
				  d->gpu, v[CT_GPU_XIDS].max, v[CT_GPU_LAST_XID].last);
		if (v[CT_GPU_ECC_UNCORRECTED].max)
			term_para(
				term,
				"GPU %" PRIu64 ": %" PRIu64
				" errors of its memory were not corrected since the driver was loaded",
				d->gpu, v[CT_GPU_ECC_UNCORRECTED].max);
	}
	for (unsigned i = 0; i < g->missing_cnt; i++) {
		fputs("  not there: ", term->f);
		term_name(term, g->missing[i], term->width - 13);
		putc('\n', term->f);
	}
	if (g->rejected_cnt)
		term_para(term, "%" PRIu64 " %s left out: too many devices or processes",
			  g->rejected_cnt, noun(g->rejected_cnt, "sample is", "samples are"));
}

void gpu_sums__print(const struct gpu_sums *g, const struct term *term)
{
	double cost_ns = 0;
	uint64_t cnt = 0, samples = 0;
	char cost[CELL_SZ];

	if (!g || (!g->device_cnt && !g->missing_cnt))
		return;
	for (unsigned i = 0; i < g->device_cnt; i++) {
		cost_ns += g->devices[i].values[CT_GPU_COST].sum;
		cnt += g->devices[i].values[CT_GPU_COST].cnt;
		if (g->devices[i].sample_cnt > samples)
			samples = g->devices[i].sample_cnt;
	}
	human_time(cost, cnt ? cost_ns / cnt : 0);
	if (cnt)
		term_section(term, "GPUs by NVML",
			     "%" PRIu64 " sample%s, each %s of a process of its own", samples,
			     plural(samples), cost);
	else
		term_section(term, "GPUs by NVML", "no samples");
	if (cnt)
		print_devices(g, term);
	print_processes(g, term);
	print_notes(g, term);
}

struct value_row {
	const char *name;
	bool is_milli;
};
#define opt_u64	  false
#define opt_hex	  false
#define opt_milli true
static const struct value_row rows[CT_GPU_VALUE_CNT] = {
#define VALUE(ID, id, form, unit, text) [CT_GPU_##ID] = {#id, form},
#include "ct_gpu.def"
#include "util/plural.h"
};

/* Of values near the end of 64 bits, too, which a saved trace may have. */
static uint64_t rounded(double mean)
{
	return mean < 0x1p64 - 0x1p12 ? (uint64_t)(mean + 0.5) : UINT64_MAX;
}

static void put_values(const struct gpu_value *values, struct json *j)
{
	for (unsigned i = 0; i < CT_GPU_VALUE_CNT; i++) {
		const struct gpu_value *v = &values[i];
		void (*put)(struct json *, const char *, uint64_t) =
			rows[i].is_milli ? json_milli : json_u64;

		/* Bits have no mean. */
		if (!v->cnt || i == CT_GPU_CLOCK_REASONS)
			continue;
		json_open(j, rows[i].name);
		put(j, "mean", rounded(mean_of(v)));
		put(j, "max", v->max);
		put(j, "last", v->last);
		json_close(j);
	}
}

static void put_processes(const struct gpu_sums *g, unsigned device, struct json *j)
{
	json_open_array(j, "processes");
	for (unsigned i = 0; i < g->process_cnt; i++) {
		const struct gpu_process *p = &g->processes[i];

		if (p->device != device)
			continue;
		json_open(j, NULL);
		json_u64(j, "pid", p->pid);
		json_str(j, "comm", p->comm);
		put_values(p->values, j);
		json_close(j);
	}
	json_close_array(j);
}

static void put_device(const struct gpu_sums *g, unsigned i, struct json *j)
{
	const struct gpu_device *d = &g->devices[i];

	json_open(j, NULL);
	if (d->gpu != UINT64_MAX)
		json_u64(j, "gpu", d->gpu);
	if (d->gpu_instance != UINT64_MAX)
		json_u64(j, "gpu_instance", d->gpu_instance);
	if (d->compute_instance != UINT64_MAX)
		json_u64(j, "compute_instance", d->compute_instance);
	if (d->trace)
		json_u64(j, "trace", d->trace);
	json_str(j, "uuid", *d->uuid ? d->uuid : NULL);
	json_str(j, "model", *d->model ? d->model : NULL);
	json_str(j, "pci", *d->pci ? d->pci : NULL);
	if (d->memory_total)
		json_u64(j, "memory_total", d->memory_total);
	json_u64(j, "samples", d->sample_cnt);
	json_u64(j, "sampled_ns", d->last_ns - d->first_ns);
	json_u64(j, "throttled_ns", d->throttled_ns);
	if (*d->throttle)
		json_str(j, "throttle", d->throttle);
	json_open(j, "values");
	put_values(d->values, j);
	json_close(j);
	put_processes(g, i, j);
	json_close(j);
}

void gpu_sums__json(const struct gpu_sums *g, struct json *j, const char *name)
{
	if (!g || (!g->device_cnt && !g->missing_cnt))
		return;
	json_open(j, name);
	json_open_array(j, "devices");
	for (unsigned i = 0; i < g->device_cnt; i++)
		put_device(g, i, j);
	json_close_array(j);
	json_open_array(j, "missing");
	for (unsigned i = 0; i < g->missing_cnt; i++)
		json_str(j, NULL, g->missing[i]);
	json_close_array(j);
	json_u64(j, "rejected", g->rejected_cnt);
	json_close(j);
}
