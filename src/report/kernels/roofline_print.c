/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Rooflines as text and JSON. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "report/iter/iter.h"
#include "report/map/map.h"
#include "report/section.h"
#include "roofline_priv.h"

/* Work that took less than this share of its roof did not use device memory for all its bytes. */
#define POSSIBLE 1.02
/* At this share of the roof there is nothing to gain. */
#define AT_ROOF 0.9

static bool is_cached(const struct roof_sums *x)
{
	return x->whole_ns > POSSIBLE * x->time.known_ns;
}

static double roof_share(const struct roof_sums *x)
{
	double share = ratio_of(x->time.roof_ps / 1e3, x->time.known_ns);

	return share < 1 ? share : 1;
}

static uint64_t headroom(const struct roof_sums *x)
{
	uint64_t roof_ns = (x->time.roof_ps + 500) / 1000;

	return x->time.known_ns > roof_ns ? x->time.known_ns - roof_ns : 0;
}

/* NULL: no work is known, or that of less than half of the time. */
static const char *limit_of(const struct roof_sums *x)
{
	if (!x->works || x->time.known_ns < x->ns / 2)
		return NULL;
	if (is_cached(x))
		return "cache";
	return x->mem_ns >= x->ops_ns ? "memory" : "compute";
}

static const char *headroom_text(char buf[SECTION_BUF], const struct roof_sums *x)
{
	if (!x->works)
		return "";
	if (limit_of(x) && !is_cached(x) && roof_share(x) >= AT_ROOF)
		return "at the roof";
	human_time(buf, headroom(x));
	return buf;
}

static struct peak device_peak(const struct roof_device *x, unsigned type)
{
	return type ? peak_of(&x->d, type, false) : (struct peak){0};
}

/* 0: not known, or the clock does not limit it. */
static double clock_share(const struct roofline *s, const struct roof_row *x)
{
	const char *limit = limit_of(&x->sums);
	const struct roof_device *d = x->device == ROOF_NONE ? NULL : &s->devices[x->device];
	double share;

	if (!limit || strcmp(limit, "compute") || !d || !d->clock_cnt || !d->clock_sum)
		return 0;
	share = roof_share(&x->sums) * (d->d.clock_khz / 1e3) / (d->clock_sum / d->clock_cnt);
	return share < 1 ? share : 1;
}

static const char *kind_of(const struct roof_row *x)
{
	switch (x->what) {
	case 'p':
		return "product";
	case 'k':
		return "kernel";
	default:
		return x->name;
	}
}

static const char *label_text(char buf[SECTION_BUF], const struct roof_row *x)
{
	const struct gemm_info *g = x->work ? &x->work->g : NULL;
	int len;

	if (x->what == 'c') {
		snprintf(buf, SECTION_BUF, "copy %s", x->dir ?: "");
		return buf;
	}
	if (!g)
		return x->name ?: "(kernel of unknown name)";
	len = snprintf(buf, SECTION_BUF, "%" PRIu64 " %" PRIu64 " %" PRIu64, g->m, g->n, g->k);
	if (g->batch > 1)
		len += snprintf(buf + len, SECTION_BUF - len, " x %" PRIu64, g->batch);
	snprintf(buf + len, SECTION_BUF - len, " %s %s",
		 x->type ? peak_type_name(x->type) : "",
		 strncmp(x->work->name, "cudnn", 5) ? x->work->name : x->work->op ?: "");
	return buf;
}

struct steps {
	uint64_t cnt; /* 0: none are known */
	struct roof_time time;
	double ns, headroom, mfu;
};

static struct steps steps_of(const struct report *r)
{
	struct iter_result it;
	struct steps x = {0};
	double roof_ns;

	iter_result(r, &it);
	if (!it.count || !map_of_steps(r, &x.cnt, &x.time) || !(it.dist[ITS_TIME].mean > 0) ||
	    !x.time.known_ns)
		return (struct steps){0};
	roof_ns = x.time.roof_ps / 1e3;
	x.ns = it.dist[ITS_TIME].mean;
	x.headroom = x.time.known_ns > roof_ns ? (x.time.known_ns - roof_ns) / x.cnt : 0;
	x.mfu = x.time.peak_ps / 1e3 / x.cnt / x.ns;
	/* The work of these calls ran at another time. */
	if (x.time.known_ns > POSSIBLE * x.ns * x.cnt || x.mfu > 1)
		return (struct steps){0};
	return x;
}

/* The peak of a step is then that of the device. */
static bool single_device(const struct roofline *s)
{
	unsigned cnt = 0;

	for (unsigned i = 0; i < s->device_cnt; i++)
		cnt += s->devices[i].used != 0;
	return cnt == 1;
}

#define SECTION_STATE struct roofline
#define SECTION_ROWS  "report/kernels/roofline.section"
#include "report/section_rows.h"

static void print_devices(const struct roofline *s, const struct term *term)
{
	for (unsigned i = 0; i < s->device_cnt; i++) {
		const struct roof_device *d = &s->devices[i];
		char clock[64] = "";
		struct peak p = device_peak(d, PEAK_BF16);

		if (!d->used)
			continue;
		if (!d->gbps) {
			term_para(
				term,
				"Device %u%s%s: the peak rate of its memory is not known, so no work is",
				d->d.key.number, *d->d.model ? ", " : "", d->d.model);
			continue;
		}
		if (d->clock_cnt)
			snprintf(clock, sizeof(clock), "; measured: %.0f MHz",
				 d->clock_sum / d->clock_cnt);
		if (p.most > 0)
			term_para(
				term,
				"Roofs of device %u%s%s: %.0f GB/s by its %s, BF16 %.0f TFLOP/s at %u "
				"MHz, its maximum%s",
				d->d.key.number, *d->d.model ? ", " : "", d->d.model, d->gbps,
				d->is_listed ? "data sheet" : "memory clock and bus", p.most,
				d->d.clock_khz / 1000, clock);
		else
			term_para(term, "Roofs of device %u%s%s: %.0f GB/s by its %s",
				  d->d.key.number, *d->d.model ? ", " : "", d->d.model, d->gbps,
				  d->is_listed ? "data sheet" : "memory clock and bus");
	}
}

void roofline_print(const void *a, const struct term *term)
{
	const struct roofline *s = a;
	const struct steps steps = steps_of(s->r);

	/* Without roofs there is nothing to compare. */
	if (!s->sums.works)
		return;
	term_section(term, "Roofline", "at most %s of %s could be saved; work is known for %.0f %%",
		     HUMAN_TIME(headroom(&s->sums)), HUMAN_TIME(s->sums.ns),
		     100 * ratio_of(s->sums.time.known_ns, s->sums.ns));
	print_devices(s, term);
	if (steps.cnt && single_device(s))
		term_para(
			term,
			"A step takes %s: at least %.2g %% of the GPU's peak (MFU), and at most %s "
			"of its GPU time could be saved",
			HUMAN_TIME(steps.ns), 100 * steps.mfu, HUMAN_TIME(steps.headroom));
	section_print(s->r, &roofline_table, s, s, "list", 0, term);
	section_print(s->r, &roofline_table, s, s, "operators", 0, term);
}
