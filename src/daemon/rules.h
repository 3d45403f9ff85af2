/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Finds a process's level: the first rule of the configuration that matches it. */
#ifndef DAEMON_RULES_H
#define DAEMON_RULES_H

#include <sys/types.h>

#include "config.h"
#include "metrics/labels.h"

struct rule_subject {
	uid_t uid;
	const char *comm;    /* name of the process */
	const char *command; /* its command line, blanks between the words */
	const struct labels *labels;
};

/* NULL: none matches, the default level applies. */
const struct rule *rules__find(const struct config *c, const struct rule_subject *s);
/* Matches a pattern of `command` with the name, the command line (not with name_only), its first
 * word, or that word's last part. */
bool rule_command_matches(const char *pattern, bool name_only, const char *comm,
			  const char *command);

#endif /* DAEMON_RULES_H */
