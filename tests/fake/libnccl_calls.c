/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The mock's collectives: each launches a kernel; in a group the outermost end launches one for
 * each communicator (group.cc of 2.28.9). With one rank nothing is launched. The kernel's arguments
 * match NCCL's as far as cudatrace reads them: the number of the device function, as in 2.24 to
 * 2.28 for float32. Below 64 KiB the protocol is LL, else SIMPLE.
 */
#include "libnccl.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MANY	   64
#define SMALL_SZ   65536
#define TYPE_CNT   12
#define FUNC_SHIFT 17

/* For LL; ring with SIMPLE is two higher. */
enum {
	ALL_GATHER = 3,
	ALL_REDUCE = 258,
	BROADCAST = 342,
	REDUCE = 432,
	REDUCE_SCATTER = 618,
	SEND_RECV = 669,
};

struct part {
	struct comm *comm;
	void *stream;
	unsigned func;
};

static __thread struct {
	int depth;
	unsigned part_cnt, job_cnt;
	struct part parts[MANY];
	struct comm_job jobs[MANY];
} group;

/* ncclDevKernelArgs, the part that is used */
struct kernel_args {
	void *dev_comm;
	uint64_t channel_mask;
	uint32_t storage_type, work_mask;
	void *work_buf;
	uint32_t batch;
};
_Static_assert(offsetof(struct kernel_args, batch) == 32, "NCCL's");

static unsigned counted_as(unsigned func)
{
	switch (func) {
	case BROADCAST:
		return COUNTED_BROADCAST;
	case REDUCE:
		return COUNTED_REDUCE;
	case ALL_GATHER:
		return COUNTED_ALL_GATHER;
	case REDUCE_SCATTER:
		return COUNTED_REDUCE_SCATTER;
	case ALL_REDUCE:
		return COUNTED_ALL_REDUCE;
	default:
		return COUNTED;
	}
}

/* Uses an instruction like NCCL's (attach/find/comm_layout.h). */
static void count_one(struct comm *c, uint64_t i)
{
#ifdef __x86_64__
	__asm__ volatile("lock addq $1, %c2(%0, %1, 8)"
			 :
			 : "r"(c), "r"(i), "i"(offsetof(struct comm, made))
			 : "memory", "cc");
#else
	__atomic_fetch_add(&c->made[i], 1, __ATOMIC_RELAXED);
#endif
}

static void count(struct comm *c)
{
	for (unsigned i = 0; i < COUNTED; i++)
		for (; c->asked[i]; c->asked[i]--)
			count_one(c, i);
}

static int launch(const struct part *p)
{
	struct kernel_args args = {.channel_mask = 3, .batch = p->func << FUNC_SHIFT};
	size_t size = sizeof(args);
	void *extra[] = {(void *)1, &args, (void *)2, &size, NULL};

	if (p->comm->nranks == 1)
		return SUCCESS;
	count(p->comm);
	return fake_driver("cuLaunchKernel")(p->comm->function, 2, 1, 1, 512, 1, 1, 0, p->stream,
					     NULL, extra)
		       ? CUDA_ERROR
		       : SUCCESS;
}

/* In a group one launch serves all requests of a communicator: the kernel of the first. */
static int add(const struct part *p)
{
	if (!group.depth)
		return launch(p);
	for (unsigned i = 0; i < group.part_cnt; i++)
		if (group.parts[i].comm == p->comm)
			return SUCCESS;
	if (group.part_cnt == MANY)
		return INVALID_USAGE;
	group.parts[group.part_cnt++] = *p;
	return SUCCESS;
}

/* Like while ranks connect: FAKE_NCCL_BLOCK_MS in each collective. */
static void block(void)
{
	const char *ms = getenv("FAKE_NCCL_BLOCK_MS");

	if (ms)
		usleep(atoi(ms) * 1000);
}

static int of_live(unsigned func, const void *buff, size_t count, int type, int rank,
		   struct comm *comm, void *stream)
{
	static const unsigned char sizes[TYPE_CNT] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
	int err;

	if (!buff || !count || type < 0 || type >= TYPE_CNT || rank < 0 || rank >= comm->nranks)
		return INVALID_ARGUMENT;
	if (counted_as(func) < COUNTED)
		comm->asked[counted_as(func)]++;
	if (func != SEND_RECV && count * sizes[type] >= SMALL_SZ)
		func += 2;
	block();
	err = add(&(struct part){comm, stream, func});
	return err || comm->blocking ? err : IN_PROGRESS;
}

static int collective(unsigned func, const void *buff, size_t count, int type, int rank,
		      struct comm *comm, void *stream)
{
	int err = INVALID_ARGUMENT;

	if (comm_use(comm)) {
		err = of_live(func, buff, count, type, rank, comm, stream);
		comm_done();
	}
	return err;
}

#define REDUCES(name, func, root, ...)                                                             \
	int name(const void *send, void *recv, size_t count, int type, int op, ##__VA_ARGS__,      \
		 struct comm *comm, void *stream)                                                  \
	{                                                                                          \
		(void)send, (void)op;                                                              \
		COUNT(name);                                                                       \
		return collective(func, recv, count, type, root, comm, stream);                    \
	}                                                                                          \
	ALSO(name);
#define MOVES(name, func, root, ...)                                                               \
	int name(const void *send, void *recv, size_t count, int type, ##__VA_ARGS__,              \
		 struct comm *comm, void *stream)                                                  \
	{                                                                                          \
		(void)send;                                                                        \
		COUNT(name);                                                                       \
		return collective(func, recv, count, type, root, comm, stream);                    \
	}                                                                                          \
	ALSO(name);
#define GOES(name)                                                                                 \
	int name(void *buff, size_t count, int type, int peer, struct comm *comm, void *stream)    \
	{                                                                                          \
		COUNT(name);                                                                       \
		return collective(SEND_RECV, buff, count, type, peer, comm, stream);               \
	}                                                                                          \
	ALSO(name);

REDUCES(ncclAllReduce, ALL_REDUCE, 0)
REDUCES(ncclReduceScatter, REDUCE_SCATTER, 0)
REDUCES(ncclReduce, REDUCE, root, int root)
MOVES(ncclAllGather, ALL_GATHER, 0)
MOVES(ncclAlltoAll, SEND_RECV, 0)
MOVES(ncclBroadcast, BROADCAST, root, int root)
MOVES(ncclGather, SEND_RECV, root, int root)
MOVES(ncclScatter, SEND_RECV, root, int root)
/* Like in NCCL, it calls another collective. */
int ncclBcast(void *buff, size_t count, int type, int root, struct comm *comm, void *stream)
{
	COUNT(ncclBcast);
	if (!comm)
		return INVALID_ARGUMENT; /* before it calls anything: tests/cases/nccl.c knows of
					    none */
	return ncclBroadcast(buff, buff, count, type, root, comm, stream);
}
ALSO(ncclBcast);
GOES(ncclSend)
GOES(ncclRecv)

bool group_takes(const struct comm_job *job)
{
	if (!group.depth || group.job_cnt == MANY)
		return false;
	group.jobs[group.job_cnt++] = *job;
	return true;
}

int ncclGroupStart(void)
{
	COUNT(ncclGroupStart);
	group.depth++;
	return SUCCESS;
}
ALSO(ncclGroupStart);

PUSHES int ncclGroupEnd(void)
{
	int ret = SUCCESS, err;

	COUNT(ncclGroupEnd);
	if (!group.depth)
		return INVALID_USAGE;
	if (--group.depth)
		return SUCCESS;
	for (unsigned i = 0; i < group.job_cnt; i++) {
		err = comm_make(&group.jobs[i]);
		ret = ret ? ret : err;
	}
	for (unsigned i = 0; i < group.part_cnt; i++) {
		err = launch(&group.parts[i]);
		ret = ret ? ret : err ? err : group.parts[i].comm->blocking ? SUCCESS : IN_PROGRESS;
	}
	group.job_cnt = group.part_cnt = 0;
	return ret;
}
ALSO(ncclGroupEnd);
