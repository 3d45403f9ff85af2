/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The start of the program: safe standard descriptors, then the verb of the command line. */
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "cli/verbs.h"
#include "util/inherited.h"
#include "util/clock.h"
#include "util/log.h"
#include "util/privs.h"
#include "util/relay.h"
#include "util/safe_close.h"

/* A closed standard descriptor would be reused for a file of ours, into which the trace or a
 * message would then be written. Opens one that accepts nothing in its place. It stays closed for
 * programs that we start. */
static void plug_standard_fds(void)
{
	int fd;

	do
		fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	while (fd >= 0 && fd <= STDERR_FILENO);
	if (fd >= 0)
		close(fd);
}

/* The setuid bit would give its users root's rights in all we do: the command would run as root. */
static bool is_setuid(void)
{
	return getuid() != geteuid() || getgid() != getegid();
}

int main(int argc, char **argv)
{
	static struct opts o;
	const struct verb_row *verb;
	int ret;

	plug_standard_fds();
	if (is_setuid()) {
		err("this program is setuid or setgid, which allows its users more than tracing: "
		    "run chmod ug-s, and use sudo or setcap (docs/SECURITY.md)");
		return EXIT_FAILURE;
	}
	if (!inherited_raise_stack()) {
		err("the hard limit of the stack is below 256 KiB: raise it (ulimit -Hs)");
		return EXIT_FAILURE;
	}
	privs_lower();
	opts__parse(&o, argc, argv);
	verb = verb_row(o.verb);
	/* File capabilities of this program are for tracing only. */
	if (!(verb->flags & VERB_RIGHTS) || o.check_config)
		privs_drop();
	privs_raise();
	log_set_level(o.trace.quiet ? LOG_WARN : o.verbose ? LOG_DEBUG : LOG_INFO);
	/* This program may be the entry point of a container. */
	if (o.trace.argv)
		relay_as_init();
	if (!clock__open())
		warn("cannot read the offset of the time namespace of cudatrace: times may be "
		     "wrong by that offset");
	ret = verb->run(&o);
	safe_close__stop();
	return ret;
}
