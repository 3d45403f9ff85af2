/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "nv_devs.h"

#include "util/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* For tests without devices: files named nvidiactl, nvidia0, nvidia-uvm stand for them. */
#define TEST_ENV "CUDATRACE_TEST_NV_BY_NAME"

bool nv_devs__by_name(void)
{
	return secure_getenv(TEST_ENV);
}

bool nv_devs__loaded(void)
{
	return nv_devs__by_name() || !access("/sys/module/nvidia", F_OK);
}

/* Reads the major numbers that the kernel assigned when the modules were loaded. */
void nv_devs__read(struct ct_nv_devs *devs)
{
	FILE *f = fopen("/proc/devices", "re");
	unsigned major, other = 0;
	char line[128], name[64];

	*devs = (struct ct_nv_devs){.by_name = nv_devs__by_name()};
	while (f && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%u %63s", &major, name) != 2 || strncmp(name, "nvidia", 6))
			continue;
		if (!strcmp(name, "nvidia-uvm"))
			devs->uvm_major = major;
		else if (major != CT_NV_MAJOR && other < 4)
			devs->other_majors[other++] = major;
	}
	if (f)
		fclose(f);
}

void nv_devs__warn_none(void)
{
	warn("--kernel: the NVIDIA driver is not loaded: only CUDA calls are traced");
}
