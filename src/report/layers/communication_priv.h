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

#define RANKS_MAX 512 /* per communicator */
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
	bool lost;	     /* calls of its trace were lost: after the finish, or before its trace
			      * changed */
	uint32_t loss;	     /* the last one when it was added, or when its trace changed */
	uint64_t last_cnt;   /* number of times it was last, late or not */
	/* late_ns: time that another rank spent in a collective that this rank started last.
	 * late_until: end of the counted time, as collectives submitted ahead overlap. */
	uint64_t late_cnt, late_ns, late_max_ns, late_until;
};

/* A bit for each of the ranks of a communicator. */
struct coll_who {
	uint64_t bits[RANKS_MAX / 64];
};

struct coll_slot {
	uint64_t seq; /* 0: free */
	struct coll_who who;
	uint64_t first_ns, last_ns, bytes;
	uint64_t gpu_first_ns, gpu_last_ns; /* starts of its kernels, of gpu_cnt ranks */
	uint32_t gpu_cnt;
	uint16_t first_rank, last_rank; /* the first one of the trace, and the last by time */
	uint8_t op;
	bool differs;
	bool captured; /* into a graph: it did not run, and no rank waited */
};

/* The call of a rank that another one does not match. */
struct coll_side {
	uint32_t rank;
	uint8_t op;
	uint64_t bytes;
};

struct coll_comm {
	uint64_t hash; /* 0: communicator not known */
	uint32_t nranks;
	struct coll_op ops[OPS_MAX];
	unsigned op_cnt;
	struct coll_rank *ranks;
	unsigned rank_cnt, rank_cap;
	uint64_t ranks_rejected;
	struct coll_slot *slots;
	uint64_t joined_cnt, late_cnt, differ_cnt, missed_cnt;
	unsigned clock_cnt;
	bool is_apart, is_uncompared; /* some of its ranks' clocks could not be compared */
	uint64_t clock_errors_ns[2];  /* the largest of its ranks' clocks: their sum is the error */
	struct coll_slot open;	      /* at the end: the first that some ranks have not joined */
	/* The first collective that ranks call differently: that of the rank that came first in the
	 * trace, and another one. */
	uint64_t differ_seq, differ_ns; /* seq 0: none */
	struct coll_side differ[2];
	uint64_t open_ns; /* how long ranks have waited there */
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
	uint64_t seq;	/* of a group: the last one; 0: none */
	uint64_t outer; /* key of the enclosing NCCL call; 0: none */
	bool timed;
};

/* A time in which other ranks were in a collective that this process began last. After the finish:
 * an episode, of all communicators; by_ns: lateness at its first collective. */
struct coll_late {
	uint64_t from_ns, to_ns, by_ns;
	uint64_t gpu_from_ns, gpu_to_ns; /* until the finish: starts of kernels; 0: not known */
	const struct coll_comm *comm;
	uint32_t pid;
};
#define LATES_MAX (1u << 18)

/* A process whose environment has its global rank. */
struct coll_proc {
	uint32_t pid, rank;
	bool is_launcher; /* a rank of the job has the same number */
};

struct communication {
	struct report *r;
	struct keys proc_keys;
	struct coll_proc *procs;
	unsigned proc_cap;
	struct coll_late *lates; /* after the finish: by process and time */
	unsigned late_cnt, late_cap;
	struct coll_late *waits; /* the same, where known with kernels instead of calls */
	unsigned wait_cnt;
	struct keys keys;
	struct keys ended; /* processes that have ended */
	struct keys small_threads;
	struct coll_comm **comms;
	unsigned cap;
	const struct coll_comm *job; /* set at the finish: has all processes; NULL: none */
	struct coll_join *launches;  /* the latest (recent_find()); also calls */
	struct coll_call *calls;
	struct communication_result res;
	/* Losses are numbered; of each trace, the last. */
	uint32_t loss_cnt, *last_loss;
	unsigned last_loss_cap;
	struct spread late, small; /* late time of ranks; time in small collectives */
	uint64_t gpu_cnt, gpu_ns;
};

/* communication_late.c: times, episodes of the finish */
void comm_late_add(struct communication *x, const struct coll_comm *c, const struct coll_slot *s);
void comm_late_drop(struct communication *x, const struct coll_comm *c);
void comm_late_finish(struct communication *x);

/* communication_job.c: global ranks, from EVENT_JOB or communicators. The latter are known from
 * comm_find_job() on. */
void comm_add_job(struct communication *x, const struct trace_event *ev);
void comm_find_job(struct communication *x);
/* Adds the processes that share a communicator with this one, and itself. */
void comm_find_shared(const struct communication *x, uint32_t pid, struct keys *to);

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

static inline bool who_has(const struct coll_who *w, unsigned i)
{
	return w->bits[i / 64] >> i % 64 & 1;
}
/* By how much the times of two ranks may be off. */
static inline uint64_t coll_clock_error(const struct coll_comm *c)
{
	return c->clock_cnt > 1 && !c->is_apart ? c->clock_errors_ns[0] + c->clock_errors_ns[1] : 0;
}
/* Returns true if a rank's sequence numbers do not match other ranks'. */
bool comm_is_partial(const struct coll_comm *c);
double coll_busbw(const struct coll_comm *c, const struct coll_op *o);

extern const struct section_table communication_table;
void communication_print(const void *a, const struct term *term);

#endif /* REPORT_LAYERS_COMMUNICATION_PRIV_H */
