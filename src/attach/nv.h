/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* --kernel: how system calls into the NVIDIA driver are seen. Private to attach/. */
#ifndef ATTACH_NV_H
#define ATTACH_NV_H

#include "attach.h"

#include "ct_nv_bpf.h"

#include "cudatrace.skel.h"

/* Before load: which programs, and what the BPF side must know of device numbers. how: AUTO for
 * none. */
void nv__prepare(struct cudatrace_bpf *skel, struct ct_cfg *cfg, const struct attach_opts *o,
		 enum nv_probe how);
/* After load, before anything is attached. Reports its own errors. */
int nv__fill_plans(struct cudatrace_bpf *skel, const struct nv_abi *abi, enum ct_redact redact);
/* Returns how many entry points are probed, or -errno. */
int nv__attach(struct cudatrace_bpf *skel, enum nv_probe how);
/* What to try for AUTO, best first; returns how many. */
unsigned nv__candidates(enum nv_probe want, enum nv_probe out[NV_PROBE_CNT]);
/* Warns where it is not the best that was wanted. error: why that failed. */
void nv__say(enum nv_probe want, enum nv_probe got, int error);

#endif /* ATTACH_NV_H */
