/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * nccl STEP...: the ways in which a program can use NCCL. -DPLUGIN: builds plugin.so, a library
 * linked to NCCL; -DLINKED: builds a program linked to NCCL.
 *
 *   driver    loads the driver
 *   init      makes a context, and memory in it
 *   early     NCCL's version, through the plugin or the program
 *   load      loads the plugin
 *   run       calls of the plugin, or of the program
 *   names     NCCL's functions by dlsym(), and calls
 *   path=FILE the same with another file
 *   unload    closes what was loaded
 *   thread    goes on in another thread
 *   alone     goes on in another thread, and ends this one
 *   storm     threads that load copies of the plugin, plugin0.so and on, call it and close them
 *   race      calls of a thread with communicators that another destroys meanwhile
 *   fork      goes on in a child, and then in this process
 *   ready     prints "ready"; makes calls until a pointer to a function of NCCL is NCCL's own
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

struct unique_id {
	char internal[128];
};

#if defined(PLUGIN) || defined(LINKED)
int ncclGetVersion(int *version);
int pncclGetVersion(int *version);
int ncclCommInitRank(void **comm, int nranks, struct unique_id id, int rank);
int ncclCommDestroy(void *comm);
int ncclGroupStart(void);
int ncclGroupEnd(void);
int ncclAllReduce(const void *send, void *recv, size_t count, int type, int op, void *comm,
		  void *stream);
int ncclBcast(void *buff, size_t count, int type, int root, void *comm, void *stream);

static int (*const table[])(int *) = {ncclGetVersion, pncclGetVersion};

int early(void)
{
	int version = 0;

	return ncclGetVersion(&version) || version != 22809;
}

/* The file of the function that a pointer leads to. */
const char *whose(void)
{
	int (*volatile fn)(int *) = ncclGetVersion;
	Dl_info info;

	return dladdr((void *)fn, &info) && info.dli_fname ? info.dli_fname : "nobody's";
}

int run(void *p)
{
	struct unique_id id = {"n"};
	void *comm = NULL;
	int version = 0, err;

	err = table[0](&version) || table[1](&version) || version != 22809 ||
	      ncclCommInitRank(&comm, 2, id, 1) || ncclGroupStart() ||
	      ncclAllReduce(p, p, 1024, 7, 0, comm, NULL) || ncclGroupEnd() ||
	      ncclBcast(p, 20000, 7, 0, comm, NULL);
	return ncclCommDestroy(comm) || err || !ncclAllReduce(p, p, 1, 7, 0, NULL, NULL);
}
#endif

#ifndef PLUGIN
#define STORM_THREADS 8
#define STORM_LOADS   50
#define RACES	      2000
#define RACE_CALLS    10 /* of one communicator, about */

static void *context, *buffer, *plugin, *nccl;
static char **steps;
static int (*cu_init)(unsigned), (*cu_retain)(void **, int), (*cu_set)(void *);
static int (*cu_alloc)(void **, size_t);

static void must(int ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "nccl: %s\n", what);
	exit(1);
}

static void *load(const char *path)
{
	void *lib = dlopen(path, RTLD_NOW);

	must(lib != NULL, path);
	return lib;
}

static void driver(void)
{
	void *cuda = load("libcuda.so.1");

	cu_init = (int (*)(unsigned))dlsym(cuda, "cuInit");
	cu_retain = (int (*)(void **, int))dlsym(cuda, "cuDevicePrimaryCtxRetain");
	cu_set = (int (*)(void *))dlsym(cuda, "cuCtxSetCurrent");
	cu_alloc = (int (*)(void **, size_t))dlsym(cuda, "cuMemAlloc_v2");
	must(cu_init && cu_retain && cu_set && cu_alloc, "libcuda.so.1");
}

static void init(void)
{
	must(!cu_init(0) && !cu_retain(&context, 0) && !cu_set(context) &&
		     !cu_alloc(&buffer, 1 << 20),
	     "init");
}

static void names(const char *path)
{
	struct unique_id id = {"d"};
	void *comm = NULL;
	int version = 0;

	nccl = load(path);
	must(!((int (*)(int *))dlsym(nccl, "ncclGetVersion"))(&version), "version");
	if (!buffer)
		return;
	must(!((int (*)(void **, int, struct unique_id, int))dlsym(nccl, "pncclCommInitRank"))(
		     &comm, 2, id, 0),
	     "comm");
	must(!((int (*)(void *, size_t, int, int, void *, void *))dlsym(nccl, "ncclBcast"))(
		     buffer, 8, 7, 0, comm, NULL),
	     "bcast");
	must(!((int (*)(void *))dlsym(nccl, "ncclCommDestroy"))(comm), "destroy");
}

#ifdef LINKED
static void *own(const char *name)
{
	return !strcmp(name, "run")	? (void *)run
	       : !strcmp(name, "early") ? (void *)early
					: (void *)whose;
}
#else
static void *own(const char *name)
{
	void *p = dlsym(plugin, name);

	must(p != NULL, name);
	return p;
}
#endif

static void until_own(void)
{
	const char *(*whose)(void) = own("whose");
	int (*run)(void *) = own("run");

	must(!strstr(whose(), "libnccl"), "is not traced");
	printf("ready\n");
	fflush(stdout);
	for (; !strstr(whose(), "libnccl"); usleep(1000))
		must(!run(buffer), "run");
	must(!run(buffer), "run");
}

static void *go_on(void *arg);

static void in_thread(void)
{
	pthread_t t;

	must(!pthread_create(&t, NULL, go_on, NULL) && !pthread_join(t, NULL), "thread");
}

static void *go_on_alone(void *first)
{
	must(!pthread_join(*(pthread_t *)first, NULL), "join");
	return go_on(NULL);
}

static void alone(void)
{
	static pthread_t self, other;

	self = pthread_self();
	must(!pthread_create(&other, NULL, go_on_alone, &self), "thread");
	pthread_exit(NULL);
}

static void *load_often(void *number)
{
	char name[32];

	snprintf(name, sizeof(name), "plugin%d.so", (int)(long)number);
	for (int i = 0; i < STORM_LOADS; i++) {
		void *copy = load(name);
		int (*fn)(void) = (int (*)(void))dlsym(copy, "early");

		must(fn && !fn() && !dlclose(copy), name);
	}
	return NULL;
}

static void storm(void)
{
	pthread_t threads[STORM_THREADS];

	for (long i = 0; i < STORM_THREADS; i++)
		must(!pthread_create(&threads[i], NULL, load_often, (void *)i), "thread");
	for (int i = 0; i < STORM_THREADS; i++)
		must(!pthread_join(threads[i], NULL), "thread");
}

/* One thread makes calls with it all the time; another makes and destroys it. */
static void *shared_comm;
static unsigned shared_cnt, used_cnt; /* usually at the same address */

static void *reduce_often(void *reduce)
{
	int (*fn)(void *, void *, size_t, int, int, void *, void *) = reduce;
	unsigned cnt, done = 0;
	void *comm;

	must(!cu_set(context), "context");
	while (cnt = __atomic_load_n(&shared_cnt, __ATOMIC_ACQUIRE),
	       (comm = __atomic_load_n(&shared_comm, __ATOMIC_ACQUIRE)) != MAP_FAILED) {
		int err = comm ? fn(buffer, buffer, 8, 7, 0, comm, NULL) : 0;

		/* The mock refuses a destroyed one: invalid argument. */
		must(!err || err == 4, "reduce");
		__atomic_store_n(&used_cnt, cnt, __ATOMIC_RELEASE);
		if (!err && ++done % RACE_CALLS)
			continue;
		while (__atomic_load_n(&shared_cnt, __ATOMIC_ACQUIRE) == cnt)
			sched_yield();
	}
	return NULL;
}

static void race(void)
{
	int (*init)(void **, int, struct unique_id, int);
	int (*ends[2])(void *);
	struct unique_id id = {"r"};
	pthread_t thread;
	void *comm;

	nccl = load("libnccl.so.2");
	init = (int (*)(void **, int, struct unique_id, int))dlsym(nccl, "ncclCommInitRank");
	ends[0] = (int (*)(void *))dlsym(nccl, "ncclCommAbort");
	ends[1] = (int (*)(void *))dlsym(nccl, "pncclCommDestroy");
	must(!pthread_create(&thread, NULL, reduce_often, dlsym(nccl, "ncclAllReduce")), "thread");
	for (int i = 0; i < RACES; i++) {
		must(!init(&comm, 2, id, 0), "comm");
		__atomic_store_n(&shared_comm, comm, __ATOMIC_RELEASE);
		__atomic_add_fetch(&shared_cnt, 1, __ATOMIC_RELEASE);
		while (__atomic_load_n(&used_cnt, __ATOMIC_ACQUIRE) != shared_cnt)
			sched_yield();
		for (volatile int n = 0; n < i * 37 % 10000; n++)
			;
		must(!ends[i % 2](comm), "end");
	}
	__atomic_store_n(&shared_comm, MAP_FAILED, __ATOMIC_RELEASE);
	__atomic_add_fetch(&shared_cnt, 1, __ATOMIC_RELEASE);
	must(!pthread_join(thread, NULL), "thread");
}

static void in_child(void)
{
	int status;
	pid_t pid = fork();

	if (!pid) {
		go_on(NULL);
		exit(0);
	}
	must(waitpid(pid, &status, 0) == pid && !status, "child");
}

static void *go_on(void *arg)
{
	while (*steps) {
		const char *s = *steps++;

		if (!strcmp(s, "driver"))
			driver();
		else if (!strcmp(s, "init"))
			init();
		else if (!strcmp(s, "early"))
			must(!((int (*)(void))own("early"))(), "early");
		else if (!strcmp(s, "load"))
			plugin = load("plugin.so");
		else if (!strcmp(s, "run"))
			must(!((int (*)(void *))own("run"))(buffer), "run");
		else if (!strcmp(s, "names"))
			names("libnccl.so.2");
		else if (!strncmp(s, "path=", 5))
			names(s + 5);
		else if (!strcmp(s, "unload"))
			must((!plugin || !dlclose(plugin)) && (!nccl || !dlclose(nccl)), "unload");
		else if (!strcmp(s, "thread"))
			in_thread();
		else if (!strcmp(s, "alone"))
			alone();
		else if (!strcmp(s, "storm"))
			storm();
		else if (!strcmp(s, "race"))
			race();
		else if (!strcmp(s, "fork"))
			in_child();
		else if (!strcmp(s, "ready"))
			until_own();
		else
			must(0, s);
	}
	return arg;
}

int main(int argc, char **argv)
{
	steps = argv + 1;
	go_on(NULL);
	return 0;
}
#endif
