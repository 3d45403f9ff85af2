/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The part of CUPTI's PM sampling that is used here; building needs no header of CUPTI. Taken from
 * the headers of CUPTI 13.0 (pmsampling, profiler_host, profiler_target, target, result).
 */
#ifndef PM_CUPTI_PM_H
#define PM_CUPTI_PM_H

#include <stddef.h>
#include <stdint.h>

enum {
	CUPTI_SUCCESS = 0,
	CUPTI_ERROR_INVALID_PARAMETER = 1,
	CUPTI_ERROR_OUT_OF_MEMORY = 8,
	CUPTI_ERROR_HARDWARE_BUSY = 26,
	CUPTI_ERROR_NOT_SUPPORTED = 27,
	CUPTI_ERROR_INSUFFICIENT_PRIVILEGES = 35,
	CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES = 40,
	CUPTI_ERROR_UNKNOWN = 999
};

enum { CUPTI_PROFILER_TYPE_PM_SAMPLING = 1 };
/* Turing and GA100 lack GPU_TIME_INTERVAL. */
enum { CUPTI_TRIGGER_GPU_SYSCLK_INTERVAL = 0, CUPTI_TRIGGER_GPU_TIME_INTERVAL = 1 };
enum { CUPTI_APPEND_KEEP_OLDEST = 0 };
enum { CUPTI_DECODE_STOP_COUNTER_DATA_FULL = 1 };

/* The parameters of the functions. The first two members are their size and NULL. */
#define PM_PARAMS                                                                                  \
	size_t size;                                                                               \
	void *priv

struct pm_initialize {
	PM_PARAMS;
};
struct pm_chip {
	PM_PARAMS;
	size_t device;
	const char *name;
};
struct pm_availability {
	PM_PARAMS;
	size_t device, image_size;
	uint8_t *image;
};
struct pm_host {
	PM_PARAMS;
	int type;
	const char *chip;
	const uint8_t *availability;
	void *host;
};
struct pm_host_end {
	PM_PARAMS;
	void *host;
};
struct pm_metrics {
	PM_PARAMS;
	void *host;
	const char **names;
	size_t cnt;
};
struct pm_config_size {
	PM_PARAMS;
	void *host;
	size_t config_size;
};
struct pm_config {
	PM_PARAMS;
	void *host;
	size_t config_size;
	uint8_t *config;
};
struct pm_passes {
	PM_PARAMS;
	size_t config_size;
	uint8_t *config;
	size_t passes;
};
struct pm_enable {
	PM_PARAMS;
	size_t device;
	void *object;
};
/* Start, Stop, Disable */
struct pm_object {
	PM_PARAMS;
	void *object;
};
struct pm_set_config {
	PM_PARAMS;
	void *object;
	size_t config_size;
	const uint8_t *config;
	size_t buffer_size;
	uint64_t interval;
	int trigger, append;
};
struct pm_data_size {
	PM_PARAMS;
	void *object;
	const char **names;
	size_t cnt;
	uint32_t samples;
	size_t data_size;
};
struct pm_data_init {
	PM_PARAMS;
	void *object;
	size_t data_size;
	uint8_t *data;
};
/* Its size ends with overflow. */
struct pm_decode {
	PM_PARAMS;
	void *object;
	uint8_t *data;
	size_t data_size;
	int stop;
	uint8_t overflow;
};
struct pm_info {
	PM_PARAMS;
	const uint8_t *data;
	size_t data_size, total, populated, completed;
};
struct pm_sample {
	PM_PARAMS;
	void *object;
	const uint8_t *data;
	size_t data_size, index;
	uint64_t start, end;
};
struct pm_values {
	PM_PARAMS;
	void *host;
	const uint8_t *data;
	size_t data_size, index;
	const char **names;
	size_t cnt;
	double *values;
};
#define PM_DECODE_SZ (offsetof(struct pm_decode, overflow) + 1)

_Static_assert(sizeof(struct pm_host) == 48 && sizeof(struct pm_set_config) == 64 &&
		       sizeof(struct pm_data_size) == 56 && PM_DECODE_SZ == 45 &&
		       sizeof(struct pm_sample) == 64 && sizeof(struct pm_values) == 72,
	       "as in CUPTI");

/* FN(name, its parameters): the function is "cupti" and the name, and returns int. */
#define PM_FUNCTIONS                                                                               \
	FN(ProfilerInitialize, pm_initialize)                                                      \
	FN(DeviceGetChipName, pm_chip)                                                             \
	FN(PmSamplingGetCounterAvailability, pm_availability)                                      \
	FN(ProfilerHostInitialize, pm_host)                                                        \
	FN(ProfilerHostDeinitialize, pm_host_end)                                                  \
	FN(ProfilerHostConfigAddMetrics, pm_metrics)                                               \
	FN(ProfilerHostGetConfigImageSize, pm_config_size)                                         \
	FN(ProfilerHostGetConfigImage, pm_config)                                                  \
	FN(ProfilerHostGetNumOfPasses, pm_passes)                                                  \
	FN(PmSamplingEnable, pm_enable)                                                            \
	FN(PmSamplingDisable, pm_object)                                                           \
	FN(PmSamplingSetConfig, pm_set_config)                                                     \
	FN(PmSamplingGetCounterDataSize, pm_data_size)                                             \
	FN(PmSamplingCounterDataImageInitialize, pm_data_init)                                     \
	FN(PmSamplingStart, pm_object)                                                             \
	FN(PmSamplingStop, pm_object)                                                              \
	FN(PmSamplingDecodeData, pm_decode)                                                        \
	FN(PmSamplingGetCounterDataInfo, pm_info)                                                  \
	FN(PmSamplingCounterDataGetSampleInfo, pm_sample)                                          \
	FN(ProfilerHostEvaluateToGpuValues, pm_values)

struct cupti_pm {
#define FN(name, params) int (*name)(struct params *);
	PM_FUNCTIONS
#undef FN
	int (*GetResultString)(int ret, const char **text);
};

#endif /* PM_CUPTI_PM_H */
