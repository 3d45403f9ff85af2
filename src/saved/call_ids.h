/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The ids of the calls that were read. Without them, reports would count a call twice if it is read
 * twice. */
#ifndef SAVED_CALL_IDS_H
#define SAVED_CALL_IDS_H

#include <stdbool.h>
#include <stdint.h>

/* A tracer assigns ids in sequence: each id is a bit in a page that is allocated on first use. */
#define CALL_IDS_PAGE	   1024
#define CALL_IDS_PAGES_MAX (1u << 16)

struct call_ids;

/* Returns NULL when out of memory. */
struct call_ids *call_ids__new(void);
/* Returns whether this id was already added for this run of a tracer, and adds it. Returns false
 * when there is no space for more ids. */
bool call_ids__again(struct call_ids *c, uint64_t run, uint64_t id);
/* c may be NULL. */
void call_ids__free(struct call_ids *c);

#endif /* SAVED_CALL_IDS_H */
