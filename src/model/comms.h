/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Communicators of NCCL of a process: who is it in them, and how many collectives it has made. What
 * lies in their memory comes with each call (struct ct_comm) and is the target's: a communicator is
 * believed when it contradicts neither itself nor the call that made it.
 */
#ifndef MODEL_COMMS_H
#define MODEL_COMMS_H

#include <stdbool.h>
#include <stdint.h>

#include <uthash.h>

#include "util/quota.h"

#include "ct_record.h"

struct comm {
	uint64_t handle;
	uint64_t hash;	       /* 0: not known */
	uint32_t rank, nranks; /* nranks 0: not known */
	uint32_t version;      /* of the library; 0: not known */
	uint64_t seq;
	uint64_t uncounted; /* of seq: captured ones and others that NCCL's own count leaves out */
	uint64_t group;	    /* that it was used in last; 0: none */
	bool partial; /* it was there before the trace, or calls were lost, and NCCL's own count
			 has not been seen since: seq is no other's */
	UT_hash_handle hh;
};

/* Of a process. */
struct comms {
	struct comm *by_handle;
	struct quota *quota;
	struct quota_share share;
	uint32_t unnamed_cnt; /* that were begun, in a group, and whose handles were not seen yet */
};

/* Of a thread that calls NCCL: its group of calls, and what was launched in a call of it. */
struct nccl_thread {
	unsigned depth;
	uint64_t id; /* of the call that began it */
	uint32_t calls;
	uint32_t version;     /* of the library that its communicators are of */
	uint64_t launched_in; /* id of the call; 0: of none */
	uint32_t func;	      /* NCCL's number of what the kernel runs */
	bool differs;	      /* kernels of this call run different ones */
	bool launches_later;  /* its last group had not been launched when its end returned */
};

/* Does it look like one, and can its hash and ranks be taken for true? */
bool comm_is_sound(const struct ct_comm *c);

/* One that has just been made, whatever had its handle before. NULL: there is no room. */
struct comm *comms__made(struct comms *cs, uint64_t handle);
/* One that is known; NULL: it is not. */
const struct comm *comms__find(struct comms *cs, uint64_t handle);
/* One that a call names; what is not known was there before the trace. NULL: no room. */
struct comm *comms__get(struct comms *cs, uint64_t handle);
/* What its memory says. Another hash: it is another communicator at the same address. */
void comm__learn(struct comms *cs, struct comm *c, const struct ct_comm *mem);
/*
 * One more collective of it has returned; its number is c->seq then. made: NCCL's own count of what
 * it has launched in this communicator, when the call returned; 0: not known. It sets right what
 * was not seen. In a group nothing has been launched yet, so only the first call of it counts what
 * was before; group: the group's id, or 0.
 */
void comm__count(struct comm *c, uint64_t made, uint64_t group);
void comms__drop(struct comms *cs, uint64_t handle);
/* Calls were lost: what was counted until now is counted no further. */
void comms__lost(struct comms *cs);
void comms__clear(struct comms *cs);

#endif /* MODEL_COMMS_H */
