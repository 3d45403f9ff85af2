// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <stdlib.h>

#include "cli/cmd.h"
#include "util/log.h"

int main(int argc, char **argv)
{
	static struct opts o;

	opts__parse(&o, argc, argv);
	log_set_level(o.quiet ? LOG_WARN : o.verbose ? LOG_DEBUG : LOG_INFO);
	switch (o.verb) {
	case VERB_LIST:
		return cmd_list(&o);
	case VERB_CHECK:
		return cmd_check(&o);
	case VERB_TRACE:
		return cmd_trace(&o);
	}
	return EXIT_FAILURE;
}
