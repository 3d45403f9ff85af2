/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ATTACH_MECHANISM_H
#define ATTACH_MECHANISM_H

/* How probes are attached, best last in age: session needs kernel 6.13, multi 6.6, perf (one
 * perf event for each probe) works since cookies came with 5.15. */
enum mechanism { MECH_AUTO = 0, MECH_SESSION, MECH_MULTI, MECH_PERF };

/* "uprobe.session", "uprobe.multi", "uprobe". */
const char *mechanism_name(enum mechanism m);

/* How system calls into the NVIDIA driver are seen: --kernel-probe. */
enum kernel_probe {
	KERNEL_PROBE_AUTO = 0,
	KERNEL_PROBE_FENTRY,	 /* on the driver's entry points; needs BTF of its modules */
	KERNEL_PROBE_KPROBE,	 /* the same places */
	KERNEL_PROBE_TRACEPOINT, /* on all system calls; no poll */
};
const char *kernel_probe_name(enum kernel_probe k);

#endif /* ATTACH_MECHANISM_H */
