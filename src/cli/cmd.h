/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The verbs, one file each. They return the exit status of cudatrace. */
#ifndef CLI_CMD_H
#define CLI_CMD_H

#include "opts.h"

/* No verb: trace. */
int cmd_trace(const struct opts *o);
/* cudatrace list: the API table. Needs no privileges. */
int cmd_list(const struct opts *o);
/* cudatrace check: what this kernel, this user and these drivers allow. */
int cmd_check(const struct opts *o);
/* cudatrace report: what saved traces say. Needs no privileges. */
int cmd_report(const struct opts *o);
/* cudatrace diff: what changed between two saved traces. */
int cmd_diff(const struct opts *o);
/* cudatrace daemon: traces the whole node, until it is ended. */
int cmd_daemon(const struct opts *o);
/* cudatrace ctl: asks it. */
int cmd_ctl(const struct opts *o);

#endif /* CLI_CMD_H */
