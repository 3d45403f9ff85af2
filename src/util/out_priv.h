/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Shared by out.c, which writes, and out_open.c. */
#ifndef UTIL_OUT_PRIV_H
#define UTIL_OUT_PRIV_H

#include "out.h"

/* Stops all writing, and reports the reason once. */
void out_fail(struct out *o, int e);
/* To be called when o->fd is new. named: it was opened by the path o->name. */
void out_opened(struct out *o, bool named);
/* Records the end of what was written so far. */
void out_note_end(struct out *o);

#endif /* UTIL_OUT_PRIV_H */
