/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Records of the driver's log of context switches (FECS event buffer), and the slices of time that
 * they make: from when to when which context had the GPU's engine. Bytes in, slices out. Records
 * are distrusted: whatever stands in them, a slice does not end before it begins, none overlaps the
 * one before, and what is missing is counted.
 */
#ifndef GPU_FECS_H
#define GPU_FECS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The driver copies so many bytes into a slot, whatever size it was told. */
#define FECS_RECORD_SZ 32

/* A process id that the log has for who has none. */
#define FECS_PID_HIDDEN 0u	    /* another user's, and we are no administrator */
#define FECS_PID_KERNEL 0xffffffffu /* the kernel's own, or its channel is gone already */

struct fecs_slice {
	uint64_t start, end; /* the GPU's clock, ns */
	uint32_t pid;	     /* initial namespace */
	uint32_t context;    /* number of a channel, unique in the driver; 0: redacted */
	uint64_t missed;     /* records that are missing before it, since the last slice */
	bool before;	     /* it began before the log: start is when that began */
};

struct fecs {
	struct fecs_slice now; /* on the GPU, while runs is set; missed is of the next slice */
	bool runs;
	bool any; /* a record was seen */
	uint16_t seq;
	uint64_t latest; /* no record can be of a later time: the reader sets it */
	uint64_t last;	 /* time of the last record; before there is one, when the log began */
	uint64_t record_cnt;
	uint64_t missed_cnt;   /* by their numbers: dropped by the ring or the hardware */
	uint64_t bad_cnt;      /* made no sense: unknown, without a time, before the last one */
	uint64_t unpaired_cnt; /* ends whose begin is missing, or is another process's */
};

/* begin: the GPU's time when the log was opened. */
void fecs__init(struct fecs *f, uint64_t begin);
/* One record, of FECS_RECORD_SZ bytes at any address. True: *slice has ended with it. */
bool fecs__record(struct fecs *f, const void *record, struct fecs_slice *slice);
/* The log ends at that time. True: *slice is still on the GPU. */
bool fecs__rest(struct fecs *f, uint64_t end, struct fecs_slice *slice);

#endif /* GPU_FECS_H */
