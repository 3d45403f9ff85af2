/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Records of GPU values from NVIDIA's management library (NVML), of network ports, and of hardware
 * counters. Separate programs, nvml/ and pm/, make them. */
#ifndef CT_GPU_H
#define CT_GPU_H

#include "ct_record.h"

enum ct_gpu_value {
#define VALUE(ID, id, form, unit, text) CT_GPU_##ID,
#include "ct_gpu.def"
	CT_GPU_VALUE_CNT
};
_Static_assert(CT_GPU_VALUE_CNT <= 64, "known is a word");

enum ct_net_value {
#define VALUE(ID, id, file, scale, form, unit, text) CT_NET_##ID,
#include "ct_net.def"
	CT_NET_VALUE_CNT
};
_Static_assert((int)CT_NET_VALUE_CNT <= (int)CT_GPU_VALUE_CNT,
	       "the values of a port fit into a record");

enum ct_pm_value {
#define VALUE(ID, id, form, unit, metrics, text) CT_PM_##ID,
#include "ct_pm.def"
	CT_PM_VALUE_CNT
};
_Static_assert((int)CT_PM_VALUE_CNT <= (int)CT_GPU_VALUE_CNT,
	       "the values of hardware counters fit into a record");

enum ct_gpu_op {
	CT_GPU_DEVICE = 1, /* description: sent once, first */
	CT_GPU_SAMPLE,
	CT_GPU_PROCESS, /* rec.pid used that device at the time of the previous sample */
	CT_GPU_MISSING, /* name: what is unavailable, and why */
	/* A port of the network. gpu: its number; name: its device; pci: InfiniBand or Ethernet;
	 * uuid: its state; known, values: enum ct_net_value. */
	CT_GPU_PORT,
	/* Hardware counters (pm/). DEVICE: sent once, when sampling has started; end_ns: the time
	 * between two samples. SAMPLE: from rec.ts_ns to end_ns; known, values: enum ct_pm_value.
	 * MISSING: as above. END: sent last; lost_cnt includes all that is missing until then. */
	CT_GPU_PM_DEVICE,
	CT_GPU_PM_SAMPLE,
	CT_GPU_PM_MISSING,
	CT_GPU_PM_END,
};

/* For gpu_instance, compute_instance: the whole device. */
#define CT_GPU_WHOLE (~0u)
/* No particular device. */
#define CT_GPU_NONE (~0u)

#define CT_GPU_NAME_SZ 192
#define CT_GPU_UUID_SZ 96 /* NVML_DEVICE_UUID_V2_BUFFER_SIZE */
#define CT_GPU_PCI_SZ  32 /* NVML_DEVICE_PCI_BUS_ID_BUFFER_SIZE */

struct ct_gpu {
	struct ct_rec rec;
	__u32 op;  /* enum ct_gpu_op */
	__u32 gpu; /* NVML's index, or CT_GPU_NONE */
	__u32 gpu_instance, compute_instance;
	__u32 minor;	       /* DEVICE: /dev/nvidiaN; CT_GPU_NONE: unknown */
	__u32 lost_cnt;	       /* total records dropped so far for lack of space */
	__u64 end_ns, cost_ns; /* PM_SAMPLE: its end; CPU time to read it */
	__u64 known;	       /* one bit per value that is present */
	__u64 values[CT_GPU_VALUE_CNT];
	char name[CT_GPU_NAME_SZ]; /* DEVICE: the model; PROCESS: its command */
	char uuid[CT_GPU_UUID_SZ];
	char pci[CT_GPU_PCI_SZ]; /* DEVICE */
};

#endif /* CT_GPU_H */
