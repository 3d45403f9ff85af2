/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Records of the driver's log of context switches (FECS event buffer), and the time slices in which
 * a context used the GPU's engine. Bytes in, slices out. Records are untrusted: a slice never ends
 * before it begins, slices never overlap, and missing records are counted.
 */
#ifndef GPU_FECS_H
#define GPU_FECS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The driver copies this many bytes into a slot, whatever size was set. */
#define FECS_RECORD_SZ 32

/* Process IDs in the log that stand for no process ID. */
#define FECS_PID_HIDDEN 0u /* another user's process, and cudatrace is not an administrator */
#define FECS_PID_KERNEL 0xffffffffu /* the kernel's own, or its channel no longer exists */

struct fecs_slice {
	uint64_t start, end; /* the GPU's clock, ns */
	uint32_t pid;	     /* initial namespace */
	uint32_t context;    /* number of a channel, unique in the driver; 0: redacted */
	uint64_t missed;     /* records missing between the last slice and this one */
	bool before;	     /* it began before the log: start is the log's start */
};

struct fecs {
	struct fecs_slice now; /* current slice, while runs is set; missed is for the next slice */
	bool runs;
	bool any; /* a record was handled */
	uint16_t seq;
	uint64_t latest; /* later times are invalid: the reader sets it */
	uint64_t last;	 /* time of the last record; before the first, start of the log */
	uint64_t record_cnt;
	uint64_t missed_cnt;   /* gaps in sequence numbers: dropped by the ring or the hardware */
	uint64_t bad_cnt;      /* invalid: unknown, without a time, before the last one */
	uint64_t unpaired_cnt; /* ends without a start of the same process */
};

/* begin: the GPU's time when the log was opened. */
void fecs__init(struct fecs *f, uint64_t begin);
/* Handles one record, of FECS_RECORD_SZ bytes at any address. Returns true if it ends *slice. */
bool fecs__record(struct fecs *f, const void *record, struct fecs_slice *slice);
/* Ends the log at that time. Returns true if *slice was still running. */
bool fecs__rest(struct fecs *f, uint64_t end, struct fecs_slice *slice);

#endif /* GPU_FECS_H */
