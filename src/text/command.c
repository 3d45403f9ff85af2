/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "command.h"

#include <stdio.h>
#include <string.h>

void command_text(const struct trace_info *info, char *text, size_t size)
{
	const char *base;
	size_t n = 0;

	if (!info->argv || !info->argc) {
		if (info->pid_cnt == 1)
			snprintf(text, size, "process %u", info->pids[0]);
		else if (info->pid_cnt)
			snprintf(text, size, "%u processes", info->pid_cnt);
		else
			snprintf(text, size, "all processes");
		return;
	}
	base = strrchr(info->argv[0], '/');
	for (unsigned i = 0; i < info->argc && n < size; i++)
		n += (size_t)snprintf(text + n, size - n, "%s%s", i ? " " : "",
				      i	     ? info->argv[i]
				      : base ? base + 1
					     : info->argv[0]);
	if (n >= size)
		memcpy(text + size - 4, "...", 4);
}
