/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Which GPU of the machine a device of a process is. CUDA and CUPTI number those that the process
 * sees: with CUDA_VISIBLE_DEVICES, or in containers, several GPUs are number 0. What tells them
 * apart is the UUID.
 */
#ifndef MODEL_DEVICES_H
#define MODEL_DEVICES_H

#include "event.h"

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

/* Texts are empty, and numbers 0, where they are not known. */
struct device {
	struct device_key key;
	uint64_t id[2]; /* the UUID, without what stands before it */
	bool is_known;	/* it has one */
	bool has_index;
	uint32_t index;		   /* as nvidia-smi counts, if NVML was asked (--gpu-stats) */
	char uuid[DEVICE_UUID_SZ]; /* as nvidia-smi prints it: GPU-..., of a part (MIG) MIG-... */
	char pci[DEVICE_TEXT_SZ], model[DEVICE_TEXT_SZ];
	uint32_t capability; /* 10 times the major number, and the minor one */
	uint32_t sm_cnt, clock_khz;
	/* While it is learned: UUIDs of the first and the second form of cuDeviceGetUuid(), and
	 * numbers that say something together; -1: not known. */
	uint8_t uuids[2][16];
	uint8_t has_uuids;
	int64_t parts[DEVICE_PART_CNT];
	bool is_new; /* there is something that no event has said */
};

#define DEVICES_NVML 64
struct device_entry;
struct devices {
	struct device_entry *by_key;
	unsigned new_cnt; /* of them */
	struct {
		uint64_t id[2];
		uint32_t index;
	} nvml[DEVICES_NVML];
	unsigned nvml_cnt;
};

/* From events that say what a device is, and those after which a process id has others. */
void devices__event(struct devices *ds, const struct trace_event *ev);
/* NULL: nothing is known of it. Valid until the next call of another function here. */
const struct device *devices__find(struct devices *ds, uint32_t pid, uint32_t number);
void devices__free(struct devices *ds);

/* What is said of a device: what is empty, or 0, is not. */
struct device_says {
	struct pointee uuids[2]; /* of the first and the second form of cuDeviceGetUuid() */
	struct pointee model, pci;
	uint64_t attribute, value; /* CUdevice_attribute */
};
void devices__learn(struct devices *ds, uint32_t pid, uint64_t number,
		    const struct device_says *says);
/* devices_call.c: from a call of class device. */
struct annotations;
void devices__call(struct devices *ds, const struct annotations *m, const struct trace_event *ev);
/* From what the library in the process was told. */
struct ct_device;
void devices__told(struct devices *ds, const struct ct_device *rec);
/* One that no event has said; from now on it has. NULL: there is none. */
const struct device *devices__take_new(struct devices *ds);
/* The event that says what it is. Its texts are the device's. */
void device_event(struct trace_event *ev, const struct device *d, uint64_t ns);

/* Do both stand for the same GPU, for certain? */
static inline bool device_is(const struct device *a, const struct device *b)
{
	return a->is_known && b->is_known && a->id[0] == b->id[0] && a->id[1] == b->id[1];
}
/* "GPU 3 1a2b3c4d": nvidia-smi's number if it is known, else the process's; the beginning of the
 * UUID. "GPU 0" where that is not known. */
void device_label(char buf[DEVICE_LABEL_SZ], const struct device *d, uint32_t number);

#endif /* MODEL_DEVICES_H */
