/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* --kernel: the NVIDIA driver's devices on this machine, for BPF and for the in-process library. */
#ifndef ATTACH_NV_DEVS_H
#define ATTACH_NV_DEVS_H

#include <stdbool.h>

#include "ct_nv.h"

void nv_devs__read(struct ct_nv_devs *devs);
/* Returns whether a test simulates them. */
bool nv_devs__by_name(void);
/* Returns whether the driver's modules are loaded, or simulated by a test. */
bool nv_devs__loaded(void);
void nv_devs__warn_none(void);

#endif /* ATTACH_NV_DEVS_H */
