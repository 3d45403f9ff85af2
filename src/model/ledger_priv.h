/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Shared by ledger.c and ledger_call.c: the end of a process's pools. */
#ifndef MODEL_LEDGER_PRIV_H
#define MODEL_LEDGER_PRIV_H

#include "ledger.h"

void ledger_pools_clear(struct ledger *l);

#endif /* MODEL_LEDGER_PRIV_H */
