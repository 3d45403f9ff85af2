/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Formats numbers for people. */
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
/* "45.2 %"; empty if whole is 0 */
void human_share(char cell[CELL_SZ], double part, double whole);
/* bytes per ns: "12.3 GB/s" (1e9), as usual for bandwidths; empty if ns is 0 */
void human_rate(char cell[CELL_SZ], double bytes, double ns);

#endif /* TEXT_NUMBERS_H */
