/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Maps handles to objects.
 *
 * A handle is unique only together with its client (hClient), and clients are numbered for the
 * whole system. The caller adds every successful RM_ALLOC, DUP and FREE; later a control on
 * 0x5c000001 can be attributed to a HOPPER_CHANNEL_GPFIFO_A. The table has a fixed number of
 * entries, allocated at once. When they, or a process's share of them, are used up, new objects are
 * counted, not stored. Freeing an object frees its descendants, as in RM. Freeing a client's root,
 * or closing the file that it was created on, frees all of its objects.
 *
 * If cudatrace attaches late, the allocation of some handles was not recorded: an unknown client or
 * parent is then created as needed, without a class.
 */
#ifndef DECODE_NV_OBJECTS_H
#define DECODE_NV_OBJECTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct nv_ioctl;
struct nv_objects;
struct quota;

#define NV_CLASS_UNKNOWN UINT32_MAX

struct nv_object {
	uint32_t client, handle;
	uint32_t parent; /* handle; the client's own handle for children of its root */
	uint32_t class;	 /* NV_CLASS_UNKNOWN: allocation not recorded */
};

struct nv_objects_stats {
	unsigned live_cnt;     /* entries in use, clients included */
	unsigned max_cnt;      /* number of entries */
	uint64_t refused_cnt;  /* rejected: table full */
	uint64_t unknown_cnt;  /* lookups and frees of an unknown handle */
	uint64_t replaced_cnt; /* handle allocated again before it was freed: a free was missed */
};

/* Returns NULL if out of memory or max is 0. */
struct nv_objects *nv_objects__new(unsigned max);
void nv_objects__free(struct nv_objects *t);

/* Sets the quota for a process's share; NULL: no limit per process. */
void nv_objects__use_quota(struct nv_objects *t, struct quota *q);
/* Sets the process that owns entries created from here on. */
void nv_objects__set_process(struct nv_objects *t, uint32_t pid);
/* The process has ended, and the closing of its files may have no record: drops its clients. */
void nv_objects__end_process(struct nv_objects *t, uint32_t pid);

/* owner: identifies the open file of the control device (not 0), for nv_objects__close. All return
 * 0, -ENOSPC (counted), -ENOENT (counted) or -EINVAL (an object with its client's handle). */
int nv_objects__add_client(struct nv_objects *t, uint64_t owner, uint32_t client, uint32_t class);
int nv_objects__add(struct nv_objects *t, uint32_t client, uint32_t parent, uint32_t handle,
		    uint32_t class);
int nv_objects__dup(struct nv_objects *t, uint32_t client, uint32_t parent, uint32_t handle,
		    uint32_t src_client, uint32_t src_handle);
int nv_objects__drop(struct nv_objects *t, uint32_t client, uint32_t handle);
/* The file was closed: drops its clients, which need no RM_FREE. Returns the number of clients
 * dropped. */
unsigned nv_objects__close(struct nv_objects *t, uint64_t owner);

/* Returns NULL (counted) if the handle is unknown. Valid until the table changes. */
const struct nv_object *nv_objects__find(struct nv_objects *t, uint32_t client, uint32_t handle);
void nv_objects__stats(const struct nv_objects *t, struct nv_objects_stats *stats);

/* Applies a decoded ioctl to the objects, if it succeeded: RM_ALLOC, RM_ALLOC_MEMORY,
 * RM_ALLOC_OBJECT, RM_ALLOC_CONTEXT_DMA2 (which contains no client: ignored), VID_HEAP_CONTROL,
 * RM_DUP_OBJECT, RM_FREE. Returns 0 if there was nothing to do. */
int nv_objects__apply(struct nv_objects *t, uint64_t owner, const struct nv_ioctl *io);

#endif /* DECODE_NV_OBJECTS_H */
