/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The part of NVML that is used here; building needs no header of NVML. Each declaration was
 * compared with nvml.h of CUDA 12.9, 13.0 and 13.5 (NVIDIA's packages nvidia-nvml-dev of PyPI). A
 * versioned struct is declared with its version. A function exists since the driver named next to
 * it; an older library lacks it and its values.
 */
#ifndef NVML_NVML_H
#define NVML_NVML_H

#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "start.h"

typedef void *nvml_device;

enum {
	NVML_SUCCESS = 0,
	NVML_NOT_SUPPORTED = 3,
	NVML_INSUFFICIENT_SIZE = 7,
	NVML_TIMEOUT = 10,
	NVML_GPU_IS_LOST = 15,
};

struct nvml_utilization {
	unsigned gpu, memory;
};

struct nvml_memory {
	unsigned long long total, free, used;
};

/* version: 2 << 24 | size of the struct. used excludes memory that the driver reserves for itself,
 * as in nvidia-smi; used of version 1 includes it. */
struct nvml_memory_v2 {
	unsigned version;
	unsigned long long total, reserved, free, used;
};

struct nvml_pci {
	char bus_id_legacy[16];
	unsigned domain, bus, device, device_id, subsystem_id;
	char bus_id[32];
};

/* For the _v2 and _v3 functions (drivers 460 and later). */
struct nvml_process {
	unsigned pid;
	unsigned long long used; /* NVML_NO_VALUE: unknown */
	unsigned gpu_instance, compute_instance;
};
#define NVML_NO_VALUE (~0ull)

struct nvml_process_util {
	unsigned pid;
	unsigned long long stamp; /* microseconds */
	unsigned sm, memory, encoder, decoder;
};

struct nvml_field {
	unsigned id, scope;
	long long stamp, latency;
	unsigned type;
	int ret;
	union {
		double d;
		int i;
		unsigned u;
		unsigned long ul;
		unsigned long long ull;
		long long ll;
		unsigned short us;
	} value;
};
/* NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX and _RX: KiB since the driver was loaded. Scope: a link, or
 * all links. */
#define NVML_FIELD_NVLINK_TX 138
#define NVML_FIELD_NVLINK_RX 139
#define NVML_ALL_LINKS	     (~0u)

struct nvml_event {
	nvml_device device;
	unsigned long long type, data;
	unsigned gpu_instance, compute_instance;
};
#define NVML_EVENT_XID 8ull

struct nvml_gpm_support {
	unsigned version; /* 1 */
	unsigned supported;
};

struct nvml_gpm_metric {
	unsigned id;
	int ret;
	double value;
	char *short_name, *long_name, *unit;
};

/* The array of the library grows with versions (210 in CUDA 12.9 and 13.0, 477 in 13.5). */
#define NVML_GPM_ROOM 512
struct nvml_gpm_get {
	unsigned version; /* 1 */
	unsigned cnt;
	void *older, *newer;
	struct nvml_gpm_metric metrics[NVML_GPM_ROOM];
};

_Static_assert(sizeof(struct nvml_memory_v2) == 40 && sizeof(struct nvml_pci) == 68 &&
		       sizeof(struct nvml_process) == 24 &&
		       sizeof(struct nvml_process_util) == 32 && sizeof(struct nvml_field) == 40 &&
		       sizeof(struct nvml_event) == 32 && sizeof(struct nvml_gpm_metric) == 40 &&
		       offsetof(struct nvml_gpm_get, metrics) == 24,
	       "as on any 64-bit machine");

/* FN(name, symbol, older symbol with the same arguments or NULL, arguments). All return int. */
#define NVML_FUNCTIONS                                                                             \
	FN(init, "nvmlInit_v2", "nvmlInit", (void))                                                \
	FN(count, "nvmlDeviceGetCount_v2", "nvmlDeviceGetCount", (unsigned *))                     \
	FN(handle, "nvmlDeviceGetHandleByIndex_v2", NULL, (unsigned, nvml_device *))               \
	FN(name, "nvmlDeviceGetName", NULL, (nvml_device, char *, unsigned))                       \
	FN(uuid, "nvmlDeviceGetUUID", NULL, (nvml_device, char *, unsigned))                       \
	FN(minor, "nvmlDeviceGetMinorNumber", NULL, (nvml_device, unsigned *))                     \
	FN(pci, "nvmlDeviceGetPciInfo_v3", NULL, (nvml_device, struct nvml_pci *))                 \
	FN(util, "nvmlDeviceGetUtilizationRates", NULL, (nvml_device, struct nvml_utilization *))  \
	FN(memory, "nvmlDeviceGetMemoryInfo", NULL, (nvml_device, struct nvml_memory *))           \
	FN(memory_v2, "nvmlDeviceGetMemoryInfo_v2", NULL, (nvml_device, struct nvml_memory_v2 *))  \
	FN(clock, "nvmlDeviceGetClockInfo", NULL, (nvml_device, unsigned, unsigned *))             \
	FN(reasons, "nvmlDeviceGetCurrentClocksEventReasons",                                      \
	   "nvmlDeviceGetCurrentClocksThrottleReasons", (nvml_device, unsigned long long *))       \
	FN(power, "nvmlDeviceGetPowerUsage", NULL, (nvml_device, unsigned *))                      \
	FN(energy, "nvmlDeviceGetTotalEnergyConsumption", NULL,                                    \
	   (nvml_device, unsigned long long *))                                                    \
	FN(temperature, "nvmlDeviceGetTemperature", NULL, (nvml_device, unsigned, unsigned *))     \
	FN(pcie, "nvmlDeviceGetPcieThroughput", NULL, (nvml_device, unsigned, unsigned *))         \
	FN(fields, "nvmlDeviceGetFieldValues", NULL, (nvml_device, int, struct nvml_field *))      \
	FN(ecc, "nvmlDeviceGetTotalEccErrors", NULL,                                               \
	   (nvml_device, unsigned, unsigned, unsigned long long *))                                \
	FN(processes, "nvmlDeviceGetComputeRunningProcesses_v3",                                   \
	   "nvmlDeviceGetComputeRunningProcesses_v2",                                              \
	   (nvml_device, unsigned *, struct nvml_process *))                                       \
	FN(graphics, "nvmlDeviceGetGraphicsRunningProcesses_v3",                                   \
	   "nvmlDeviceGetGraphicsRunningProcesses_v2",                                             \
	   (nvml_device, unsigned *, struct nvml_process *))                                       \
	FN(process_util, "nvmlDeviceGetProcessUtilization", NULL,                                  \
	   (nvml_device, struct nvml_process_util *, unsigned *, unsigned long long))              \
	FN(event_set, "nvmlEventSetCreate", NULL, (void **))                                       \
	FN(register_events, "nvmlDeviceRegisterEvents", NULL,                                      \
	   (nvml_device, unsigned long long, void *))                                              \
	FN(event, "nvmlEventSetWait_v2", NULL, (void *, struct nvml_event *, unsigned))            \
	FN(mig_mode, "nvmlDeviceGetMigMode", NULL, (nvml_device, unsigned *, unsigned *))          \
	FN(mig_max, "nvmlDeviceGetMaxMigDeviceCount", NULL, (nvml_device, unsigned *))             \
	FN(mig_device, "nvmlDeviceGetMigDeviceHandleByIndex", NULL,                                \
	   (nvml_device, unsigned, nvml_device *))                                                 \
	FN(gpu_instance, "nvmlDeviceGetGpuInstanceId", NULL, (nvml_device, unsigned *))            \
	FN(compute_instance, "nvmlDeviceGetComputeInstanceId", NULL, (nvml_device, unsigned *))    \
	FN(gpm_support, "nvmlGpmQueryDeviceSupport", NULL,                                         \
	   (nvml_device, struct nvml_gpm_support *))                                               \
	FN(gpm_alloc, "nvmlGpmSampleAlloc", NULL, (void **))                                       \
	FN(gpm_sample, "nvmlGpmSampleGet", NULL, (nvml_device, void *))                            \
	FN(gpm_mig_sample, "nvmlGpmMigSampleGet", NULL, (nvml_device, unsigned, void *))           \
	FN(gpm_get, "nvmlGpmMetricsGet", NULL, (struct nvml_gpm_get *))

/* NULL: the library lacks the function. */
struct nvml {
#define FN(id, symbol, older, args) int(*id) args;
	NVML_FUNCTIONS
#undef FN
	const char *(*error_string)(int ret);
};

/* Calls a function of struct nvml; evaluates to "not supported" if the library lacks it. */
#define ASK(n, id, ...) ((n)->id ? (n)->id(__VA_ARGS__) : NVML_NOT_SUPPORTED)

#endif /* NVML_NVML_H */
