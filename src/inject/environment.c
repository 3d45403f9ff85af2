/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Environment of a program that is to load the library. */
#include "inject_priv.h"

#include "util/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char inject_env[] = "CUDA_INJECTION64_PATH", preload_env[] = "LD_PRELOAD";

/* Keeps the previous value: after ours if first, else before it. */
static void set_list(const char *name, const char *value, char between, bool first)
{
	const char *was = getenv(name);
	char *list;

	if (!was || !*was) {
		setenv(name, value, 1);
	} else if (asprintf(&list, "%s%c%s", first ? value : was, between, first ? was : value) >=
		   0) {
		setenv(name, list, 1);
		free(list);
	}
}

/* NVIDIA's profilers refuse to start if the driver loads another tool. */
static bool is_profiler(const char *program)
{
	static const char *const names[] = {"ncu", "nsys", "nv-nsight-cu-cli", "nvprof"};
	const char *slash = program ? strrchr(program, '/') : NULL;

	for (unsigned i = 0; program && i < sizeof(names) / sizeof(*names); i++)
		if (!strcmp(slash ? slash + 1 : program, names[i]))
			return true;
	return false;
}

static void set_injection(const struct inject *in, const char *program)
{
	const char *chain = getenv(inject_env);

	if (is_profiler(program)) {
		info("the driver loads %s itself: cudatrace's library is only preloaded", program);
		return;
	}
	/* Another tool that also has to be loaded. */
	if (chain && *chain && !strstr(chain, "libcudatrace-inject"))
		setenv(CT_ENV_CHAIN, chain, 1);
	setenv(inject_env, in->library, 1);
}

void inject__set_env(const struct inject *in, const char *program)
{
	char cnt[16];

	setenv(CT_ENV_SOCKET, in->socket_name, 1);
	snprintf(cnt, sizeof(cnt), "%u", inject__filters(getpid()));
	setenv(CT_ENV_FILTERS, cnt, 1);
	/* With probes, these record what cannot connect. */
	if (in->lost_path && !in->o.probes)
		setenv(CT_ENV_LOST, in->lost_path, 1);
	set_injection(in, program);
	/* gcc's ASan ends the program if it is not the first library. It need not be, because ours
	 * calls nothing that it replaces. clang's does not check. */
	set_list("ASAN_OPTIONS", "verify_asan_link_order=0", ':', false);
	set_list(preload_env, in->library, ':', true);
}
