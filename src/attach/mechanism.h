/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ATTACH_MECHANISM_H
#define ATTACH_MECHANISM_H

/* How probes are attached, best last in age: session needs kernel 6.13, multi 6.6, perf (one
 * perf event for each probe) works since cookies came with 5.15. */
enum mechanism { MECH_AUTO = 0, MECH_SESSION, MECH_MULTI, MECH_PERF };

/* "uprobe.session", "uprobe.multi", "uprobe". */
const char *mechanism_name(enum mechanism m);

#endif /* ATTACH_MECHANISM_H */
