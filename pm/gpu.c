/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Finds the GPUs, chooses the metrics that each one counts in one pass, and starts sampling. */
#include "sampler.h"
#include "start.h"

#include <dirent.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

/* Each row costs time per sample, 6 us on an H200: above 5 and 8 kHz only the first are counted. */
#define FAST_NS	       200000
#define FAST_ROWS      (CT_PM_L2_ACTIVE + 1)
#define VERY_FAST_NS   125000
#define VERY_FAST_ROWS (CT_PM_DRAM_WRITE + 1)

static const struct {
	const char *id, *metrics;
} values[CT_PM_VALUE_CNT] = {
#define VALUE(ID, id, form, unit, metrics, text) [CT_PM_##ID] = {#id, metrics},
#include "ct_pm.def"
};

struct driver {
	int (*init)(unsigned);
	int (*count)(int *);
	int (*uuid)(unsigned char[16], int);
	int (*pci)(char *, int, int);
	int (*name)(char *, int, int);
};

const char *error_text(const struct sampler *s, int ret)
{
	const char *text = NULL;

	switch (ret) {
	case CUPTI_ERROR_HARDWARE_BUSY:
		return "another profiler uses the counters: end it (--stalls, Nsight Compute), or "
		       "pause it (dcgmi profile --pause)";
	case CUPTI_ERROR_INSUFFICIENT_PRIVILEGES:
		return "run cudatrace as root or with CAP_PERFMON, or load the driver with "
		       "NVreg_RestrictProfilingToAdminUsers=0";
	case CUPTI_ERROR_NOT_SUPPORTED:
		return "CUPTI does not support it on this GPU";
	case CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES:
		return "the host of this virtual GPU does not allow profiling";
	}
	if (s->c.GetResultString)
		s->c.GetResultString(ret, &text);
	return text ?: "an unknown error";
}

static unsigned row_cnt(const struct sampler *s)
{
	return s->interval_ns < VERY_FAST_NS ? VERY_FAST_ROWS
	       : s->interval_ns < FAST_NS    ? FAST_ROWS
					     : CT_PM_VALUE_CNT;
}

static void *new_image(size_t size)
{
	return size <= IMAGE_MAX_SZ ? calloc(1, size) : NULL;
}

static int open_host(struct sampler *s, struct gpu *g, void **host)
{
	struct pm_host p = {.type = CUPTI_PROFILER_TYPE_PM_SAMPLING,
			    .chip = g->chip,
			    .availability = g->availability};
	int ret = CALL(s, ProfilerHostInitialize, &p);

	*host = ret ? NULL : p.host;
	return ret;
}

static void close_host(struct sampler *s, void *host)
{
	struct pm_host_end p = {.host = host};

	CALL(s, ProfilerHostDeinitialize, &p);
}

/* Makes the configuration for the first cnt metrics. */
static int configure(struct sampler *s, struct gpu *g, void *host, unsigned cnt, size_t *passes)
{
	struct pm_metrics m = {.host = host, .names = g->metrics, .cnt = cnt};
	struct pm_config_size size = {.host = host};
	struct pm_config c = {.host = host};
	struct pm_passes p = {0};
	int ret = CALL(s, ProfilerHostConfigAddMetrics, &m);

	if (!ret)
		ret = CALL(s, ProfilerHostGetConfigImageSize, &size);
	if (ret)
		return ret;
	free(g->config);
	g->config_size = c.config_size = p.config_size = size.config_size;
	g->config = c.config = p.config = new_image(size.config_size);
	if (!g->config)
		return CUPTI_ERROR_OUT_OF_MEMORY;
	ret = CALL(s, ProfilerHostGetConfigImage, &c);
	if (!ret)
		ret = CALL(s, ProfilerHostGetNumOfPasses, &p);
	*passes = p.passes;
	return ret;
}

/* Whether the GPU counts these metrics in one pass. */
static bool is_one_pass(struct sampler *s, struct gpu *g, unsigned cnt)
{
	size_t passes = 0;
	void *host;
	int ret;

	if (open_host(s, g, &host))
		return false;
	ret = configure(s, g, host, cnt, &passes);
	close_host(s, host);
	return !ret && passes == 1;
}

static bool add_value(struct sampler *s, struct gpu *g, enum ct_pm_value v)
{
	const char *name = values[v].metrics;

	for (; *name; name += strcspn(name, " "), name += *name == ' ') {
		char *one = strndup(name, strcspn(name, " "));

		if (!one)
			return false;
		g->metrics[g->metric_cnt] = one;
		if (is_one_pass(s, g, g->metric_cnt + 1)) {
			g->values[g->metric_cnt++] = v;
			return true;
		}
		free(one);
	}
	return false;
}

/* The list of the refused values goes to refused. */
static int choose_metrics(struct sampler *s, struct gpu *g, char *refused, size_t refused_sz)
{
	size_t len = 0, passes = 0;
	int ret;

	*refused = 0;
	for (unsigned v = 0; v < CT_PM_VALUE_CNT; v++) {
		bool is_counted = v < row_cnt(s) && add_value(s, g, v);

		if (!is_counted && len < refused_sz)
			len += snprintf(refused + len, refused_sz - len, "%s%s", len ? ", " : "",
					values[v].id);
	}
	if (!g->metric_cnt)
		return CUPTI_ERROR_NOT_SUPPORTED;
	ret = open_host(s, g, &g->host);
	return ret ?: configure(s, g, g->host, g->metric_cnt, &passes);
}

static int read_availability(struct sampler *s, struct gpu *g)
{
	struct pm_availability p = {.device = g->device};
	int ret = CALL(s, PmSamplingGetCounterAvailability, &p);

	if (ret)
		return ret;
	p.image = g->availability = new_image(p.image_size);
	if (!p.image)
		return CUPTI_ERROR_OUT_OF_MEMORY;
	return CALL(s, PmSamplingGetCounterAvailability, &p);
}

static int set_config(struct sampler *s, struct gpu *g)
{
	struct pm_set_config p = {
		.object = g->object,
		.config_size = g->config_size,
		.config = g->config,
		.buffer_size = SAMPLE_SZ * 1000000000 / s->interval_ns,
		.interval = s->interval_ns,
		.trigger = CUPTI_TRIGGER_GPU_TIME_INTERVAL,
		.append = CUPTI_APPEND_KEEP_OLDEST,
	};
	int ret;

	if (p.buffer_size < BUFFER_MIN_SZ)
		p.buffer_size = BUFFER_MIN_SZ;
	if (p.buffer_size > BUFFER_MAX_SZ)
		p.buffer_size = BUFFER_MAX_SZ;
	ret = CALL(s, PmSamplingSetConfig, &p);
	if (ret != CUPTI_ERROR_NOT_SUPPORTED && ret != CUPTI_ERROR_INVALID_PARAMETER)
		return ret;
	/* Turing and GA100 count cycles of a clock of 1 to 2 GHz instead. */
	p.trigger = CUPTI_TRIGGER_GPU_SYSCLK_INTERVAL;
	return CALL(s, PmSamplingSetConfig, &p);
}

static int make_data(struct sampler *s, struct gpu *g)
{
	struct pm_data_size p = {
		.object = g->object,
		.names = g->metrics,
		.cnt = g->metric_cnt,
		.samples = READS_KEPT * s->read_ns / s->interval_ns + SAMPLES_MIN,
	};
	int ret = CALL(s, PmSamplingGetCounterDataSize, &p);
	uint8_t *data;

	if (ret)
		return ret;
	if (p.data_size > IMAGE_MAX_SZ)
		return CUPTI_ERROR_OUT_OF_MEMORY;
	g->data_size = p.data_size;
	g->sample_max = p.samples;
	if (p.data_size <= s->data_size)
		return 0;
	data = realloc(s->data, p.data_size);
	if (!data)
		return CUPTI_ERROR_OUT_OF_MEMORY;
	s->data = data;
	s->data_size = p.data_size;
	return 0;
}

/* Evaluates to the error of a step, and notes its name. */
#define TRY(name, call) (*what = (name), (call))

int start_gpu(struct sampler *s, struct gpu *g, const char **what)
{
	struct pm_enable enable = {.device = g->device};
	struct pm_object start = {0};
	int ret = TRY("Enable", CALL(s, PmSamplingEnable, &enable));

	if (ret)
		return ret;
	g->object = start.object = enable.object;
	g->is_first = true;
	ret = TRY("SetConfig", set_config(s, g));
	ret = ret ?: TRY("GetCounterDataSize", make_data(s, g));
	ret = ret ?: TRY("Start", CALL(s, PmSamplingStart, &start));
	if (ret)
		stop_gpu(s, g);
	return ret;
}

void stop_gpu(struct sampler *s, struct gpu *g)
{
	struct pm_object stop = {.object = g->object}, disable = stop;

	CALL(s, PmSamplingStop, &stop);
	CALL(s, PmSamplingDisable, &disable);
	g->object = NULL;
}

static void report(struct sampler *s, const struct gpu *g, const char *refused)
{
	struct ct_gpu rec = record_of(g, CT_GPU_PM_DEVICE);

	memcpy(rec.name, g->name, sizeof(rec.name));
	memcpy(rec.pci, g->pci, sizeof(rec.pci));
	rec.end_ns = s->interval_ns;
	send_record(s, &rec);
	if (*refused)
		send_missing(s, g, "not counted %s: %s",
			     row_cnt(s) < CT_PM_VALUE_CNT
				     ? "at this rate, or by this GPU"
				     : "by this GPU, or not together with the others",
			     refused);
}

static void open_gpu(struct sampler *s, struct gpu *g)
{
	struct pm_chip chip = {.device = g->device};
	const char *step, **what = &step;
	char refused[160];
	int ret = TRY("GetChipName", CALL(s, DeviceGetChipName, &chip));

	if (!ret && !chip.name)
		ret = CUPTI_ERROR_UNKNOWN;
	if (!ret) {
		g->chip = strdup(chip.name);
		ret = TRY("GetCounterAvailability", read_availability(s, g));
	}
	ret = ret ?: TRY("ConfigAddMetrics", choose_metrics(s, g, refused, sizeof(refused)));
	ret = ret ?: start_gpu(s, g, &step);
	if (!ret) {
		g->last_read = clock_ns(CLOCK_REALTIME);
		report(s, g, refused);
	} else {
		send_missing(s, g, "%.120s (%s: %d)", error_text(s, ret), step, ret);
	}
}

/* The driver's folder has one entry for each GPU, named by its address. */
static unsigned index_of(const char *pci, unsigned otherwise)
{
	DIR *dir = opendir("/proc/driver/nvidia/gpus");
	unsigned before = 0;
	bool is_there = false;
	struct dirent *e;

	while (dir && (e = readdir(dir))) {
		if (e->d_name[0] == '.')
			continue;
		before += strcasecmp(e->d_name, pci) < 0;
		is_there |= !strcasecmp(e->d_name, pci);
	}
	if (dir)
		closedir(dir);
	return is_there ? before : otherwise;
}

static void describe(const struct driver *d, struct gpu *g)
{
	unsigned char id[16];
	size_t len = 0;

	if (!d->pci || d->pci(g->pci, sizeof(g->pci) - 1, g->device))
		g->pci[0] = 0;
	g->index = index_of(g->pci, g->device);
	if (!d->name || d->name(g->name, sizeof(g->name) - 1, g->device))
		g->name[0] = 0;
	if (!d->uuid || d->uuid(id, g->device))
		return;
	len = snprintf(g->uuid, sizeof(g->uuid), "GPU-");
	for (unsigned i = 0; i < sizeof(id); i++)
		len += snprintf(g->uuid + len, sizeof(g->uuid) - len, "%s%02x",
				i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", id[i]);
}

static bool load_driver(struct sampler *s, struct driver *d)
{
	void *lib = lib_open("libcuda.so.1", RTLD_NOW);

	if (!lib) {
		send_missing(s, NULL, "there is no driver: %.150s", lib_error());
		return false;
	}
	*(void **)&d->init = lib_symbol(lib, "cuInit");
	*(void **)&d->count = lib_symbol(lib, "cuDeviceGetCount");
	*(void **)&d->uuid = lib_symbol(lib, "cuDeviceGetUuid");
	*(void **)&d->pci = lib_symbol(lib, "cuDeviceGetPCIBusId");
	*(void **)&d->name = lib_symbol(lib, "cuDeviceGetName");
	if (d->init && d->count)
		return true;
	send_missing(s, NULL, "libcuda.so.1 is not CUDA's: it lacks functions");
	return false;
}

void open_gpus(struct sampler *s)
{
	struct pm_initialize p = {0};
	struct driver d = {0};
	int cnt = 0, ret;

	if (!load_driver(s, &d))
		return;
	ret = d.init(0) ?: d.count(&cnt);
	if (ret || cnt <= 0) {
		send_missing(s, NULL, "CUDA shows no GPU (%d)", ret);
		return;
	}
	ret = CALL(s, ProfilerInitialize, &p);
	if (ret) {
		send_missing(s, NULL, "%.120s (ProfilerInitialize: %d)", error_text(s, ret), ret);
		return;
	}
	for (int i = 0; i < cnt && i < GPUS_MAX; i++) {
		struct gpu *g = &s->gpus[s->gpu_cnt++];

		g->device = i;
		describe(&d, g);
		open_gpu(s, g);
	}
}
