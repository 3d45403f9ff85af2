/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Live: tracks the collective that each rank of this machine is in, to report ranks that wait for
 * others. Ranks are matched by communicator and sequence number, as in the report. A rank whose
 * number is unknown (seq_partial) is ignored until it is known again.
 */
#ifndef MODEL_RANKS_H
#define MODEL_RANKS_H

#include "event.h"

#include "util/hash_table.h"

#include <sys/types.h>

/* A wait is reported after this time. */
#define RANKS_HANG_NS 5000000000ull

HASH_TABLE_TYPE(rank_comm);
struct ranks {
	struct rank_comm_table by_hash;
	uid_t (*user_of)(pid_t pid); /* NULL: reader__user() */
};

/* A rank of a running process; tid: the thread that began its last collective, or created the
 * communicator. */
struct rank_who {
	uint32_t rank, pid, tid;
};
#define RANKS_WHO_MAX 8

/* What a rank calls as its collective of a number. */
struct rank_call {
	uint32_t rank, pid, tid;
	const char *op;
	uint64_t bytes;
	bool has_bytes;
};

/* A collective that some ranks have begun and others have not. over: all ranks have begun it now;
 * with lost this is unknown, because calls were dropped. differs: two ranks call different ones. */
struct rank_wait {
	uint64_t hash, seq;
	const char *op;
	bool differs;
	struct rank_call calls[2]; /* differs: the first rank's, and another's */
	uint64_t since_ns, ns;
	char in[192], missing[192];	    /* for example "0, 2 (ended)" */
	struct rank_who who[RANKS_WHO_MAX]; /* missing ranks first */
	unsigned who_cnt;
	bool over, lost;
};

/* A collective that a rank has begun; seq 0: it has created the communicator. */
struct rank_begun {
	uint64_t hash, seq;
	uint32_t rank, pid, tid;
	const char *op;
	uint64_t ns;
	bool partial; /* seq does not match other ranks */
	uint64_t bytes;
	bool has_bytes;
};
void ranks__begun(struct ranks *rs, const struct rank_begun *b);
/* Handles a call that uses or creates a communicator. */
void ranks__event(struct ranks *rs, const struct trace_event *ev);
/* Returns whether there is a communicator whose ranks could wait for each other. */
bool ranks__any(const struct ranks *rs);
/* Marks the ranks of a process as ended: they begin no more collectives, but running ranks still
 * wait for them. */
void ranks__ended(struct ranks *rs, uint32_t pid);
/* Reports dropped calls of a process (0: of any). The sequence numbers of its ranks are unknown
 * until their next collectives. */
void ranks__lost(struct ranks *rs, uint32_t pid);
/* Calls fn once for each wait of at least RANKS_HANG_NS, and once when it is over; once for the
 * first difference of a communicator. */
void ranks__look(struct ranks *rs, uint64_t now, void (*fn)(void *ctx, const struct rank_wait *w),
		 void *ctx);
/* Formats for people: "collective 4 (all_reduce) of communicator 0xabc ..." */
void rank_wait_text(const struct rank_wait *w, char *buf, size_t size);
void ranks__free(struct ranks *rs);

#endif /* MODEL_RANKS_H */
