/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* cudatrace top: which processes use CUDA now. All of it is in src/top/. */
#include "cmd.h"

int cmd_top(const struct opts *o)
{
	struct top_opts top = o->top_opts;

	top.json = o->trace.json;
	return top_run(&o->trace, &top);
}
