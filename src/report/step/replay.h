/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Predicts the time of a step if something cost less. */
#ifndef REPORT_STEP_REPLAY_H
#define REPORT_STEP_REPLAY_H

#include <stddef.h>
#include <stdbool.h>
#include <stdint.h>

enum step_change_kind {
	CHANGE_NOTHING,	     /* the trace as it is: shows how exact the replay is */
	CHANGE_HOST,	     /* host time outside waits times factor */
	CHANGE_GPU,	     /* GPU time times factor */
	CHANGE_KERNEL,	     /* GPU time of kernels whose name contains name, times factor */
	CHANGE_PLANS,	     /* no time in calls that build plans */
	CHANGE_DROP,	     /* no time in calls of function name, nor in what they execute */
	CHANGE_CACHE,	     /* no host time in calls of function name */
	CHANGE_NO_WAIT,	     /* calls of function name return at once */
	CHANGE_PINNED,	     /* copies from or to pageable memory use pinned memory */
	CHANGE_OVERLAP,	     /* copies to a device run beside other work */
	CHANGE_BEFORE,	     /* time between calls before calls of function name, times factor */
	CHANGE_BATCH,	     /* calls of function name that follow one another are one */
	CHANGE_FUSE,	     /* consecutive launches of kernels whose names contain name are one */
	CHANGE_GRAPH,	     /* a step is one CUDA graph; with a name: each range of this name */
	CHANGE_OVERLAP_COMM, /* no other work waits for NCCL's kernels */
	CHANGE_ON_TIME,	     /* no rank waits for rank */
	CHANGE_GAPS,	     /* no time before intervals of this gap; not in --what-if */
	CHANGE_TOPIC,	     /* what enum step_topic says; not in --what-if */
	CHANGE_UNTRACED,     /* recorded calls have no overhead */
};

#define CHANGE_NAME 128
#define CHANGES_MAX 8

struct step_change {
	enum step_change_kind kind;
	double factor;
	uint32_t rank;	/* global */
	uint32_t pid;	/* of CHANGE_ON_TIME, if it is not 0: instead of rank */
	unsigned gap;	/* enum step_gap_kind */
	unsigned topic; /* enum step_topic */
	char name[CHANGE_NAME];
	char text[CHANGE_NAME + 16]; /* as the user wrote it */
};

/* Reads one change of --what-if: "host=0.5", "cache:cudnnBackendFinalize". Returns false if it is
 * none. */
bool step_change_read(const char *text, size_t len, struct step_change *c);

#endif /* REPORT_STEP_REPLAY_H */
