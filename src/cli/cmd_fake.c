/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* cudatrace fake: runs a command on the mock CUDA driver. */
#include "cmd.h"

#include "trace/session_opts.h"
#include "util/log.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXIT_NO_EXEC 127

/* Where the mock driver is, from the folder of this program: as built, and as installed. */
static const char *const places[] = {"fake", "../lib/cudatrace/fake"};

/* Finds the folder of the mock driver. */
static bool find_folder(char *path, size_t size)
{
	char own[4096], file[4352];
	ssize_t len = readlink("/proc/self/exe", own, sizeof(own) - 1);

	if (len <= 0)
		return false;
	own[len] = '\0';
	*strrchr(own, '/') = '\0';
	for (unsigned i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		snprintf(path, size, "%s/%s", own, places[i]);
		snprintf(file, sizeof(file), "%s/libcuda.so.1", path);
		if (!access(file, R_OK))
			return true;
	}
	return false;
}

int cmd_fake(const struct opts *o)
{
	const char *old = getenv("LD_LIBRARY_PATH");
	char folder[4200], *all;

	if (!o->trace.argv) {
		err("COMMAND is missing; give a program to run, as in cudatrace fake -- ./program");
		return EXIT_USAGE;
	}
	if (!find_folder(folder, sizeof(folder))) {
		err("the mock driver libcuda.so.1 is not in ../lib/cudatrace/fake beside this program: "
		    "run make install, or install the Debian package");
		return EXIT_FAILURE;
	}
	if (asprintf(&all, "%s%s%s", folder, old && *old ? ":" : "", old ?: "") < 0 ||
	    setenv("LD_LIBRARY_PATH", all, 1) || setenv("CUDATRACE_FAKE", "1", 1)) {
		err("out of memory: close other programs");
		return EXIT_FAILURE;
	}
	execvp(o->trace.argv[0], o->trace.argv);
	err("cannot run %s: %s", o->trace.argv[0], strerror(errno));
	return EXIT_NO_EXEC;
}
