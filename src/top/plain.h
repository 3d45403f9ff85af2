/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A table, as text or as a line of JSON, on stdout. */
#ifndef TOP_PLAIN_H
#define TOP_PLAIN_H

#include "stats.h"

/* 0, or -errno when it cannot be written. */
int top_print(const struct top_stats *r, bool json);

#endif /* TOP_PLAIN_H */
