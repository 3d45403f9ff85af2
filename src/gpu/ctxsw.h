/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The driver's log of context switches of each GPU: which process used the graphics and compute
 * engine, and when. A client of cudatrace's own queries the driver; the processes are not touched.
 * See docs/CONTEXT_SWITCHES.md.
 *
 * A wrong parameter here can make the driver write into kernel memory. So parameters are constant,
 * asserted, and in one place each (ctxsw.c), and unexamined driver versions are refused.
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
	uint32_t get;	    /* index of the next record */
	struct fecs fecs;   /* in the GPU's clock */
	int64_t offset_ns;  /* from the GPU's clock to CLOCK_MONOTONIC */
	uint64_t error_ns;  /* maximum uncertainty of offset_ns */
	uint64_t sample_ns; /* when the offset was measured */
	uint64_t drop_cnt;  /* records dropped because the ring was full */
	bool is_broken;	    /* the driver's data is invalid: it is not read any more */
};

struct ctxsw {
	struct rm rm;
	struct nv_abi abi;
	struct gpu_log logs[RM_CARDS];
	unsigned cnt;
};

struct ctxsw_opts {
	bool force;    /* also use unknown versions of the driver */
	bool any_file; /* tests: accept a mock of the driver */
};

/* Opens the logs of all accessible GPUs. Returns 0; else non-zero with the reason in why. */
int ctxsw__open(struct ctxsw *c, const struct ctxsw_opts *o, char why[CTXSW_WHY_SZ]);
void ctxsw__close(struct ctxsw *c);

/* Measures the clock offset again, if a second has passed. */
void gpu_log__tick(struct gpu_log *l, uint64_t now);
/* Gets the next slice that has ended, in CLOCK_MONOTONIC. Returns false if there is none yet. */
bool gpu_log__next(struct gpu_log *l, struct fecs_slice *slice);
/* Flushes the log: everything logged until now can then be read. */
void gpu_log__flush(struct gpu_log *l);
/* At the end of reading, gets the slice that is still running. */
bool gpu_log__rest(struct gpu_log *l, uint64_t now, struct fecs_slice *slice);
/* Returns the number of records missing from all slices. */
uint64_t gpu_log__missed(const struct gpu_log *l);

#endif /* GPU_CTXSW_H */
