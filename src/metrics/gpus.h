/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The GPUs of the node, as listed by the driver in /proc/driver/nvidia/gpus. */
#ifndef METRICS_GPUS_H
#define METRICS_GPUS_H

#include <stddef.h>

#define GPUS_MAX 32
#define GPUS_DIR "/proc/driver/nvidia/gpus"

struct gpu {
	char bus[32];  /* 0000:3b:00.0 */
	char uuid[64]; /* "": unknown to the driver until the GPU is first used */
	char model[64];
	char minor[8]; /* of /dev/nvidiaN */
};

/* At most GPUS_MAX; 0 where there is no driver. */
unsigned gpus__read(const char *dir, struct gpu *gpus);
/* Converts a name; the driver's kernel messages have the form PCI:0000:3b:00. */
void gpus_bus(const char *name, char *bus, size_t size);

#endif /* METRICS_GPUS_H */
