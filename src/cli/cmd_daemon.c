/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* cudatrace daemon: one process for a node, implemented in src/daemon/. */
#include "cmd.h"

#include "daemon/daemon.h"

#include <stdio.h>

#include "util/log.h"
#include "util/plain.h"

static void print_key(void *ctx, const char *key, const char *val)
{
	printf("%s: %s\n", key, *val ? val : "\"\"");
}

static int check_config(const struct daemon_opts *o)
{
	struct config_errors errors = {0};
	struct config *c = daemon_config(o, &errors);

	if (!c) {
		plain_lines(stderr, errors.text);
		return 1;
	}
	config__print(c, print_key, NULL);
	config__free(c);
	return 0;
}

int cmd_daemon(const struct opts *o)
{
	const struct daemon_opts d = {
		.config = o->config,
		.sets = o->sets.v,
		.set_cnt = o->sets.cnt,
		.mechanism = o->trace.mechanism,
		.libcuda = o->trace.libcuda,
		.force = o->trace.force,
		.sandbox = o->trace.sandbox,
	};

	return o->check_config ? check_config(&d) : daemon_run(&d);
}
