// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "cli/cmd.h"
#include "util/log.h"

/* A standard descriptor that is closed would become something of ours, which the trace or a message
 * is then written into. In its place one that takes nothing. */
static void plug_standard_fds(void)
{
	int fd;

	do
		fd = open("/dev/null", O_RDONLY);
	while (fd >= 0 && fd <= STDERR_FILENO);
	if (fd >= 0)
		close(fd);
}

int main(int argc, char **argv)
{
	static struct opts o;

	plug_standard_fds();
	opts__parse(&o, argc, argv);
	log_set_level(o.quiet ? LOG_WARN : o.verbose ? LOG_DEBUG : LOG_INFO);
	switch (o.verb) {
	case VERB_LIST:
		return cmd_list(&o);
	case VERB_CHECK:
		return cmd_check(&o);
	case VERB_DIFF:
		return cmd_diff(&o);
	case VERB_REPORT:
		return cmd_report(&o);
	case VERB_DAEMON:
		return cmd_daemon(&o);
	case VERB_CTL:
		return cmd_ctl(&o);
	case VERB_TRACE:
		return cmd_trace(&o);
	}
	return EXIT_FAILURE;
}
