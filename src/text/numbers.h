/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Numbers as people read them. */
#ifndef TEXT_NUMBERS_H
#define TEXT_NUMBERS_H

#include <stdint.h>

#include "util/plural.h"

#define CELL_SZ 24

/* "12,345" */
void human_count(char cell[CELL_SZ], uint64_t n);
/* "512 B", "1.50 MiB" */
void human_bytes(char cell[CELL_SZ], uint64_t bytes);
/* "850 ns", "1.25 µs", "12.3 ms", "3.21 s" */
void human_time(char cell[CELL_SZ], double ns);
/* "45.2 %"; nothing when there is no whole */
void human_share(char cell[CELL_SZ], double part, double whole);
/* bytes in ns: "12.3 GB/s" (1e9), as bandwidths are given; nothing when ns is 0 */
void human_rate(char cell[CELL_SZ], double bytes, double ns);

#endif /* TEXT_NUMBERS_H */
