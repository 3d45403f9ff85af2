/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What systemd is told, by the protocol of sd_notify(3), and whether stderr is its journal. */
#ifndef DAEMON_NOTIFY_H
#define DAEMON_NOTIFY_H

#include <stdbool.h>

/* "READY=1", ...; does nothing when systemd does not listen. */
void notify(const char *state);
/* stderr goes to the journal, which understands priorities. */
bool notify_has_journal(void);

#endif /* DAEMON_NOTIFY_H */
