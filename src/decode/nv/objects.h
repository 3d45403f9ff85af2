/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Which object a handle is.
 *
 * A handle means something only together with its client (hClient), and clients are numbered for
 * the whole system. Every successful RM_ALLOC, DUP and FREE is fed in; later a control on
 * 0x5c000001 can be said to go to a HOPPER_CHANNEL_GPFIFO_A. The table has a fixed number of
 * entries, made at once; when they are used up, or a process's share of them is, new objects are
 * counted, not kept. Freeing an
 * object frees what hangs below it, as RM does; freeing a client's root, or closing the file that
 * it was made on, frees all of it.
 *
 * Someone who attaches late sees handles whose allocation was never seen: an unseen client or
 * parent is made up as it is needed, without a class.
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
	uint32_t parent; /* handle; the client's own handle for what hangs below its root */
	uint32_t class;	 /* NV_CLASS_UNKNOWN: allocation not seen */
};

struct nv_objects_stats {
	unsigned live_cnt;     /* entries in use, clients included */
	unsigned max_cnt;      /* entries there are */
	uint64_t refused_cnt;  /* not kept: table full */
	uint64_t unknown_cnt;  /* lookups and frees of a handle that is not there */
	uint64_t replaced_cnt; /* handle allocated anew although not freed: a free was missed */
};

/* NULL when out of memory or max is 0. */
struct nv_objects *nv_objects__new(unsigned max);
void nv_objects__free(struct nv_objects *t);

/* A process's share of it; NULL: all. */
void nv_objects__use_quota(struct nv_objects *t, struct quota *q);
/* Whose the entries are that are made from here on. */
void nv_objects__set_process(struct nv_objects *t, uint32_t pid);
/* It has ended, and its files may be closed without anybody seeing it: its clients go. */
void nv_objects__end_process(struct nv_objects *t, uint32_t pid);

/* owner: whatever names the open file of the control device (not 0), for nv_objects__close. All
 * return 0, -ENOSPC (counted), -ENOENT (counted) or -EINVAL (an object with its client's handle).
 */
int nv_objects__add_client(struct nv_objects *t, uint64_t owner, uint32_t client, uint32_t class);
int nv_objects__add(struct nv_objects *t, uint32_t client, uint32_t parent, uint32_t handle,
		    uint32_t class);
int nv_objects__dup(struct nv_objects *t, uint32_t client, uint32_t parent, uint32_t handle,
		    uint32_t src_client, uint32_t src_handle);
int nv_objects__drop(struct nv_objects *t, uint32_t client, uint32_t handle);
/* The file was closed: its clients go without any RM_FREE. Number of clients dropped. */
unsigned nv_objects__close(struct nv_objects *t, uint64_t owner);

/* NULL (counted) when never seen. Valid until the table changes. */
const struct nv_object *nv_objects__find(struct nv_objects *t, uint32_t client, uint32_t handle);
void nv_objects__stats(const struct nv_objects *t, struct nv_objects_stats *stats);

/* What a decoded ioctl says about objects, if it succeeded: RM_ALLOC, RM_ALLOC_MEMORY,
 * RM_ALLOC_OBJECT, RM_ALLOC_CONTEXT_DMA2 (which names no client: ignored), VID_HEAP_CONTROL,
 * RM_DUP_OBJECT, RM_FREE. 0 when there was nothing to do. */
int nv_objects__apply(struct nv_objects *t, uint64_t owner, const struct nv_ioctl *io);

#endif /* DECODE_NV_OBJECTS_H */
