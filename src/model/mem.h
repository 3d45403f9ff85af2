/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Live memory of one process: which ranges it holds and how much of each kind. */
#ifndef MODEL_MEM_H
#define MODEL_MEM_H

#include "contexts.h"
#include "event.h"

#include "util/quota.h"

struct mem {
	void *ranges;	/* tsearch tree by address */
	void *physical; /* tsearch tree by handle: cuMemCreate, arrays */
	struct contexts ctx;
	uint64_t bytes[MEM_KIND_CNT];
	struct quota *quota; /* of ranges; NULL: as many as there are */
	struct quota_share share;
	uint64_t in_ctx; /* of the call at hand */
	/* Ranges that had to make room for younger ones, whose free is still to come: its call has
	 * begun before superseded_ns. */
	uint64_t superseded_cnt, superseded_ns;
	/* What there was no room for: it is in bytes, and a free of an unknown address takes away
	 * what one of them has on average. */
	struct {
		uint64_t cnt, bytes;
	} loose[MEM_KIND_CNT];
};

/* end_ns: when the call that made it returned. */
void mem__alloc(struct mem *m, enum mem_kind kind, uint64_t addr, uint64_t size, uint64_t end_ns);
/* Forgets the range that begins at addr; false when there is none, or when it is younger than the
 * call that frees, which began at start_ns: threads race, and another may have been given the
 * address before this call's record came. *size: its bytes. */
bool mem__free(struct mem *m, uint64_t addr, uint64_t start_ns, uint64_t *size);
/* Physical memory (cuMemCreate, cuMemRelease) and arrays are known by handle, not by address. */
void mem__create(struct mem *m, uint64_t handle, uint64_t size, uint64_t end_ns);
bool mem__release(struct mem *m, uint64_t handle, uint64_t start_ns, uint64_t *size);
/* A call of any type that may return an address of device memory that is not counted here: mapped,
 * imported, or a variable of a module. It is remembered, so that mem__kind_at() knows it. */
void mem__learn(struct mem *m, const struct trace_event *ev);
/* Kind of the range that addr lies in (MEM_NONE: one of mem__learn()), or -1: not known. */
int mem__kind_at(const struct mem *m, uint64_t addr);
/* What a call of type init, context or memory, live or saved, does to it: fills ev->mem, and the
 * size of what it frees. */
void mem__event(struct mem *m, struct trace_event *ev);
void mem__totals(const struct mem *m, struct mem_totals *out);
void mem__clear(struct mem *m);

#endif /* MODEL_MEM_H */
