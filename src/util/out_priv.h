/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Shared by out.c, which writes, and out_open.c. */
#ifndef UTIL_OUT_PRIV_H
#define UTIL_OUT_PRIV_H

#include "out.h"

/* What was allocated; ends the process where that is nothing. */
void *out_must(void *p);
/* Nothing more is written: says why, once. */
void out_fail(struct out *o, int e);
/* o->fd is a file, or something else, that is new to o. named: o->name leads to it. */
void out_opened(struct out *o, bool named);
/* What is written ends here, for now. */
void out_note_end(struct out *o);

#endif /* UTIL_OUT_PRIV_H */
