/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Reads the values of a device at one time: utilization, memory, clocks, power, errors. */
#include "sampler.h"

#include <math.h>

/* Numbers of nvml.h. */
enum { CLOCK_SM = 1, CLOCK_MEMORY = 2, SENSOR_GPU = 0, PCIE_TX = 0, PCIE_RX = 1 };
enum { ECC_CORRECTED = 0, ECC_UNCORRECTED = 1, ECC_VOLATILE = 0 };
enum { GPM_MIB, GPM_PERCENT };

/* GPM metrics (NVML_GPM_METRIC_*): their numbers, and the values of a record that they fill. */
static const struct {
	unsigned id;
	enum ct_gpu_value value;
	int unit;
} gpm_metrics[] = {
	{1, CT_GPU_GRAPHICS_ACTIVE, GPM_PERCENT},
	{2, CT_GPU_SM_ACTIVE, GPM_PERCENT},
	{3, CT_GPU_SM_OCCUPANCY, GPM_PERCENT},
	{5, CT_GPU_TENSOR_ACTIVE, GPM_PERCENT},
	{10, CT_GPU_DRAM_ACTIVE, GPM_PERCENT},
	{11, CT_GPU_FP64_ACTIVE, GPM_PERCENT},
	{12, CT_GPU_FP32_ACTIVE, GPM_PERCENT},
	{13, CT_GPU_FP16_ACTIVE, GPM_PERCENT},
	{20, CT_GPU_PCIE_TX, GPM_MIB},
	{21, CT_GPU_PCIE_RX, GPM_MIB},
	{61, CT_GPU_NVLINK_TX, GPM_MIB},
	{60, CT_GPU_NVLINK_RX, GPM_MIB},
};
#define GPM_CNT (sizeof(gpm_metrics) / sizeof(gpm_metrics[0]))

static bool has(const struct ct_gpu *rec, enum ct_gpu_value id)
{
	return rec->known >> id & 1;
}

static void read_memory(struct sampler *s, struct device *d, struct ct_gpu *rec)
{
	struct nvml_memory_v2 m = {.version = 2u << 24 | sizeof(m)};
	struct nvml_memory old = {0};

	if (!ASK(&s->n, memory_v2, d->handle, &m)) {
		put(rec, CT_GPU_MEMORY_USED, m.used);
		put(rec, CT_GPU_MEMORY_FREE, m.free);
	} else if (answered(s, d, ASK(&s->n, memory, d->handle, &old))) {
		put(rec, CT_GPU_MEMORY_USED, old.used);
		put(rec, CT_GPU_MEMORY_FREE, old.free);
	}
}

static void read_load(struct sampler *s, struct device *d, struct ct_gpu *rec)
{
	struct nvml_utilization u = {0};
	unsigned long long bits = 0, mj = 0;
	unsigned x = 0;

	if (answered(s, d, ASK(&s->n, util, d->handle, &u)) && u.gpu <= 100 && u.memory <= 100) {
		put(rec, CT_GPU_UTIL, u.gpu * 1000);
		put(rec, CT_GPU_MEMORY_UTIL, u.memory * 1000);
	}
	if (answered(s, d, ASK(&s->n, clock, d->handle, CLOCK_SM, &x)))
		put(rec, CT_GPU_SM_CLOCK, x);
	if (answered(s, d, ASK(&s->n, clock, d->handle, CLOCK_MEMORY, &x)))
		put(rec, CT_GPU_MEMORY_CLOCK, x);
	if (answered(s, d, ASK(&s->n, reasons, d->handle, &bits)))
		put(rec, CT_GPU_CLOCK_REASONS, bits);
	if (answered(s, d, ASK(&s->n, power, d->handle, &x)))
		put(rec, CT_GPU_POWER, x);
	/* In mJ. Volta and later (nvml.h). */
	if (answered(s, d, ASK(&s->n, energy, d->handle, &mj)))
		put(rec, CT_GPU_ENERGY, mj);
	if (answered(s, d, ASK(&s->n, temperature, d->handle, SENSOR_GPU, &x)))
		put(rec, CT_GPU_TEMPERATURE, x);
}

static void read_errors(struct sampler *s, struct device *d, struct ct_gpu *rec)
{
	unsigned long long cnt = 0;

	if (answered(s, d, ASK(&s->n, ecc, d->handle, ECC_CORRECTED, ECC_VOLATILE, &cnt)))
		put(rec, CT_GPU_ECC_CORRECTED, cnt);
	if (answered(s, d, ASK(&s->n, ecc, d->handle, ECC_UNCORRECTED, ECC_VOLATILE, &cnt)))
		put(rec, CT_GPU_ECC_UNCORRECTED, cnt);
	if (s->events)
		put(rec, CT_GPU_XIDS, d->xid_cnt);
	if (d->xid_cnt)
		put(rec, CT_GPU_LAST_XID, d->last_xid);
}

static void take_gpm(struct sampler *s, struct ct_gpu *rec)
{
	for (unsigned i = 0; i < GPM_CNT; i++) {
		const struct nvml_gpm_metric *m = &s->get.metrics[i];
		bool percent = gpm_metrics[i].unit == GPM_PERCENT;

		/* Values that are not plausible are left out. */
		if (m->ret || !isfinite(m->value) || m->value < 0 ||
		    m->value > (percent ? 101 : 1e9))
			continue;
		put(rec, gpm_metrics[i].value,
		    percent ? (uint64_t)(m->value * 1000) : (uint64_t)(m->value * 1048576));
	}
}

/* GPM metrics describe the time between two samples. */
static void read_gpm(struct sampler *s, struct device *d, struct ct_gpu *rec)
{
	int now = !d->gpm_at, ret;

	if (d->gpm_off)
		return;
	ret = d->parent ? ASK(&s->n, gpm_mig_sample, d->parent, d->gpu_instance, d->gpm[now])
			: ASK(&s->n, gpm_sample, d->handle, d->gpm[now]);
	if (!answered(s, d, ret)) {
		d->gpm_has = false;
		d->gpm_off = ret == NVML_NOT_SUPPORTED;
		return;
	}
	s->get.version = 1;
	s->get.cnt = GPM_CNT;
	s->get.older = d->gpm[d->gpm_at];
	s->get.newer = d->gpm[now];
	for (unsigned i = 0; i < GPM_CNT; i++)
		s->get.metrics[i] = (struct nvml_gpm_metric){.id = gpm_metrics[i].id};
	if (d->gpm_has && answered(s, d, ASK(&s->n, gpm_get, &s->get)))
		take_gpm(s, rec);
	d->gpm_at = now;
	d->gpm_has = true;
}

/* Fallback without GPM: measured over 20 ms, which each of the two takes. */
static void read_pcie(struct sampler *s, struct device *d, struct ct_gpu *rec)
{
	unsigned kib = 0;

	if (!d->gpm_off)
		return;
	if (answered(s, d, ASK(&s->n, pcie, d->handle, PCIE_TX, &kib)))
		put(rec, CT_GPU_PCIE_TX, kib * 1024ull);
	if (answered(s, d, ASK(&s->n, pcie, d->handle, PCIE_RX, &kib)))
		put(rec, CT_GPU_PCIE_RX, kib * 1024ull);
}

/* Fallback without GPM: growth of counters. */
static void read_links(struct sampler *s, struct device *d, struct ct_gpu *rec)
{
	struct nvml_field f[2] = {{.id = NVML_FIELD_NVLINK_TX, .scope = NVML_ALL_LINKS},
				  {.id = NVML_FIELD_NVLINK_RX, .scope = NVML_ALL_LINKS}};
	uint64_t now = clock_ns();

	if (has(rec, CT_GPU_NVLINK_TX) || ASK(&s->n, fields, d->handle, 2, f) || f[0].ret ||
	    f[1].ret)
		return;
	for (int i = 0; i < 2; i++) {
		unsigned long long kib = f[i].value.ull, grown = kib - d->link_kib[i];

		if (d->link_ns && kib >= d->link_kib[i] && now > d->link_ns)
			put(rec, i ? CT_GPU_NVLINK_RX : CT_GPU_NVLINK_TX,
			    (uint64_t)(grown * 1024.0 / ((now - d->link_ns) / 1e9)));
		d->link_kib[i] = kib;
	}
	d->link_ns = now;
}

void sample_device(struct sampler *s, struct device *d)
{
	struct ct_gpu rec = record_of(d, CT_GPU_SAMPLE);
	uint64_t begin = clock_ns();

	read_memory(s, d, &rec);
	read_gpm(s, d, &rec);
	/* The remaining values describe the whole device. */
	if (!d->parent) {
		read_load(s, d, &rec);
		read_errors(s, d, &rec);
		read_pcie(s, d, &rec);
		read_links(s, d, &rec);
	}
	if (!d->is_split)
		sample_processes(s, d);
	put(&rec, CT_GPU_COST, clock_ns() - begin);
	send_record(s, &rec);
}
