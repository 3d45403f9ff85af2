/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Collectives of NCCL by communicator. Those of the ranks that the trace has are joined: the same
 * communicator and number is the same collective. Of each communicator the last SLOTS are kept
 * until their place is another's; a rank that is further behind than that is behind.
 */
#ifndef REPORT_LAYERS_COMMUNICATION_PRIV_H
#define REPORT_LAYERS_COMMUNICATION_PRIV_H

#include "communication.h"

#include "report/collect.h"

#define COMMS_MAX   4096
#define THREADS_MAX 65536
#define RANKS_MAX   64 /* of a communicator, in one trace */
#define OPS_MAX	    16
#define GONE_MAX    32768 /* each is a process: twice as many */
#define SLOTS	    1024
/* Later than the first by so much is late: below it is what programs differ by anyway. */
#define LATE_NS 1000000ull
/* Alone for so long at the end is waiting. */
#define OPEN_NS 1000000000ull
/* A call below this is small. */
#define SMALL_SZ 65536

/* Calls by size: below 1 KiB, 16 KiB, ..., 256 MiB, and the rest. */
#define SIZES 6
static inline uint64_t size_below(unsigned i)
{
	return i + 1 < SIZES ? 1024ull << 4 * i : 0;
}

struct coll_op {
	uint8_t op; /* enum api_op */
	uint64_t cnt, grouped_cnt, error_cnt, unfinished_cnt;
	uint64_t bytes, host_ns, host_max_ns;
	uint64_t sizes[SIZES];
	uint64_t gpu_cnt, gpu_bytes, gpu_ns; /* of those whose time on the GPU is known */
};

struct coll_rank {
	uint32_t rank, pid;
	unsigned trace, clock;
	uint64_t first, seq; /* numbers of the first and the last that the trace has */
	bool unknown;	     /* the last had no number that is the same in all ranks */
	bool lost;	     /* calls of its trace were lost */
	uint64_t last_cnt;   /* came last, with or without being late */
	/* late_ns: the time in which another rank was in a collective that this one was last to
	 * begin; of collectives that are submitted ahead, several at once. Known until late_until.
	 */
	uint64_t late_cnt, late_ns, late_max_ns, late_max_at, late_until;
};

struct coll_slot {
	uint64_t seq; /* 0: free */
	uint64_t who; /* a bit for each of ranks */
	uint64_t first_ns, last_ns, bytes;
	uint8_t op, last_rank;
	bool differs;
};

struct coll_comm {
	uint64_t hash; /* 0: those whose communicator is not known */
	uint32_t nranks;
	struct coll_op ops[OPS_MAX];
	unsigned op_cnt;
	struct coll_rank ranks[RANKS_MAX];
	unsigned rank_cnt;
	uint64_t ranks_rejected;
	struct coll_slot *slots;
	uint64_t joined_cnt, late_cnt, differ_cnt, missed_cnt;
	bool is_apart;	       /* its ranks' times are not on one clock */
	struct coll_slot open; /* at the end: the first that not all are in */
	uint64_t open_ns;      /* how long some have waited there */
};

/* Where the GPU's time of a launch belongs: by process and id of the launch, and of the call that
 * it was made in. */
struct coll_join {
	uint64_t key, parent;
};
struct coll_call {
	uint64_t key;
	struct coll_comm *comm; /* NULL: of several kinds */
	uint32_t op;		/* index */
	uint64_t bytes;
	uint64_t outer; /* key of the call of NCCL that this one was made in; 0: none */
	bool timed;
};

struct communication {
	struct report *r;
	struct keys keys;
	struct keys gone; /* processes that have ended */
	struct keys small_threads;
	struct coll_comm **comms;
	unsigned cap;
	const struct coll_comm *job; /* from the finish on: all processes are in it; NULL: none */
	struct coll_join *launches;  /* the latest (recent_find()), as calls */
	struct coll_call *calls;
	struct communication_result res;
	struct spread late, small; /* time that ranks were late, and in small collectives */
	uint64_t gpu_cnt, gpu_ns;
};

/* communication_gpu.c */
/* false: no memory for what follows. */
bool comm_gpu_has_room(struct communication *x);
/* A call of operation op of c. Its launches have come before it, their times on the GPU come later.
 */
void comm_gpu_await(struct communication *x, const struct trace_event *ev, struct coll_comm *c,
		    unsigned op);
void comm_gpu_group_end(struct communication *x, const struct trace_event *ev);
/* A call of NCCL in another one. */
void comm_gpu_inner(struct communication *x, const struct trace_event *ev);
/* A launch, in a call of NCCL or not. Its parent is not there yet: it returns later. */
void comm_gpu_launch(struct communication *x, const struct trace_event *ev);
void comm_gpu_add(struct communication *x, const struct trace_event *ev);

/* Has one of its ranks numbers that are no other's? */
bool comm_is_partial(const struct coll_comm *c);
double coll_busbw(const struct coll_comm *c, const struct coll_op *o);

extern const struct section_table communication_table;
void communication_print(const void *a, const struct term *term);

#endif /* REPORT_LAYERS_COMMUNICATION_PRIV_H */
