/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Notifies systemd by the protocol of sd_notify(3), and detects its journal on stderr. */
#ifndef DAEMON_NOTIFY_H
#define DAEMON_NOTIFY_H

#include <stdbool.h>

/* state: "READY=1", ...; does nothing when systemd does not listen. */
void notify(const char *state);
/* Returns whether stderr goes to the journal, which interprets priorities. */
bool notify_has_journal(void);

#endif /* DAEMON_NOTIFY_H */
