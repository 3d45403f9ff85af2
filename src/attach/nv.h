/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* --kernel: tracing of system calls into the NVIDIA driver. Private to attach/. */
#ifndef ATTACH_NV_H
#define ATTACH_NV_H

#include "attach.h"

#include "ct_nv_bpf.h"

#include "cudatrace.skel.h"

/* Call before load: selects the programs and sets the device numbers for the BPF side. how: AUTO
 * for none. */
void nv__prepare(struct cudatrace_bpf *skel, struct ct_cfg *cfg, const struct attach_opts *o,
		 enum nv_probe how);
/* Call after load, before attaching. Reports its own errors. */
int nv__fill_plans(struct cudatrace_bpf *skel, const struct nv_abi *abi, enum ct_redact redact);
/* Returns the number of probed entry points, or -errno. */
int nv__attach(struct cudatrace_bpf *skel, enum nv_probe how);
/* Lists what to try for AUTO, best first. Returns the number. */
unsigned nv__candidates(enum nv_probe want, enum nv_probe out[NV_PROBE_CNT]);
/* Warns if `got` is not the best of the requested mechanisms. error: why that one failed. */
void nv__report(enum nv_probe want, enum nv_probe got, int error);

#endif /* ATTACH_NV_H */
