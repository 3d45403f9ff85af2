/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Reads all rows of a BPF hash table. */
#ifndef ATTACH_MAP_ROWS_H
#define ATTACH_MAP_ROWS_H

#include <stddef.h>

/*
 * Calls fn once for each row of a BPF hash table; fn may delete the row. Rows that others add or
 * delete meanwhile are passed once or not at all. BPF_MAP_GET_NEXT_KEY is not used: it restarts
 * when its key has been deleted, so that rows repeat, and it takes two system calls per row.
 */
void map_rows__each(int fd, size_t key_sz, size_t val_sz,
		    void (*fn)(void *ctx, const void *key, const void *val), void *ctx);

#endif /* ATTACH_MAP_ROWS_H */
