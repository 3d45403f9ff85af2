/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The functions of the stand-in libnccl.so.2 that do something (libnccl.h): communicators take
 * memory and load a module, a collective launches a kernel, in a group the end of the group does,
 * one for all of the group (group.cc of 2.28.9).
 */
#include "libnccl.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ncclResult_t */
enum { SUCCESS = 0, CUDA_ERROR = 1, INVALID_ARGUMENT = 4, INVALID_USAGE = 5, IN_PROGRESS = 7 };

#define KERNEL "ncclDevKernel_AllReduce_Sum_f32_RING_LL"

struct unique_id {
	char internal[128];
};

struct comm {
	uint64_t buffer;
	void *module, *function;
};

/* ncclConfig_t, as far as it is looked at */
struct config {
	size_t size;
	unsigned magic, version;
	int blocking;
};

static __thread int group_depth, group_cnt;
static __thread struct comm *group_comm;
static __thread void *group_stream;

/* A driver function without prototype, looked up as NCCL does: by name, in what is loaded. */
static int (*driver(const char *sym))()
{
	void *lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD), *p = lib ? dlsym(lib, sym) : 0;

	if (!p) {
		fprintf(stderr, "fake libnccl: no %s\n", sym);
		abort();
	}
	dlclose(lib);
	return (int (*)())p;
}

#define ALSO(sym) extern __typeof__(sym) p##sym __attribute__((alias(#sym)))

static int comm_init(struct comm **out, int nranks, int rank)
{
	static const char image[] = ".version 6.0\n.target sm_60\n.address_size 64\n"
				    ".visible .entry " KERNEL "()\n{\n\tret;\n}\n";
	struct comm *c;

	if (!out || nranks < 1 || rank < 0 || rank >= nranks)
		return INVALID_ARGUMENT;
	c = calloc(1, sizeof(*c));
	if (!c || driver("cuMemAlloc_v2")(&c->buffer, (size_t)8192) ||
	    driver("cuModuleLoadData")(&c->module, image) ||
	    driver("cuModuleGetFunction")(&c->function, c->module, KERNEL)) {
		free(c);
		return CUDA_ERROR;
	}
	*out = c;
	return SUCCESS;
}

int ncclGetVersion(int *version)
{
	COUNT(ncclGetVersion);
	if (!version)
		return INVALID_ARGUMENT;
	*version = 22809;
	return SUCCESS;
}
ALSO(ncclGetVersion);

const char *ncclGetErrorString(int result)
{
	COUNT(ncclGetErrorString);
	return result ? "some error" : "no error";
}
ALSO(ncclGetErrorString);

int ncclCommInitRank(struct comm **comm, int nranks, struct unique_id id, int rank)
{
	COUNT(ncclCommInitRank);
	return id.internal[0] ? comm_init(comm, nranks, rank) : INVALID_ARGUMENT;
}
ALSO(ncclCommInitRank);

int ncclCommInitRankConfig(struct comm **comm, int nranks, struct unique_id id, int rank,
			   const struct config *config)
{
	int err = id.internal[0] ? comm_init(comm, nranks, rank) : INVALID_ARGUMENT;

	COUNT(ncclCommInitRankConfig);
	return !err && config && !config->blocking ? IN_PROGRESS : err;
}
ALSO(ncclCommInitRankConfig);

int ncclCommGetAsyncError(struct comm *comm, int *error)
{
	COUNT(ncclCommGetAsyncError);
	if (!comm || !error)
		return INVALID_ARGUMENT;
	*error = SUCCESS;
	return SUCCESS;
}
ALSO(ncclCommGetAsyncError);

int ncclCommDestroy(struct comm *comm)
{
	int err;

	COUNT(ncclCommDestroy);
	if (!comm)
		return INVALID_ARGUMENT;
	err = driver("cuModuleUnload")(comm->module) || driver("cuMemFree_v2")(comm->buffer);
	free(comm);
	return err ? CUDA_ERROR : SUCCESS;
}
ALSO(ncclCommDestroy);

static int launch(struct comm *comm, void *stream)
{
	return driver("cuLaunchKernel")(comm->function, 2, 1, 1, 512, 1, 1, 0, stream, NULL, NULL)
		       ? CUDA_ERROR
		       : SUCCESS;
}

int ncclAllReduce(const void *send, void *recv, size_t count, int datatype, int op,
		  struct comm *comm, void *stream)
{
	(void)op;
	COUNT(ncclAllReduce);
	if (!comm || !send || !recv || !count || datatype > 11)
		return INVALID_ARGUMENT;
	if (!group_depth)
		return launch(comm, stream);
	group_cnt++;
	group_comm = comm;
	group_stream = stream;
	return SUCCESS;
}
ALSO(ncclAllReduce);

int ncclGroupStart(void)
{
	COUNT(ncclGroupStart);
	group_depth++;
	return SUCCESS;
}
ALSO(ncclGroupStart);

int ncclGroupEnd(void)
{
	COUNT(ncclGroupEnd);
	if (!group_depth)
		return INVALID_USAGE;
	if (--group_depth || !group_cnt)
		return SUCCESS;
	group_cnt = 0;
	return launch(group_comm, group_stream);
}
ALSO(ncclGroupEnd);

__attribute__((destructor)) static void write_counts(void)
{
	static const char *const names[] = {
#define FN(sym, cls, op, since, args) #sym,
#include "nccl_functions.def"
	};
	const char *path = getenv("FAKE_CUDA_COUNTS");
	char text[FN_CNT * 64];
	size_t len = 0;
	int fd;

	if (!path || !*path || strstr(path, "%p"))
		return;
	for (unsigned i = 0; i < FN_CNT; i++)
		if (fake_nccl_counts[i])
			len += snprintf(text + len, sizeof(text) - len, "%s %llu\n", names[i],
					(unsigned long long)fake_nccl_counts[i]);
	fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
	if (fd < 0 || write(fd, text, len) != (ssize_t)len)
		perror("fake libnccl: FAKE_CUDA_COUNTS");
	if (fd >= 0)
		close(fd);
}
