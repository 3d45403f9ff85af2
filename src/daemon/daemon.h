/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* `cudatrace daemon`: docs/DAEMON.md. */
#ifndef DAEMON_DAEMON_H
#define DAEMON_DAEMON_H

#include <stdbool.h>

#include "attach/probe/mechanism.h"
#include "config.h"

#define DAEMON_CONFIG "/etc/cudatrace/daemon.yaml"

struct daemon_opts {
	const char *config; /* file; NULL: DAEMON_CONFIG when it is there */
	const char *const *sets;
	unsigned set_cnt;
	enum mechanism mechanism;
	const char *libcuda; /* NULL: found by itself */
	bool force;	     /* attach_opts */
	bool sandbox;
};

/* The configuration that the options make; what is wrong is in errors. NULL then. */
struct config *daemon_config(const struct daemon_opts *o, struct config_errors *errors);
/* Runs until a signal ends it. Exit status. */
int daemon_run(const struct daemon_opts *o);

#endif /* DAEMON_DAEMON_H */
