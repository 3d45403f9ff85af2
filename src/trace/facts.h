/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the header of a trace says of the machine. */
#ifndef TRACE_FACTS_H
#define TRACE_FACTS_H

#include "attach/probe/mechanism.h"

#include <sys/utsname.h>

struct facts {
	struct utsname uts;
	char driver[64];  /* version of the kernel driver; "" when it is not loaded */
	char boot_id[64]; /* "" when it is not known */
	int cuda_version; /* of that driver: 1000 * major + 10 * minor; 0: unknown */
};

void facts__read(struct facts *f);
/* Names all that this user and this kernel lack, before the kernel says no without a reason. mech
 * is that of --mechanism. */
int facts__check_caps(enum mechanism mech);

#endif /* TRACE_FACTS_H */
