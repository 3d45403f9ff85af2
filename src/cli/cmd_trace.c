/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "cmd.h"

#include <unistd.h>

#include "here.h"
#include "trace/session.h"

int cmd_trace(const struct opts *o)
{
	if (o->bare && isatty(STDOUT_FILENO) && !here__can_trace())
		return here__print();
	return session__run(&o->trace);
}
