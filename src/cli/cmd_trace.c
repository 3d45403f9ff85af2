/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "cmd.h"

#include "trace/session.h"

int cmd_trace(const struct opts *o)
{
	return session__run(&o->trace);
}
