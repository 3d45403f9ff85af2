/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The sampled devices, and where records go. */
#ifndef NVML_SAMPLER_H
#define NVML_SAMPLER_H

#include "nvml.h"

#include "ct_gpu.h"

#define DEVICES_MAX   256 /* including MIG devices */
#define PROCESSES_MAX 256 /* of one device */

struct device {
	nvml_device handle;
	nvml_device parent; /* device that holds this MIG device; else NULL */
	unsigned index;
	unsigned gpu_instance, compute_instance; /* CT_GPU_WHOLE */
	bool is_split;				 /* divided into MIG devices */
	unsigned minor;
	char name[CT_GPU_NAME_SZ], uuid[CT_GPU_UUID_SZ], pci[CT_GPU_PCI_SZ];
	unsigned refused; /* bits of the errors that were reported */
	bool gpm_off;	  /* the device has no GPM */
	void *gpm[2];	  /* this sample and the previous one, which was taken at gpm_at */
	int gpm_at;
	bool gpm_has;
	unsigned long long util_stamp; /* newest of process_util, */
	bool util_read;		       /* which was asked */
	unsigned long long link_kib[2];
	uint64_t link_ns; /* 0: not read yet */
	unsigned long long xid_cnt, last_xid;
};

struct sampler {
	struct nvml n;
	int sock;
	struct device devices[DEVICES_MAX];
	unsigned device_cnt;
	void *events; /* NULL: Xids are not reported */
	unsigned lost_cnt;
	struct nvml_gpm_get get;
};

/* CLOCK_MONOTONIC. */
uint64_t clock_ns(void);
/* Fills in size, kind, time and loss, and sends the record; never waits for the reader. */
void send_record(struct sampler *s, struct ct_gpu *rec);
/* Reports what cannot be read, as text; d NULL: of no particular device. */
__attribute__((format(printf, 3, 4))) void send_missing(struct sampler *s, const struct device *d,
							const char *fmt, ...);
/* Returns the library's text for an error. */
const char *error_text(const struct sampler *s, int ret);
/* Returns whether a value was read. Values that a device does not support are left out silently;
 * any other error is reported once per device. */
bool answered(struct sampler *s, struct device *d, int ret);
void put(struct ct_gpu *rec, enum ct_gpu_value id, uint64_t value);
/* Starts a record about a device. */
struct ct_gpu record_of(const struct device *d, enum ct_gpu_op op);

/* device.c: finds devices and describes them. */
void find_devices(struct sampler *s);
/* sample.c */
void sample_device(struct sampler *s, struct device *d);
/* network.c: InfiniBand and RoCE ports, at most five times per second. */
void find_ports(void);
void sample_ports(struct sampler *s);
/* process.c: processes on the device. */
void sample_processes(struct sampler *s, struct device *d);

#endif /* NVML_SAMPLER_H */
