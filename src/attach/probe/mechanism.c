/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "mechanism.h"

const char *mechanism_name(enum mechanism m)
{
	static const char *const names[] = {"auto", "uprobe.session", "uprobe.multi", "uprobe"};

	return names[m];
}

const char *nv_probe_name(enum nv_probe k)
{
	static const char *const names[] = {"auto", "kprobe.multi", "fentry", "kprobe",
					    "tracepoint"};

	return names[k];
}
