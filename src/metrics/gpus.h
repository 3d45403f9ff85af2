/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The GPUs of the node, as the driver lists them in /proc/driver/nvidia/gpus. */
#ifndef METRICS_GPUS_H
#define METRICS_GPUS_H

#include <stddef.h>

#define GPUS_MAX 32
#define GPUS_DIR "/proc/driver/nvidia/gpus"

struct gpu {
	char bus[32];  /* 0000:3b:00.0 */
	char uuid[64]; /* "": the driver does not know it before somebody has used the GPU */
	char model[64];
	char minor[8]; /* of /dev/nvidiaN */
};

/* At most GPUS_MAX; 0 where there is no driver. */
unsigned gpus__read(const char *dir, struct gpu *gpus);
/* The driver's kernel messages say PCI:0000:3b:00. */
void gpus_bus(const char *name, char *bus, size_t size);

#endif /* METRICS_GPUS_H */
