/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Facts about the machine for the header of a trace. */
#ifndef TRACE_HOSTINFO_H
#define TRACE_HOSTINFO_H

#include "attach/probe/mechanism.h"

#include <sys/utsname.h>

struct hostinfo {
	struct utsname uts;
	char driver[64];  /* version of the kernel driver; "" when it is not loaded */
	char boot_id[64]; /* "" when it is not known */
	int cuda_version; /* of that driver: 1000 * major + 10 * minor; 0: unknown */
};

void hostinfo__read(struct hostinfo *f);
/* Reports all capabilities that this user and this kernel lack, before the kernel refuses without a
 * reason. mech is that of --mechanism. */
int hostinfo__check_caps(enum mechanism mech);

#endif /* TRACE_HOSTINFO_H */
