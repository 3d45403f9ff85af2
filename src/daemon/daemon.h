/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The daemon (docs/DAEMON.md): one process for all programs of a machine. */
#ifndef DAEMON_DAEMON_H
#define DAEMON_DAEMON_H

#include <stdbool.h>

#include "attach/probe/mechanism.h"
#include "config.h"

#define DAEMON_CONFIG "/etc/cudatrace/daemon.yaml"

struct daemon_opts {
	const char *config; /* file; NULL: DAEMON_CONFIG, if it exists */
	const char *const *sets;
	unsigned set_cnt;
	enum mechanism mechanism;
	const char *libcuda; /* NULL: search for it */
	bool force;	     /* attach_opts */
	bool sandbox;
};

/* Returns the configuration made from the options. NULL: errors has the reasons. */
struct config *daemon_config(const struct daemon_opts *o, struct config_errors *errors);
/* Runs until a signal ends it. Returns the exit status. */
int daemon_run(const struct daemon_opts *o);

#endif /* DAEMON_DAEMON_H */
