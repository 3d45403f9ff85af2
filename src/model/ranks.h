/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Live: which rank of this machine is in which collective, to say so while one waits for another.
 * Ranks are joined by communicator and number, as the report does it afterwards; one whose number
 * is not known (seq_partial) is waited for, and waits, when it is again.
 */
#ifndef MODEL_RANKS_H
#define MODEL_RANKS_H

#include "event.h"

#include <sys/types.h>

/* A rank is waited for from then on. */
#define RANKS_HANG_NS 5000000000ull

struct rank_comm;
struct ranks {
	struct rank_comm *by_hash;
	uid_t (*user_of)(pid_t pid); /* NULL: reader__user() */
};

/* A rank whose process lives; tid: who began its last collective, or made the communicator. */
struct rank_who {
	uint32_t rank, pid, tid;
};
#define RANKS_WHO_MAX 8

/* A collective that some ranks have begun and others have not. over: all have now, or with lost,
 * that is not known, for calls were lost. */
struct rank_wait {
	uint64_t hash, seq;
	const char *op;
	uint64_t since_ns, ns;
	char in[192], missing[192];	    /* "0, 2 (ended)" */
	struct rank_who who[RANKS_WHO_MAX]; /* those that are missing first */
	unsigned who_cnt;
	bool over, lost;
};

/* A collective that a rank has begun; seq 0: it has made the communicator. */
struct rank_begun {
	uint64_t hash, seq;
	uint32_t rank, pid, tid;
	const char *op;
	uint64_t ns;
	bool partial; /* seq is no other rank's */
};
void ranks__begun(struct ranks *rs, const struct rank_begun *b);
/* Of a call on a communicator, or one that made it. */
void ranks__event(struct ranks *rs, const struct trace_event *ev);
/* Is there a communicator of which ranks could wait for each other? */
bool ranks__any(const struct ranks *rs);
/* Its ranks come to no collective any more: they are waited for all the same, by those that live.
 */
void ranks__ended(struct ranks *rs, uint32_t pid);
/* Calls of that process were lost, or, with 0, of any: the sequence numbers of its ranks are not
 * known until their next collectives. */
void ranks__lost(struct ranks *rs, uint32_t pid);
/* Each wait that is RANKS_HANG_NS old is given once, and once when it is over. */
void ranks__look(struct ranks *rs, uint64_t now, void (*fn)(void *ctx, const struct rank_wait *w),
		 void *ctx);
/* For people: "collective 4 (all_reduce) of communicator 0xabc: ..." */
void rank_wait_text(const struct rank_wait *w, char *buf, size_t size);
void ranks__free(struct ranks *rs);

#endif /* MODEL_RANKS_H */
