/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* --kernel: the devices of the NVIDIA driver on this machine, whoever sees what reaches them. */
#ifndef ATTACH_NV_DEVS_H
#define ATTACH_NV_DEVS_H

#include <stdbool.h>

#include "ct_nv.h"

void nv_devs__read(struct ct_nv_devs *devs);
/* A test plays them. */
bool nv_devs__by_name(void);
/* The driver's modules are there, or a test plays them. */
bool nv_devs__loaded(void);
void nv_devs__say_none(void);

#endif /* ATTACH_NV_DEVS_H */
