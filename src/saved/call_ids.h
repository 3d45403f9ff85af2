/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The calls that were read, by their ids: one that comes twice is counted twice by every report. */
#ifndef SAVED_CALL_IDS_H
#define SAVED_CALL_IDS_H

#include <stdbool.h>
#include <stdint.h>

/* A tracer gives ids in a row: a bit for each, in pages that are made when they are used. */
#define CALL_IDS_PAGE	   1024
#define CALL_IDS_PAGES_MAX (1u << 16)

struct call_ids;

/* NULL: no memory. */
struct call_ids *call_ids__new(void);
/* Was there such a call of this run of a tracer? From now on there was. false when there is no room
 * for more. */
bool call_ids__again(struct call_ids *c, uint64_t run, uint64_t id);
/* NULL is fine. */
void call_ids__free(struct call_ids *c);

#endif /* SAVED_CALL_IDS_H */
