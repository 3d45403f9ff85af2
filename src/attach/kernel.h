/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* --kernel: how system calls into the NVIDIA driver are seen. Private to attach/. */
#ifndef ATTACH_KERNEL_H
#define ATTACH_KERNEL_H

#include "attach.h"

#include "ct_nv_bpf.h"

#include "cudatrace.skel.h"

/* Before load: which programs, and what the BPF side must know of device numbers. how: AUTO for
 * none. */
void kernel__prepare(struct cudatrace_bpf *skel, struct ct_cfg *cfg, const struct attach_opts *o,
		     enum kernel_probe how);
/* After load, before anything is attached. Reports its own errors. */
int kernel__fill_plans(struct cudatrace_bpf *skel, const struct nv_abi *abi, enum ct_hide hide);
/* Returns how many entry points are probed, or -errno. */
int kernel__attach(struct cudatrace_bpf *skel, enum kernel_probe how);
/* What to try for AUTO, best first; returns how many. */
unsigned kernel__candidates(enum kernel_probe want, enum kernel_probe out[KERNEL_PROBE_CNT]);
/* Warns where it is not the best that was wanted. error: why that failed. */
void kernel__say(enum kernel_probe want, enum kernel_probe got, int error);
/* The driver's modules are there (or a test plays them). */
bool kernel__driver_loaded(void);

#endif /* ATTACH_KERNEL_H */
