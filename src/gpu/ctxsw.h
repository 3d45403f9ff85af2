/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The driver's log of context switches, of each GPU: which process had the graphics and compute
 * engine from when to when. The driver is asked by a client of our own; nothing is done to the
 * processes. docs/CONTEXT_SWITCHES.md
 *
 * A wrong parameter here can write into the kernel's memory: what is passed is constant, asserted,
 * and in one place each (ctxsw.c), and versions of the driver that nobody has looked at are
 * refused.
 */
#ifndef GPU_CTXSW_H
#define GPU_CTXSW_H

#include "decode/nv/nv.h"
#include "fecs.h"
#include "rm.h"

#define CTXSW_WHY_SZ 256

/* The log of one GPU. */
struct gpu_log {
	const struct rm *rm;
	unsigned minor; /* of /dev/nvidiaN */
	char bus[16];	/* 0000:3b:00.0 */
	int fd;		/* -1: not open */
	uint32_t device, subdevice;
	uint32_t header_memory, record_memory, buffer;
	struct rm_map header, records;
	uint32_t get;	    /* the next record */
	struct fecs fecs;   /* in the GPU's time */
	int64_t offset_ns;  /* from that to CLOCK_MONOTONIC */
	uint64_t error_ns;  /* the most that the offset was uncertain by */
	uint64_t sample_ns; /* when it was asked for */
	uint64_t drop_cnt;  /* that the ring had no room for */
	bool is_broken;	    /* what the driver says makes no sense: it is not read any more */
};

struct ctxsw {
	struct rm rm;
	struct nv_abi abi;
	struct gpu_log logs[RM_CARDS];
	unsigned cnt;
};

struct ctxsw_opts {
	bool force;    /* versions of the driver that are not known, too */
	bool any_file; /* a test's stand-in for the driver */
};

/* All GPUs that we may open. 0; else why not, in words. */
int ctxsw__open(struct ctxsw *c, const struct ctxsw_opts *o, char why[CTXSW_WHY_SZ]);
void ctxsw__close(struct ctxsw *c);

/* Asks for the time, when a second has passed. */
void gpu_log__tick(struct gpu_log *l, uint64_t now);
/* The next slice that has ended, in CLOCK_MONOTONIC. False: there is none yet. */
bool gpu_log__next(struct gpu_log *l, struct fecs_slice *slice);
/* All that was logged until now can be read when it returns. */
void gpu_log__flush(struct gpu_log *l);
/* Nothing more is read: who is on the GPU now. */
bool gpu_log__rest(struct gpu_log *l, uint64_t now, struct fecs_slice *slice);
/* Records that are in no slice. */
uint64_t gpu_log__missed(const struct gpu_log *l);

#endif /* GPU_CTXSW_H */
