/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * NCCL collectives by communicator. Collectives of different ranks are the same if communicator and
 * sequence number match. The last SLOTS are kept for each communicator; a rank that is further
 * behind counts as missing.
 */
#ifndef REPORT_LAYERS_COMMUNICATION_PRIV_H
#define REPORT_LAYERS_COMMUNICATION_PRIV_H

#include "communication.h"

#include "report/collect.h"

#define RANKS_MAX 64 /* per communicator */
#define OPS_MAX	  16
#define GONE_MAX  32768 /* each row is a process: the table holds twice as many */
#define SLOTS	  1024
/* A rank is late if it starts this long after the first; smaller differences are normal. */
#define LATE_NS 1000000ull
/* A collective that is incomplete for this long at the end is hanging. */
#define OPEN_NS 1000000000ull
/* A smaller call is a small one. */
#define SMALL_SZ 65536

/* Size classes: below 1 KiB, 16 KiB, ..., 256 MiB, and the rest. */
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
	uint64_t gpu_cnt, gpu_bytes, gpu_ns; /* only calls with known GPU time */
};

struct coll_rank {
	uint32_t rank, pid;
	unsigned trace, clock;
	uint64_t first, seq; /* first and last sequence number in the trace */
	bool unknown;	     /* the last one had no sequence number valid in all ranks */
	bool lost;	     /* calls of its trace were lost */
	uint64_t last_cnt;   /* number of times it came last, late or not */
	/* late_ns: time that another rank spent in a collective that this rank started last.
	 * late_until: end of the counted time, as collectives submitted ahead overlap. */
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
	uint64_t hash; /* 0: communicator not known */
	uint32_t nranks;
	struct coll_op ops[OPS_MAX];
	unsigned op_cnt;
	struct coll_rank ranks[RANKS_MAX];
	unsigned rank_cnt;
	uint64_t ranks_rejected;
	struct coll_slot *slots;
	uint64_t joined_cnt, late_cnt, differ_cnt, missed_cnt;
	bool is_apart;	       /* its ranks have different clocks */
	struct coll_slot open; /* at the end: the first that some ranks have not joined */
	uint64_t open_ns;      /* how long ranks have waited there */
};

/* Assigns the GPU time of a launch, by process and id of the launch and of the enclosing call. */
struct coll_join {
	uint64_t key, parent;
};
struct coll_call {
	uint64_t key;
	struct coll_comm *comm; /* NULL: several kinds */
	uint32_t op;		/* index */
	uint64_t bytes;
	uint64_t outer; /* key of the enclosing NCCL call; 0: none */
	bool timed;
};

struct communication {
	struct report *r;
	struct keys keys;
	struct keys gone; /* processes that have ended */
	struct keys small_threads;
	struct coll_comm **comms;
	unsigned cap;
	const struct coll_comm *job; /* set at the finish: has all processes; NULL: none */
	struct coll_join *launches;  /* the latest (recent_find()); also calls */
	struct coll_call *calls;
	struct communication_result res;
	struct spread late, small; /* late time of ranks; time in small collectives */
	uint64_t gpu_cnt, gpu_ns;
};

/* communication_gpu.c */
/* Allocates the tables of the functions below. Returns false if out of memory. */
bool comm_gpu_has_room(struct communication *x);
/* Registers a call of operation op of c. Its launches came before it, their GPU times come
 * later. */
void comm_gpu_await(struct communication *x, const struct trace_event *ev, struct coll_comm *c,
		    unsigned op);
void comm_gpu_group_end(struct communication *x, const struct trace_event *ev);
/* Registers an NCCL call nested in another one. */
void comm_gpu_inner(struct communication *x, const struct trace_event *ev);
/* Registers a launch, inside or outside an NCCL call. Its parent returns later. */
void comm_gpu_launch(struct communication *x, const struct trace_event *ev);
void comm_gpu_add(struct communication *x, const struct trace_event *ev);

/* Returns true if a rank's sequence numbers do not match other ranks'. */
bool comm_is_partial(const struct coll_comm *c);
double coll_busbw(const struct coll_comm *c, const struct coll_op *o);

extern const struct section_table communication_table;
void communication_print(const void *a, const struct term *term);

#endif /* REPORT_LAYERS_COMMUNICATION_PRIV_H */
