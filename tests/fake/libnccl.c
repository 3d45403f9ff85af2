/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The mock's communicators: they allocate memory and load a module, inside a group at its
 * end. */
#include "libnccl.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MAGIC 0x0280028002800280ull

struct unique_id {
	char internal[128];
};

/* ncclConfig_t, the part that is used */
struct config {
	size_t size;
	unsigned magic, version;
	int blocking;
};

int (*fake_driver(const char *sym))()
{
	void *lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD), *p = lib ? dlsym(lib, sym) : 0;

	if (!p) {
		fprintf(stderr, "fake libnccl: no %s\n", sym);
		abort();
	}
	dlclose(lib);
	return (int (*)())p;
}

/* Equal for equal bytes, in every process. */
static uint64_t hash_of(uint64_t from, const void *data, size_t len)
{
	for (size_t i = 0; i < len; i++)
		from = from * 33 ^ ((const uint8_t *)data)[i];
	return from;
}

/* Live communicators. */
static pthread_rwlock_t live_lock = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;
static struct comm *live[64];

static struct comm **live_at(const struct comm *comm)
{
	for (unsigned i = 0; i < sizeof(live) / sizeof(*live); i++)
		if (live[i] == comm)
			return &live[i];
	return NULL;
}

static bool live_put(struct comm *was, struct comm *now)
{
	struct comm **at;

	pthread_rwlock_wrlock(&live_lock);
	at = live_at(was);
	if (at)
		*at = now;
	pthread_rwlock_unlock(&live_lock);
	return at;
}

bool comm_use(const struct comm *comm)
{
	pthread_rwlock_rdlock(&live_lock);
	if (comm && live_at(comm))
		return true;
	pthread_rwlock_unlock(&live_lock);
	return false;
}

void comm_done(void)
{
	pthread_rwlock_unlock(&live_lock);
}

int comm_make(const struct comm_job *job)
{
	static const char image[] = ".version 6.0\n.target sm_60\n.address_size 64\n"
				    ".visible .entry " KERNEL "()\n{\n\tret;\n}\n";
	/* NCCL's are so large that they are separate mappings. */
	struct comm *c =
		mmap(NULL, sizeof(*c), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	/* Uses as much of the stack as the CUDA runtime, which NCCL initializes, and more. */
	volatile char deep[64 << 10];

	if (c == MAP_FAILED)
		return CUDA_ERROR;
	deep[0] = deep[sizeof(deep) - 1] = 0;
	if (fake_driver("cuMemAlloc_v2")(&c->buffer, (size_t)8192) ||
	    fake_driver("cuModuleLoadData")(&c->module, image) ||
	    fake_driver("cuModuleGetFunction")(&c->function, c->module, KERNEL)) {
		munmap(c, sizeof(*c));
		return CUDA_ERROR;
	}
	c->magic = MAGIC;
	c->hash = job->hash;
	c->rank = job->rank;
	c->nranks = job->nranks;
	c->blocking = job->blocking;
	if (!live_put(NULL, c))
		return CUDA_ERROR;
	*job->out = c;
	return job->blocking ? SUCCESS : IN_PROGRESS;
}

static int init(struct comm **out, int nranks, uint64_t hash, int rank, int blocking)
{
	struct comm_job job = {out, hash, rank, nranks, blocking};

	if (!out || nranks < 1 || rank < 0 || rank >= nranks)
		return INVALID_ARGUMENT;
	*out = NULL;
	return group_takes(&job) ? SUCCESS : comm_make(&job);
}

PUSHES int ncclGetVersion(int *version)
{
	const char *said = getenv("FAKE_NCCL_VERSION");

	COUNT(ncclGetVersion);
	if (!version)
		return INVALID_ARGUMENT;
	*version = 22809;
	if (said)
		*version = atoi(said);
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
	return id.internal[0] ? init(comm, nranks, hash_of(5381, &id, sizeof(id)), rank, 1)
			      : INVALID_ARGUMENT;
}
ALSO(ncclCommInitRank);

int ncclCommInitRankConfig(struct comm **comm, int nranks, struct unique_id id, int rank,
			   const struct config *config)
{
	COUNT(ncclCommInitRankConfig);
	return id.internal[0] ? init(comm, nranks, hash_of(5381, &id, sizeof(id)), rank,
				     !config || config->blocking)
			      : INVALID_ARGUMENT;
}
ALSO(ncclCommInitRankConfig);

int ncclCommInitAll(struct comm **comms, int cnt, const int *devices)
{
	int err = comms && cnt > 0 ? SUCCESS : INVALID_ARGUMENT;

	(void)devices;
	COUNT(ncclCommInitAll);
	for (int i = 0; i < cnt && !err; i++)
		err = init(&comms[i], cnt, 0xa11, i, 1);
	return err;
}
ALSO(ncclCommInitAll);

/* NCCL's ranks exchange which ranks have the same color: here the color is the new communicator,
 * and the key is the rank in it, of two. */
int ncclCommSplit(struct comm *comm, int color, int key, struct comm **out,
		  const struct config *config)
{
	COUNT(ncclCommSplit);
	if (!comm)
		return INVALID_ARGUMENT;
	return init(out, 2, hash_of(comm->hash, &color, sizeof(color)), key,
		    !config || config->blocking);
}
ALSO(ncclCommSplit);

int ncclCommGetAsyncError(struct comm *comm, int *error)
{
	COUNT(ncclCommGetAsyncError);
	if (!comm || !error)
		return INVALID_ARGUMENT;
	*error = SUCCESS;
	return SUCCESS;
}
ALSO(ncclCommGetAsyncError);

/* Loads with different displacements, as in NCCL. */
int ncclCommUserRank(const struct comm *comm, int *rank)
{
	COUNT(ncclCommUserRank);
	if (!comm || !rank)
		return INVALID_ARGUMENT;
	*rank = comm->rank;
	return SUCCESS;
}
ALSO(ncclCommUserRank);

int ncclCommCount(const struct comm *comm, int *count)
{
	COUNT(ncclCommCount);
	if (!comm || !count)
		return INVALID_ARGUMENT;
	*count = comm->nranks;
	return SUCCESS;
}
ALSO(ncclCommCount);

int ncclCommCuDevice(const struct comm *comm, int *device)
{
	COUNT(ncclCommCuDevice);
	if (!comm || !device)
		return INVALID_ARGUMENT;
	*device = comm->device;
	return SUCCESS;
}
ALSO(ncclCommCuDevice);

static int destroy(struct comm *comm)
{
	int err;

	if (!comm || !live_put(comm, NULL))
		return INVALID_ARGUMENT;
	err = fake_driver("cuModuleUnload")(comm->module) ||
	      fake_driver("cuMemFree_v2")(comm->buffer);
	munmap(comm, sizeof(*comm));
	return err ? CUDA_ERROR : SUCCESS;
}

int ncclCommAbort(struct comm *comm)
{
	COUNT(ncclCommAbort);
	return destroy(comm);
}
ALSO(ncclCommAbort);

int ncclCommDestroy(struct comm *comm)
{
	COUNT(ncclCommDestroy);
	return destroy(comm);
}
ALSO(ncclCommDestroy);

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
