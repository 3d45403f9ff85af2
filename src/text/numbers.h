/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Formats numbers for people. */
#ifndef TEXT_NUMBERS_H
#define TEXT_NUMBERS_H

#include <stddef.h>
#include <stdint.h>

#include "util/plural.h"

#define CELL_SZ	 24
#define NOUNS_SZ 64

/* These functions return cell. */

/* "12,345" */
char *human_count(char cell[CELL_SZ], uint64_t n);
/* "512 B", "1.50 MiB" */
char *human_bytes(char cell[CELL_SZ], uint64_t bytes);
/* "850 ns", "1.25 µs", "12.3 ms", "3.21 s" */
char *human_time(char cell[CELL_SZ], double ns);
/* "12.3 mJ", "1.25 kJ" */
char *human_joules(char cell[CELL_SZ], double joules);
/* "45.2 %"; empty if whole is 0 */
char *human_share(char cell[CELL_SZ], double part, double whole);
/* "12,345 calls", "1 launch": word is the singular; its plural ends with "s", or "es" after "s" or
 * "h". Returns text. */
char *human_nouns(char text[NOUNS_SZ], uint64_t n, const char *word);
/* "5 processes"; if only some are ranks, "5 processes, 4 of them ranks" */
void human_processes(char *text, size_t size, uint64_t processes, uint64_t ranks);
/* bytes per ns: "12.3 GB/s" (1e9), as usual for bandwidths; empty if ns is 0 */
char *human_rate(char cell[CELL_SZ], double bytes, double ns);

/* The same as text that is valid in its block. */
#define HUMAN_CELL		 ((char[CELL_SZ]){0})
#define HUMAN_COUNT(n)		 human_count(HUMAN_CELL, n)
#define HUMAN_NOUNS(n, word)	 human_nouns((char[NOUNS_SZ]){0}, n, word)
#define HUMAN_BYTES(bytes)	 human_bytes(HUMAN_CELL, bytes)
#define HUMAN_TIME(ns)		 human_time(HUMAN_CELL, ns)
#define HUMAN_SHARE(part, whole) human_share(HUMAN_CELL, part, whole)
#define HUMAN_RATE(bytes, ns)	 human_rate(HUMAN_CELL, bytes, ns)

#endif /* TEXT_NUMBERS_H */
