/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * NCCL communicators of a process: its rank in each, and the number of collectives made. Each call
 * carries a copy of the communicator's memory (struct ct_comm), which the target controls. It is
 * accepted only if it contradicts neither itself nor the call that created it.
 */
#ifndef MODEL_COMMS_H
#define MODEL_COMMS_H

#include <stdbool.h>
#include <stdint.h>

#include "util/hash_table.h"
#include "util/limits.h"

#include "ct_record.h"

struct comm {
	struct hash_link link;
	uint64_t handle;
	uint64_t hash;	       /* 0: not known */
	uint32_t rank, nranks; /* nranks 0: not known */
	uint32_t version;      /* of the library; 0: not known */
	uint64_t seq;
	uint64_t uncounted; /* part of seq that NCCL's own count excludes, such as captured ones */
	uint64_t group;	    /* last group that used it; 0: none */
	bool partial; /* it is older than the trace, or calls were dropped, and NCCL's own count has
			 not been read since: seq does not match other ranks */
};
HASH_TABLE(comm, handle);

/* The communicators of a process. */
struct comms {
	struct comm_table by_handle;
	struct quota *quota;
	struct quota_share share;
	uint32_t unnamed_cnt; /* communicators begun in a group whose handles are not known yet */
};

/* A thread that calls NCCL: its group of calls, and the kernels launched in a call. */
struct nccl_thread {
	unsigned depth;
	uint64_t id; /* ID of the call that began it */
	uint32_t calls;
	uint32_t version;     /* NCCL version of its communicators */
	uint64_t launched_in; /* ID of the call; 0: none */
	uint32_t func;	      /* NCCL's number of the function that the kernel runs */
	bool differs;	      /* kernels of this call run different functions */
	bool launches_later;  /* its last group had not been launched when its end returned */
};

/* Returns whether it looks like a communicator, and its hash and ranks are plausible. */
bool comm_is_sound(const struct ct_comm *c);

/* Adds a new communicator, replacing any old one with this handle. Returns NULL if the limit is
 * reached. */
struct comm *comms__made(struct comms *cs, uint64_t handle);
/* Returns NULL if it is unknown. */
const struct comm *comms__find(struct comms *cs, uint64_t handle);
/* Returns the communicator that a call names. An unknown one is taken to be older than the trace.
 * NULL: the limit is reached. */
struct comm *comms__get(struct comms *cs, uint64_t handle);
/* Updates c from its memory. If the hash differs, it is another communicator at the same
 * address. */
void comm__learn(struct comms *cs, struct comm *c, const struct ct_comm *mem);
/*
 * Counts a returned collective; c->seq is then its number. made: NCCL's own count of launches in
 * this communicator when the call returned; 0 if unknown. It corrects for calls that were not
 * recorded. In a group nothing has been launched yet, so only the first call of the group uses it.
 * group: ID of the group, or 0.
 */
void comm__count(struct comm *c, uint64_t made, uint64_t group);
void comms__drop(struct comms *cs, uint64_t handle);
/* Calls were dropped: the current counts are no longer valid. */
void comms__lost(struct comms *cs);
void comms__clear(struct comms *cs);

#endif /* MODEL_COMMS_H */
