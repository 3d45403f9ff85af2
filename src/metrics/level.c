/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "level.h"

#include <string.h>

const char *proc_level_name(enum proc_level l)
{
	static const char *const names[LEVEL_CNT] = {"off", "metrics", "trace", "sampled"};

	return names[l];
}

int proc_level_by_name(const char *name)
{
	for (int i = 0; i < LEVEL_CNT; i++) {
		if (!strcmp(name, proc_level_name(i)))
			return i;
	}
	return -1;
}
