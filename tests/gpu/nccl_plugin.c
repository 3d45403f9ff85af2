/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A profiler plugin of NCCL (2.27 and later: the fourth version of that interface), which records
 * each collective with NCCL's own data when it is launched:
 *
 *   gcc -shared -fPIC -o nccl_plugin.so nccl_plugin.c
 *   NCCL_PROFILER_PLUGIN=$PWD/nccl_plugin.so NCCL_CALLS=FILE python3 ...
 *
 * FILE.PID has a line for each: communicator, rank, sequence number of its kind, function, count,
 * type, algorithm, protocol. tests/gpu/nccl.py --check-plugin compares a trace with them.
 */
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Kinds of events, bits. */
enum { COLLECTIVE = 2 };

/* NCCL's description of an event that begins. Other kinds have other members here. */
struct event {
	uint8_t kind;
	void *parent;
	int rank;
	uint64_t number;
	const char *function;
	const void *send;
	void *recv;
	size_t count;
	int root;
	const char *type;
	uint8_t channels, warps;
	const char *algorithm, *protocol;
};
_Static_assert(offsetof(struct event, number) == 24 && offsetof(struct event, protocol) == 96,
	       "NCCL's");

struct plugin {
	const char *name;
	int (*init)(void **context, int *kinds, const char *comm_name, uint64_t hash, int nodes,
		    int ranks, int rank, void *log);
	int (*start)(void *context, void **handle, struct event *ev);
	int (*stop)(void *handle);
	int (*state)(void *handle, int state, void *args);
	int (*finalize)(void *context);
};

struct comm {
	uint64_t hash;
	int rank;
};

static int fd = -1;

static int init(void **context, int *kinds, const char *comm_name, uint64_t hash, int nodes,
		int ranks, int rank, void *log)
{
	const char *file = getenv("NCCL_CALLS");
	struct comm *c = malloc(sizeof(*c));
	char path[4096];

	(void)comm_name, (void)nodes, (void)ranks, (void)log;
	if (!c || !file)
		return 2; /* ncclSystemError */
	if (fd < 0) {
		snprintf(path, sizeof(path), "%s.%d", file, getpid());
		fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
	}
	*c = (struct comm){hash, rank};
	*context = c;
	*kinds = COLLECTIVE;
	return 0;
}

static int start(void *context, void **handle, struct event *ev)
{
	const struct comm *c = context;
	char line[256];
	int len;

	*handle = NULL;
	if (ev->kind != COLLECTIVE)
		return 0;
	len = snprintf(line, sizeof(line), "0x%llx %d %llu %s %zu %s %s %s\n",
		       (unsigned long long)c->hash, c->rank, (unsigned long long)ev->number,
		       ev->function, ev->count, ev->type, ev->algorithm, ev->protocol);
	if (len > 0 && (size_t)len < sizeof(line) && write(fd, line, len) != len)
		perror("nccl_plugin");
	return 0;
}

static int stop(void *handle)
{
	(void)handle;
	return 0;
}

static int state(void *handle, int new_state, void *args)
{
	(void)handle, (void)new_state, (void)args;
	return 0;
}

static int finalize(void *context)
{
	free(context);
	return 0;
}

__attribute__((visibility("default"))) struct plugin ncclProfiler_v4 = {"calls", init,	start,
									stop,	 state, finalize};
