/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Steps whose costs are known, on the mock driver: steps COUNT WORD... A word is
 * [TIMES*][@]VERB[:ARGUMENT[:STREAM]]; stream 0 is the legacy default stream, and 1 is taken if
 * none is given; @: another thread does it, while the first one waits for that. Words before "loop"
 * are executed once. For each step a line is written when all are done: when it began, and what it
 * took, and what its words took by verb, in ns.
 *
 *   host:US         work of the program, without calls
 *   kernel:NAME     launch of a kernel
 *   graph:NAME      launch of a CUDA graph, which "capture" has made
 *   capture:NAME    a graph of 20 of these kernels, in place of the last one
 *   after:STREAM    the word's stream waits for what the other one has been given
 *   wait, wait_event, wait_all  for the stream; for an event that is recorded in it; for the GPU
 *   copy:KIB, pageable:KIB      to the GPU, from pinned memory, or from other memory
 *   fetch:KIB       from the GPU, without a stream
 *   pooled, alloc, free, load, query, plan
 *   push:NAME, pop  an NVTX range
 *   reduce:COUNT    all-reduce of floats by NCCL
 */
#ifdef DNN
#include <unistd.h>

/* A library with the function of cuDNN that builds plans. */
__attribute__((noinline)) int cudnnBackendFinalize(void *descriptor)
{
	(void)descriptor;
	return usleep(PLAN_US);
}
#else
#include "cases/case.h"
#include "nvtx/client.h"

#include <semaphore.h>

#define WORDS 64
#define NODES 20
#define BYTES (4ull << 20)

static struct word {
	const char *verb, *arg;
	long times, stream;
	bool is_other;
} words[WORDS];
static unsigned word_cnt, first;

static handle module, streams[4], event, exec, comm, dnn, nccl, functions[WORDS];
static dptr memory, block;
static char *pinned, *pageable;

struct step {
	uint64_t begin_ns, end_ns, ns[WORDS];
};

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static void sleep_us(uint64_t us)
{
	uint64_t until = now_ns() + us * 1000;

	if (us > 200)
		usleep(us - 100);
	while (now_ns() < until)
		;
}

static void launch(handle f, handle stream)
{
	dptr a = 0;
	uint32_t n = 0;
	void *params[] = {&a, &n};

	must("cuLaunchKernel", F(cuLaunchKernel)(f, 8, 1, 1, 128, 1, 1, 0, stream, params, NULL),
	     0);
}

static handle function(unsigned i)
{
	if (!functions[i])
		must("cuModuleGetFunction",
		     F(cuModuleGetFunction)(&functions[i], module, words[i].arg), 0);
	return functions[i];
}

static void capture(handle f, handle stream)
{
	handle graph;

	must("cuStreamBeginCapture", F(cuStreamBeginCapture_v2)(stream, 0), 0);
	for (int i = 0; i < NODES; i++)
		launch(f, stream);
	must("cuStreamEndCapture", F(cuStreamEndCapture)(stream, &graph), 0);
	if (exec)
		F(cuGraphExecDestroy)(exec);
	must("cuGraphInstantiate", F(cuGraphInstantiateWithFlags)(&exec, graph, 0ull), 0);
	F(cuGraphDestroy)(graph);
}

static void reduce(uint64_t cnt, handle stream)
{
	struct {
		char of[128];
	} id = {"steps"};
	typeof(int(void **, int, typeof(id), int)) *init;

	if (!comm) {
		nccl = dlopen("libnccl.so.2", RTLD_NOW);
		init = dlsym(nccl, "ncclCommInitRank");
		must("ncclCommInitRank", init(&comm, 2, id, 0), 0);
	}
	must("ncclAllReduce",
	     ((int (*)())dlsym(nccl, "ncclAllReduce"))(memory, memory, cnt, 7, 0, comm, stream), 0);
}

static void run(unsigned i)
{
	const struct word *w = &words[i];
	handle s = streams[w->stream];
	uint64_t n = w->arg ? strtoull(w->arg, NULL, 0) : 0;
	uint32_t type;
	int r = 0;

#define IS(name) (!strcmp(w->verb, name))
	if (IS("host"))
		sleep_us(n);
	else if (IS("kernel"))
		launch(function(i), s);
	else if (IS("capture"))
		capture(function(i), s);
	else if (IS("graph"))
		r = F(cuGraphLaunch)(exec, s);
	else if (IS("after"))
		r = F(cuEventRecord)(event, streams[n]) | F(cuStreamWaitEvent)(s, event, 0);
	else if (IS("wait"))
		r = F(cuStreamSynchronize)(s);
	else if (IS("wait_event"))
		r = F(cuEventRecord)(event, s) | F(cuEventSynchronize)(event);
	else if (IS("wait_all"))
		r = F(cuCtxSynchronize)();
	else if (IS("copy"))
		r = F(cuMemcpyHtoDAsync_v2)(memory, pinned, n << 10, s);
	else if (IS("pageable"))
		r = F(cuMemcpyHtoDAsync_v2)(memory, pageable, n << 10, s);
	else if (IS("fetch"))
		r = F(cuMemcpyDtoH_v2)(pageable, memory, n << 10);
	else if (IS("alloc"))
		r = F(cuMemAlloc_v2)(&block, (size_t)4096);
	else if (IS("free"))
		r = F(cuMemFree_v2)(block);
	else if (IS("load"))
		r = F(cuModuleLoadData)(&module, PTX_HEAD PTX_KERNEL("loaded"));
	else if (IS("query"))
		r = F(cuPointerGetAttribute)(&type, 2, memory);
	else if (IS("plan"))
		r = ((int (*)())dlsym(dnn, "cudnnBackendFinalize"))(&words);
	else if (IS("push"))
		nvtxRangePushA(w->arg);
	else if (IS("pop"))
		nvtxRangePop();
	else if (IS("reduce"))
		reduce(n, s);
	else
		die("unknown word %s", w->verb);
	must(w->verb, r, 0);
}

static sem_t asked, done;
static unsigned asked_for;

static void *help(void *context)
{
	must("cuCtxSetCurrent", F(cuCtxSetCurrent)(context), 0);
	for (;;) {
		sem_post(&done);
		sem_wait(&asked);
		run(asked_for);
	}
	return NULL;
}

static void run_by_other(unsigned i)
{
	asked_for = i;
	sem_post(&asked);
	sem_wait(&done);
}

static void run_all(unsigned from, unsigned to, struct step *step)
{
	uint64_t begin = now_ns(), end;

	step->begin_ns = begin;
	for (unsigned i = from; i < to; i++) {
		for (long k = 0; k < words[i].times; k++)
			(words[i].is_other ? run_by_other : run)(i);
		end = now_ns();
		step->ns[i] = end - begin;
		begin = end;
	}
	step->end_ns = begin;
}

static void read_word(char *text)
{
	struct word *w = &words[word_cnt++];
	char *times = strchr(text, '*'), *stream;

	*w = (struct word){.times = times ? strtol(text, NULL, 0) : 1, .stream = 1};
	w->verb = strsep(&text, ":");
	w->verb = times ? times + 1 : w->verb;
	w->is_other = *w->verb == '@';
	w->verb += w->is_other;
	w->arg = strsep(&text, ":");
	stream = text;
	if (stream)
		w->stream = stream[0] - '0';
}

int main(int argc, char **argv)
{
	long cnt = argc > 2 ? strtol(argv[1], NULL, 0) : 0;
	struct step *all = calloc(cnt + 1, sizeof(*all));
	pthread_t helper;

	for (int i = 2; i < argc && word_cnt < WORDS; i++)
		if (!strcmp(argv[i], "loop"))
			first = word_cnt;
		else
			read_word(argv[i]);
	case_quiet = true;
	case_open();
	if (sem_init(&asked, 0, 0) || sem_init(&done, 0, 0) ||
	    pthread_create(&helper, NULL, help, case_context()))
		die("cannot make a thread");
	sem_wait(&done);
	dnn = dlopen("libcudnn_graph.so.9", RTLD_NOW);
	module = case_module("FAKE\0k\0small\0elementwise\0long_one\0");
	for (int i = 1; i < 4; i++)
		streams[i] = case_stream(1);
	must("cuEventCreate", F(cuEventCreate)(&event, 2), 0);
	memory = case_alloc(BYTES);
	must("cuMemAllocHost", F(cuMemAllocHost_v2)(&pinned, BYTES), 0);
	pageable = calloc(1, BYTES);
	memset(pinned, 1, BYTES);
	memset(pageable, 1, BYTES);
	run_all(0, first, &all[cnt]);
	for (long i = 0; i < cnt; i++)
		run_all(first, word_cnt, &all[i]);
	must("cuCtxSynchronize", F(cuCtxSynchronize)(), 0);
	for (long i = 0; i < cnt; i++) {
		printf("%llu %llu", (unsigned long long)all[i].begin_ns,
		       (unsigned long long)(all[i].end_ns - all[i].begin_ns));
		for (unsigned w = first; w < word_cnt; w++)
			printf(" %s=%llu", words[w].verb, (unsigned long long)all[i].ns[w]);
		printf("\n");
	}
	return 0;
}
#endif
