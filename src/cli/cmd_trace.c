/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* cudatrace [COMMAND]: traces a command, processes or the system. */
#include "cmd.h"

#include "quickstart.h"
#include "trace/session.h"
#include "util/log.h"

/* With an output or a user, but without processes, every process (of that user) is traced. */
static bool has_target(const struct opts *o)
{
	for (enum sink_id s = 0; s < SINK_CNT; s++)
		if (o->trace.outputs[s].cnt)
			return true;
	return o->trace.argv || o->trace.pid_cnt || o->system || o->trace.user ||
	       o->trace.collect || o->trace.summary == TRI_ON;
}

int cmd_trace(const struct opts *o)
{
	if (o->bare)
		return quickstart__print();
	if (!has_target(o)) {
		err("no target: add a command, -p PID, or -a for every process");
		return EXIT_USAGE;
	}
	return session__run(&o->trace);
}
