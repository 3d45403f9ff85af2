/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The mechanisms by which probes are attached. */
#ifndef ATTACH_PROBE_MECHANISM_H
#define ATTACH_PROBE_MECHANISM_H

/* How probes are attached, newest first: session needs kernel 6.13, multi 6.6. perf (one perf event
 * per probe) works since 5.15, which added cookies. */
enum mechanism { MECH_AUTO = 0, MECH_SESSION, MECH_MULTI, MECH_PERF };

/* "uprobe.session", "uprobe.multi", "uprobe". */
const char *mechanism_name(enum mechanism m);

/* How system calls into the NVIDIA driver are traced: --kernel-probe. Best first; docs/KERNELS.md
 * has the reasons. */
enum nv_probe {
	NV_PROBE_AUTO = 0,
	NV_PROBE_KPROBE_MULTI, /* on the driver's entry points */
	NV_PROBE_FENTRY,       /* the same functions; needs BTF of its modules */
	NV_PROBE_KPROBE,       /* the same functions */
	NV_PROBE_TRACEPOINT,   /* on all system calls; no poll */
};
#define NV_PROBE_CNT 4 /* without AUTO */
const char *nv_probe_name(enum nv_probe k);

#endif /* ATTACH_PROBE_MECHANISM_H */
