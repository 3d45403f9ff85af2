/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Identifies the GPU behind a device number, and its capabilities. The driver is queried behind its
 * exports, so that no producer records these queries as calls of the program. If the path behind
 * the exports is unknown, nothing is queried.
 */
#include "inject.h"

#include <string.h>

/* CUdevice_attribute (cuda.h; the same since CUDA 2) */
enum {
	CLOCK_RATE = 13,
	MULTIPROCESSOR_COUNT = 16,
	MEMORY_CLOCK_RATE = 36,
	MEMORY_BUS_WIDTH = 37,
	MAJOR = 75,
	MINOR = 76
};

typedef int uuid_fn(uint8_t *uuid, int device);
typedef int text_fn(char *text, int len, int device);
typedef int attribute_fn(int *value, int attribute, int device);

static void query_text(const char *name, char *text, int device)
{
	text_fn *fn = (text_fn *)hook_beneath(name);

	if (!fn || fn(text, CT_DEVICE_TEXT_SZ, device))
		text[0] = 0;
	text[CT_DEVICE_TEXT_SZ - 1] = 0;
}

static uint32_t query_uuid(const char *name, uint8_t *uuid, int device)
{
	uuid_fn *fn = (uuid_fn *)hook_beneath(name);

	return fn && !fn(uuid, device);
}

static uint32_t query_number(int attribute, int device)
{
	attribute_fn *fn = (attribute_fn *)hook_beneath("cuDeviceGetAttribute");
	int value = 0;

	return fn && !fn(&value, attribute, device) && value > 0 ? value : 0;
}

void device_query(struct ct_device *d, uint32_t device, bool texts)
{
	*d = (struct ct_device){
		.rec = {.size = sizeof(*d), .kind = CT_REC_DEVICE},
		.device = device,
		.major = query_number(MAJOR, device),
		.minor = query_number(MINOR, device),
		.sm_cnt = query_number(MULTIPROCESSOR_COUNT, device),
		.clock_khz = query_number(CLOCK_RATE, device),
		.memory_khz = query_number(MEMORY_CLOCK_RATE, device),
		.bus_bits = query_number(MEMORY_BUS_WIDTH, device),
	};
	/* The second function (CUDA 11.4) returns the UUID of a MIG device; the first returns that
	 * of the whole GPU. */
	if (query_uuid("cuDeviceGetUuid_v2", d->uuid, device))
		d->has |= CT_DEVICE_HAS_UUID;
	if (query_uuid("cuDeviceGetUuid", d->gpu_uuid, device))
		d->has |= CT_DEVICE_HAS_GPU_UUID;
	if (!texts)
		return;
	query_text("cuDeviceGetName", d->name, device);
	query_text("cuDeviceGetPCIBusId", d->pci, device);
}
