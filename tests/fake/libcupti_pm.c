/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Mock of CUPTI's PM sampling, with the rules of CUPTI 13.0 (observed on an H100): a set of metrics
 * of several passes is refused; a full buffer fails every reading until sampling is disabled and
 * enabled again; the first sample begins with the configuration; a counter data image is
 * initialized before each reading. Sample k (its start divided by the interval) has these values: a
 * percentage of metric i is (k * 7 + i * 13) % 100 + 0.125, a rate (k % 10 + 1) * 1e6 * (i + 1),
 * with i the position of the metric's row in ct_pm.def.
 *
 * Words of FAKE_CUPTI:
 *   pm-busy, pm-rights, pm-unsupported, pm-passes, pm-vgpu  what CUPTI refuses
 *   pm-sysclk             the GPU has no trigger by time
 *   pm-two                its NVLink is not counted, and hit rates need two passes
 *   pm-full               the third reading finds the buffer full
 *   pm-overflow           the third reading reports an overflow
 *   pm-clock              its clock is a minute ahead
 *   pm-error              no reading works
 *   pm-gaps               each tenth sample is missing
 *   pm-eval               each tenth sample cannot be evaluated
 *   pm-impossible         percentages are not numbers, or above 100
 *   pm-crash, pm-hang     in the third reading
 *   pm-absurd-count, pm-absurd-time, pm-close, pm-shutdown, pm-flood   from the third reading on
 *   pm-absurd-size, pm-no-name, pm-fork   at the start
 */
#include "cupti_pm.h"

#include <math.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define EXPORT	 __attribute__((visibility("default")))
#define GPUS_MAX 64
#define IMAGE	 0x504d494d41474530ull

bool cupti_wants(const char *word);

static const struct {
	const char *id, *metrics;
} rows[] = {
#define VALUE(ID, id, form, unit, metrics, text) {#id, metrics},
#include "ct_pm.def"
};

struct host {
	bool is_two;
	size_t metrics;
};
static struct object {
	uint64_t interval, next, begun;
	unsigned readings;
	uint32_t samples;
	bool is_on, is_first, is_full, is_configured;
} objects[GPUS_MAX];
struct image {
	uint64_t mark;
	uint32_t cnt, room;
	struct {
		uint64_t start, end;
	} of[];
};

static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

/* The row of a metric, or -1. */
static int row_of(const char *name)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		const char *at = strstr(rows[i].metrics, name);
		size_t len = strlen(name);

		if (at && (at == rows[i].metrics || at[-1] == ' ') && (at[len] == ' ' || !at[len]))
			return i;
	}
	return -1;
}

EXPORT int cuptiProfilerInitialize(struct pm_initialize *p)
{
	return p->size ? CUPTI_SUCCESS : CUPTI_ERROR_INVALID_PARAMETER;
}

EXPORT int cuptiDeviceGetChipName(struct pm_chip *p)
{
	p->name = cupti_wants("pm-no-name") ? NULL : "GH100";
	if (cupti_wants("pm-fork") && !fork())
		for (;;)
			pause();
	return CUPTI_SUCCESS;
}

EXPORT int cuptiPmSamplingGetCounterAvailability(struct pm_availability *p)
{
	if (cupti_wants("pm-busy"))
		return CUPTI_ERROR_HARDWARE_BUSY;
	if (p->image)
		memset(p->image, 1, p->image_size);
	p->image_size = cupti_wants("pm-absurd-size") ? 1ull << 60 : 64;
	return CUPTI_SUCCESS;
}

EXPORT int cuptiProfilerHostInitialize(struct pm_host *p)
{
	if (p->type != CUPTI_PROFILER_TYPE_PM_SAMPLING || strcmp(p->chip, "GH100") ||
	    p->availability[63] != 1)
		return CUPTI_ERROR_INVALID_PARAMETER;
	p->host = calloc(1, sizeof(struct host));
	return CUPTI_SUCCESS;
}

EXPORT int cuptiProfilerHostDeinitialize(struct pm_host_end *p)
{
	free(p->host);
	return CUPTI_SUCCESS;
}

EXPORT int cuptiProfilerHostConfigAddMetrics(struct pm_metrics *p)
{
	struct host *h = p->host;

	for (size_t i = 0; i < p->cnt; i++) {
		int row = row_of(p->names[i]);

		if (row < 0 || (cupti_wants("pm-two") && strstr(p->names[i], "nvl")))
			return CUPTI_ERROR_INVALID_PARAMETER;
		h->is_two |= cupti_wants("pm-two") && strstr(p->names[i], "hit_rate");
	}
	h->metrics = p->cnt;
	return CUPTI_SUCCESS;
}

EXPORT int cuptiProfilerHostGetConfigImageSize(struct pm_config_size *p)
{
	p->config_size = sizeof(struct host);
	return CUPTI_SUCCESS;
}

EXPORT int cuptiProfilerHostGetConfigImage(struct pm_config *p)
{
	memcpy(p->config, p->host, sizeof(struct host));
	return CUPTI_SUCCESS;
}

EXPORT int cuptiProfilerHostGetNumOfPasses(struct pm_passes *p)
{
	p->passes = ((const struct host *)p->config)->is_two ? 2 : 1;
	return CUPTI_SUCCESS;
}

EXPORT int cuptiPmSamplingEnable(struct pm_enable *p)
{
	if (cupti_wants("pm-rights"))
		return CUPTI_ERROR_INSUFFICIENT_PRIVILEGES;
	if (cupti_wants("pm-vgpu"))
		return CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES;
	if (cupti_wants("pm-unsupported"))
		return CUPTI_ERROR_NOT_SUPPORTED;
	p->object = &objects[p->device];
	return CUPTI_SUCCESS;
}

EXPORT int cuptiPmSamplingDisable(struct pm_object *p)
{
	struct object *o = p->object;

	*o = (struct object){.readings = o->readings};
	return CUPTI_SUCCESS;
}

EXPORT int cuptiPmSamplingSetConfig(struct pm_set_config *p)
{
	struct object *o = p->object;

	if (cupti_wants("pm-passes") || ((const struct host *)p->config)->is_two ||
	    (cupti_wants("pm-sysclk") && p->trigger == CUPTI_TRIGGER_GPU_TIME_INTERVAL))
		return CUPTI_ERROR_NOT_SUPPORTED;
	o->interval = p->interval;
	o->begun = now() - 10 * p->interval;
	o->is_configured = p->buffer_size && p->config_size == sizeof(struct host);
	return CUPTI_SUCCESS;
}

EXPORT int cuptiPmSamplingGetCounterDataSize(struct pm_data_size *p)
{
	struct object *o = p->object;

	o->samples = p->samples;
	p->data_size = sizeof(struct image) + p->samples * sizeof(((struct image *)0)->of[0]);
	return CUPTI_SUCCESS;
}

EXPORT int cuptiPmSamplingCounterDataImageInitialize(struct pm_data_init *p)
{
	struct image *image = (void *)p->data;

	*image = (struct image){.mark = IMAGE, .room = ((struct object *)p->object)->samples};
	return CUPTI_SUCCESS;
}

EXPORT int cuptiPmSamplingStart(struct pm_object *p)
{
	struct object *o = p->object;

	if (!o->is_configured || o->is_on)
		return CUPTI_ERROR_INVALID_PARAMETER;
	o->is_on = o->is_first = true;
	o->next = now() / o->interval;
	return CUPTI_SUCCESS;
}

EXPORT int cuptiPmSamplingStop(struct pm_object *p)
{
	((struct object *)p->object)->is_on = false;
	return CUPTI_SUCCESS;
}

EXPORT int cuptiPmSamplingDecodeData(struct pm_decode *p)
{
	struct object *o = p->object;
	struct image *image = (void *)p->data;
	uint64_t newest = now() / o->interval;

	if (p->size != PM_DECODE_SZ || image->mark != IMAGE || image->cnt || !o->is_on)
		return CUPTI_ERROR_INVALID_PARAMETER;
	if (++o->readings == 3) {
		o->is_full = cupti_wants("pm-full");
		p->overflow = cupti_wants("pm-overflow");
		if (cupti_wants("pm-crash"))
			raise(SIGSEGV);
		if (cupti_wants("pm-close"))
			close_range(3, ~0u, 0);
		if (cupti_wants("pm-shutdown"))
			shutdown(3, SHUT_WR);
		while (cupti_wants("pm-flood"))
			send(3, "x", 1, 0);
		while (cupti_wants("pm-hang"))
			pause();
	}
	if (cupti_wants("pm-error"))
		return CUPTI_ERROR_UNKNOWN;
	if (o->is_full)
		return CUPTI_ERROR_OUT_OF_MEMORY;
	for (; o->next < newest && image->cnt < image->room; o->next++) {
		if (cupti_wants("pm-gaps") && o->next % 10 == 3)
			continue;
		image->of[image->cnt].start = o->is_first ? o->begun : o->next * o->interval;
		o->is_first = false;
		image->of[image->cnt++].end = (o->next + 1) * o->interval;
	}
	p->stop = o->next < newest ? CUPTI_DECODE_STOP_COUNTER_DATA_FULL : 2;
	return CUPTI_SUCCESS;
}

EXPORT int cuptiPmSamplingGetCounterDataInfo(struct pm_info *p)
{
	const struct image *image = (const void *)p->data;

	p->total = image->room;
	p->populated = p->completed = image->cnt;
	if (cupti_wants("pm-absurd-count") && objects[0].readings >= 3)
		p->completed = SIZE_MAX;
	return CUPTI_SUCCESS;
}

EXPORT int cuptiPmSamplingCounterDataGetSampleInfo(struct pm_sample *p)
{
	const struct image *image = (const void *)p->data;

	if (p->index >= image->cnt)
		return CUPTI_ERROR_INVALID_PARAMETER;
	p->start = image->of[p->index].start + (cupti_wants("pm-clock") ? 60000000000 : 0);
	if (cupti_wants("pm-absurd-time") && objects[0].readings >= 3)
		p->start = p->index % 2 ? 1ull << 62 : -(1ull << p->index % 64);
	p->end = p->start + image->of[p->index].end - image->of[p->index].start;
	return CUPTI_SUCCESS;
}

EXPORT int cuptiProfilerHostEvaluateToGpuValues(struct pm_values *p)
{
	const struct image *image = (const void *)p->data;
	const struct host *h = p->host;
	uint64_t length, k;

	if (p->index >= image->cnt || h->metrics != p->cnt)
		return CUPTI_ERROR_INVALID_PARAMETER;
	length = image->of[p->index].end - image->of[p->index].start;
	k = image->of[p->index].start / length;
	if (cupti_wants("pm-eval") && k % 10 == 3)
		return CUPTI_ERROR_UNKNOWN;
	for (size_t i = 0; i < p->cnt; i++) {
		int row = row_of(p->names[i]);
		bool is_rate = strstr(p->names[i], "per_second");

		p->values[i] =
			is_rate ? (k % 10 + 1) * 1e6 * (row + 1) : (k * 7 + row * 13) % 100 + 0.125;
		if (!is_rate && cupti_wants("pm-impossible"))
			p->values[i] = k % 2 ? NAN : 1000;
	}
	return CUPTI_SUCCESS;
}
