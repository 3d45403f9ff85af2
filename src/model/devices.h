/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Maps the device numbers of processes to GPUs of the machine. CUDA and CUPTI number the GPUs that
 * the process sees. With CUDA_VISIBLE_DEVICES, or in containers, several GPUs are number 0. The
 * UUID distinguishes them.
 */
#ifndef MODEL_DEVICES_H
#define MODEL_DEVICES_H

#include "event.h"

#include "util/hash_table.h"

#define DEVICE_UUID_SZ	48
#define DEVICE_TEXT_SZ	64
#define DEVICE_LABEL_SZ 40

enum device_part {
	DEVICE_DOMAIN,
	DEVICE_BUS,
	DEVICE_SLOT,
	DEVICE_MAJOR,
	DEVICE_MINOR,
	DEVICE_PART_CNT
};

struct device_key {
	uint32_t pid, number; /* as CUDA numbers it in that process */
};

/* Unknown texts are empty, and unknown numbers 0. */
struct device {
	struct device_key key;
	uint64_t id[2]; /* the UUID, without its prefix */
	bool is_known;	/* id is valid */
	bool has_index;
	uint32_t index;		   /* as in nvidia-smi, if NVML was queried (--gpu-stats) */
	char uuid[DEVICE_UUID_SZ]; /* as nvidia-smi prints it: GPU-..., or MIG-... */
	char pci[DEVICE_TEXT_SZ], model[DEVICE_TEXT_SZ];
	uint32_t capability; /* compute capability: 10 times the major number, plus the minor one */
	uint32_t sm_cnt, clock_khz;
	uint32_t memory_khz, bus_bits; /* of its memory: highest clock, width of the bus */
	/* Collected parts: UUIDs from the first and the second form of cuDeviceGetUuid(), and
	 * numbers that are meaningful only together; -1: unknown. */
	uint8_t uuids[2][16];
	uint8_t has_uuids;
	int64_t parts[DEVICE_PART_CNT];
	bool is_new; /* it has data that no event has reported */
};

#define DEVICES_NVML 64
HASH_TABLE_TYPE(device_entry);
struct devices {
	struct device_entry_table by_key;
	unsigned new_cnt; /* number of devices with is_new */
	struct {
		uint64_t id[2];
		uint32_t index;
	} nvml[DEVICES_NVML];
	unsigned nvml_cnt;
};

/* Updates the devices from events that describe them, and from those after which a process ID
 * belongs to another program. */
void devices__event(struct devices *ds, const struct trace_event *ev);
/* Returns NULL if the device is unknown. Valid until the next call of another function here. */
const struct device *devices__find(struct devices *ds, uint32_t pid, uint32_t number);
void devices__free(struct devices *ds);

/* A description of a device: empty texts and zeros are unknown. */
struct device_desc {
	struct pointee uuids[2]; /* from the first and the second form of cuDeviceGetUuid() */
	struct pointee model, pci;
	uint64_t attribute, value; /* CUdevice_attribute */
};
void devices__learn(struct devices *ds, uint32_t pid, uint64_t number,
		    const struct device_desc *desc);
/* devices_call.c: updates the devices from a call of class device. */
struct annotations;
void devices__call(struct devices *ds, const struct annotations *m, const struct trace_event *ev);
/* Updates the devices from a record of the in-process library. */
struct ct_device;
void devices__add_record(struct devices *ds, const struct ct_device *rec);
/* Returns a device with is_new, and clears is_new; NULL: there is none. */
const struct device *devices__take_new(struct devices *ds);
/* Fills the event that describes a device. Its texts are the device's. */
void device_event(struct trace_event *ev, const struct device *d, uint64_t ns);

/* Returns true if both certainly stand for the same GPU. */
static inline bool device_is(const struct device *a, const struct device *b)
{
	return a->is_known && b->is_known && a->id[0] == b->id[0] && a->id[1] == b->id[1];
}
/* Formats "GPU 3 1a2b3c4d": nvidia-smi's number if known, else the process's, and the start of the
 * UUID. "GPU 0" if the UUID is unknown. */
void device_label(char buf[DEVICE_LABEL_SZ], const struct device *d, uint32_t number);

#endif /* MODEL_DEVICES_H */
