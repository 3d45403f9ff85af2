/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A program with the driver calls of an inference server: it loads weights, warms up, then makes
 * tokens layer by layer on three streams, and replays a captured graph for the last ones. It loads
 * libcuda.so.1 itself and needs no CUDA header, so that the same binary runs with the mock driver
 * driver and a real one. The kernels compute nothing; it checks that copied bytes come back.
 */
#include "sample.h"

#include <dlfcn.h>
#include <getopt.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define OOM	    2
#define NOT_READY   600
#define MIB	    (1024 * 1024)
#define LOGITS	    8192 /* words */
#define HIDDEN	    1024
#define WEIGHTS	    4 /* tensors of a layer */
#define MAX_THREADS 64

#define DECLARE(sym, args)                                                                         \
	static int(*sym) args;                                                                     \
	static uint64_t n_##sym;
FUNCTIONS(DECLARE, DECLARE)

static void die(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));
static void die(const char *fmt, ...)
{
	va_list ap;

	fflush(stdout);
	fprintf(stderr, "sample: ");
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fprintf(stderr, "\n");
	exit(1);
}

/* Every call to the driver is counted, so that a tracer's counts can be compared. */
#define COUNTED(sym, ...) (__atomic_fetch_add(&n_##sym, 1, __ATOMIC_RELAXED), sym(__VA_ARGS__))
#define CALL(sym, ...)	  check(COUNTED(sym, __VA_ARGS__), #sym)

static void check(int err, const char *sym)
{
	const char *name = NULL;

	if (!err)
		return;
	COUNTED(cuGetErrorName, err, &name);
	die("%s failed: %s (%d)", sym, name ? name : "unknown error", err);
}

static struct {
	int tokens, layers, threads;
	bool graph, leak, counts, quiet;
	unsigned seed;
} opt = {.tokens = 20, .layers = 12, .threads = 1, .graph = true, .seed = 1};

static const char ptx[] = ".version 6.0\n"
			  ".target sm_60\n"
			  ".address_size 64\n"
#define KERNEL3(name)                                                                              \
	".visible .entry " name "(.param .u64 a, .param .u64 b, .param .u64 c, .param .u32 n)\n"   \
	"{\n\tret;\n}\n"
#define KERNEL2(name)                                                                              \
	".visible .entry " name "(.param .u64 a, .param .u64 b, .param .u32 n)\n"                  \
	"{\n\tret;\n}\n"
	KERNEL3("_Z6matmulPKfS0_Pfi") KERNEL2("_Z9layernormPKfPfi") KERNEL2("_Z7softmaxPKfPfi")
		KERNEL2("_Z4geluPKfPfi");

static const char ptx_library[] =
	".version 6.0\n"
	".target sm_60\n"
	".address_size 64\n" KERNEL3("_ZN4nano9attentionILi64EEEvPKfS2_Pfi");

static pthread_barrier_t barrier;
static handle ctx;
static int device, capability;
static handle matmul, layernorm, softmax, gelu, attention;
static dptr *weights;
static uint64_t weight_bytes, graph_launches;
static const size_t weight_sz[WEIGHTS] = {3 * MIB, 1 * MIB, 2 * MIB, 2 * MIB};

static void load_driver(void)
{
	void *lib = dlopen("libcuda.so.1", RTLD_NOW);

	if (!lib)
		die("cannot load libcuda.so.1: %s", dlerror());
#define FIND(sym, args)                                                                            \
	*(void **)&sym = dlsym(lib, #sym);                                                         \
	if (!sym)                                                                                  \
		die("this libcuda.so.1 has no %s", #sym);
#define TRY(sym, args) *(void **)&sym = dlsym(lib, #sym);
	FUNCTIONS(FIND, TRY)
}

/* Reproducible bytes for tensor number id. */
static void fill(uint64_t *p, size_t size, unsigned id)
{
	uint64_t x = 0x9e3779b97f4a7c15ull * (opt.seed + id + 1);

	for (size_t i = 0; i < size / 8; i++) {
		p[i] = x;
		x = x * 6364136223846793005ull + 1442695040888963407ull;
	}
}

static void *host_alloc(size_t size)
{
	void *p = malloc(size);

	if (!p)
		die("out of memory");
	return p;
}

static void set_up(void)
{
	size_t total, mem_free, mem_total;
	int version, cnt, major, minor, sms;
	char name[128];

	CALL(cuInit, 0);
	CALL(cuDriverGetVersion, &version);
	CALL(cuDeviceGetCount, &cnt);
	if (cnt < 1)
		die("no CUDA device");
	CALL(cuDeviceGet, &device, 0);
	CALL(cuDeviceGetName, name, sizeof(name), device);
	CALL(cuDeviceTotalMem_v2, &total, device);
	CALL(cuDeviceGetAttribute, &sms, 16, device);
	CALL(cuDeviceGetAttribute, &major, 75, device);
	CALL(cuDeviceGetAttribute, &minor, 76, device);
	capability = 10 * major + minor;
	CALL(cuDevicePrimaryCtxRetain, &ctx, device);
	CALL(cuCtxSetCurrent, ctx);
	CALL(cuMemGetInfo_v2, &mem_free, &mem_total);
	if (!opt.quiet)
		printf("device 0: %s, compute capability %d.%d, %d SMs, CUDA %d.%d\n", name, major,
		       minor, sms, version / 1000, version % 1000 / 10);
}

static handle library, module;

static void load_kernels(void)
{
	handle kernel;

	CALL(cuModuleLoadData, &module, ptx);
	CALL(cuModuleGetFunction, &matmul, module, "_Z6matmulPKfS0_Pfi");
	CALL(cuModuleGetFunction, &layernorm, module, "_Z9layernormPKfPfi");
	CALL(cuModuleGetFunction, &softmax, module, "_Z7softmaxPKfPfi");
	CALL(cuModuleGetFunction, &gelu, module, "_Z4geluPKfPfi");
	attention = matmul;
	if (!cuLibraryLoadData || !cuLibraryGetKernel || !cuKernelGetFunction)
		return;
	CALL(cuLibraryLoadData, &library, ptx_library, NULL, NULL, 0, NULL, NULL, 0);
	CALL(cuLibraryGetKernel, &kernel, library, "_ZN4nano9attentionILi64EEEvPKfS2_Pfi");
	CALL(cuKernelGetFunction, &attention, kernel);
}

/* Loads half of the tensors through a pinned buffer and a separate stream, and half from pageable
 * memory like a simple loader. */
static void load_weights(void)
{
	int cnt = opt.layers * WEIGHTS, step = cnt / 4 ? cnt / 4 : 1;
	void *pinned, *pageable = host_alloc(3 * MIB), *back = host_alloc(3 * MIB);
	handle stream, copied;

	weights = calloc(cnt, sizeof(*weights));
	if (!weights)
		die("out of memory");
	CALL(cuStreamCreate, &stream, 1);
	CALL(cuEventCreate, &copied, 2);
	CALL(cuMemHostAlloc, &pinned, 3 * MIB, 0);
	for (int i = 0; i < cnt; i++) {
		size_t size = weight_sz[i % WEIGHTS];

		CALL(cuMemAlloc_v2, &weights[i], size);
		if (i % 2 == 0) {
			CALL(cuEventSynchronize, copied);
			fill(pinned, size, i);
			CALL(cuMemcpyHtoDAsync_v2, weights[i], pinned, size, stream);
			CALL(cuEventRecord, copied, stream);
		} else {
			fill(pageable, size, i);
			CALL(cuMemcpyHtoD_v2, weights[i], pageable, size);
		}
		weight_bytes += size;
		if (!opt.quiet && (i + 1) % step == 0)
			printf("loading weights: %d of %d, %.1f MiB\n", i + 1, cnt,
			       (double)weight_bytes / MIB);
	}
	CALL(cuStreamSynchronize, stream);
	for (int i = 0; i<cnt; i += cnt> 5 ? cnt / 5 : 1) {
		size_t size = weight_sz[i % WEIGHTS];

		CALL(cuMemcpyDtoH_v2, back, weights[i], size);
		fill(pageable, size, i);
		if (memcmp(back, pageable, size))
			die("wrong result: weight %d came back with other bytes", i);
	}
	CALL(cuMemFreeHost, pinned);
	CALL(cuEventDestroy_v2, copied);
	CALL(cuStreamDestroy_v2, stream);
	free(pageable);
	free(back);
}

/* A table with rows of 1000 bytes goes to device memory with a pitch, and comes back. */
static dptr load_positions(void)
{
	enum { WIDTH = 1000, ROWS = 64 };
	struct copy2d p = {.src_type = 1, .dst_type = 2, .width = WIDTH, .height = ROWS};
	unsigned char *table = host_alloc(1024 * ROWS), *back = host_alloc(WIDTH * ROWS);
	size_t pitch;
	dptr dev;

	fill((uint64_t *)table, 1024 * ROWS, 1000);
	CALL(cuMemAllocPitch_v2, &dev, &pitch, WIDTH, ROWS, 4);
	p.src_host = table;
	p.src_pitch = 1024;
	p.dst_device = dev;
	p.dst_pitch = pitch;
	CALL(cuMemcpy2D_v2, &p);
	p = (struct copy2d){.src_type = 2, .dst_type = 1, .width = WIDTH, .height = ROWS};
	p.src_device = dev;
	p.src_pitch = pitch;
	p.dst_host = back;
	p.dst_pitch = WIDTH;
	CALL(cuMemcpy2D_v2, &p);
	for (int y = 0; y < ROWS; y++)
		if (memcmp(back + y * WIDTH, table + y * 1024, WIDTH))
			die("wrong result: row %d of the position table came back with other bytes",
			    y);
	free(table);
	free(back);
	return dev;
}

/* A model that is too large: the caller gets the error and continues. */
static void try_too_much(void)
{
	const char *name = NULL;
	dptr dev;
	int err = COUNTED(cuMemAlloc_v2, &dev, (size_t)1 << 50);

	if (err != OOM)
		die("allocating 1 PiB gave %d, not out of memory", err);
	COUNTED(cuGetErrorName, err, &name);
	if (!opt.quiet)
		printf("1 PiB for a larger cache: %s; continuing without it\n", name);
}

struct worker {
	pthread_t thread;
	int number;
	handle main, side, copy; /* streams */
	handle forked, joined, done, begin, end;
	dptr kv, hidden, logits;
	uint32_t *host_logits, *host_token;
	handle exec;
};

static void launch(handle func, unsigned grid, unsigned block, unsigned shared, handle stream,
		   dptr a, dptr b, dptr c)
{
	uint32_t n = HIDDEN;
	bool three = func == matmul || func == attention;
	void *params[] = {&a, &b, three ? (void *)&c : (void *)&n, &n};

	CALL(cuLaunchKernel, func, grid, 1, 1, block, 1, 1, shared, stream, params, NULL);
}

static void launch_cluster(handle func, handle stream, dptr a, dptr b, dptr c)
{
	uint32_t n = HIDDEN;
	void *params[] = {&a, &b, &c, &n};
	struct launch_attr attr = {.id = 4, .cluster = {2, 1, 1}};
	struct launch_config cfg = {.grid = {64, 2, 1},
				    .block = {128, 1, 1},
				    .shared_mem_sz = 1024,
				    .stream = stream,
				    .attrs = &attr};

	if (!cuLaunchKernelEx) {
		launch(func, 64, 128, 1024, stream, a, b, c);
		return;
	}
	/* Thread block clusters came with compute capability 9.0. */
	cfg.attr_cnt = capability >= 90;
	CALL(cuLaunchKernelEx, &cfg, func, params, NULL);
}

/* Queries that frameworks repeat often. */
static void query_storm(handle stream)
{
	handle current;
	unsigned flags;
	int dev, active;

	for (int i = 0; i < 8; i++)
		CALL(cuCtxGetDevice, &dev);
	CALL(cuCtxGetCurrent, &current);
	CALL(cuDevicePrimaryCtxGetState, device, &flags, &active);
	CALL(cuStreamIsCapturing, stream, &active);
	if (current != ctx || dev != device)
		die("wrong result: another context is current");
}

static void layer(struct worker *w, int number, bool storm)
{
	dptr *wt = &weights[number % opt.layers * WEIGHTS];

	if (storm)
		query_storm(w->main);
	launch(layernorm, 8, 256, 0, w->main, w->hidden, w->hidden, 0);
	CALL(cuEventRecord, w->forked, w->main);
	CALL(cuStreamWaitEvent, w->side, w->forked, 0);
	launch_cluster(matmul, w->main, wt[0], w->hidden, w->kv);
	launch(attention, 16, 128, 4096, w->side, w->kv, w->hidden, w->kv);
	launch(softmax, 16, 128, 0, w->side, w->kv, w->kv, 0);
	CALL(cuEventRecord, w->joined, w->side);
	CALL(cuStreamWaitEvent, w->main, w->joined, 0);
	launch(matmul, 32, 256, 0, w->main, wt[1], w->hidden, w->hidden);
	launch(gelu, 8, 256, 0, w->main, w->hidden, w->hidden, 0);
	launch(matmul, 64, 256, 8192, w->main, wt[2], w->hidden, w->hidden);
}

static void capture_layer(struct worker *w)
{
	handle graph;

	CALL(cuStreamBeginCapture_v2, w->main, 2);
	layer(w, 0, false);
	CALL(cuStreamEndCapture, w->main, &graph);
	CALL(cuGraphInstantiateWithFlags, &w->exec, graph, 0ull);
	CALL(cuGraphDestroy, graph);
}

static void token(struct worker *w, int number, bool replay)
{
	uint32_t pattern = opt.seed * 0x01000193u + number * 31 + w->number;
	dptr scratch = 0;
	int err;

	*w->host_token = pattern;
	CALL(cuMemcpyHtoDAsync_v2, w->hidden, w->host_token, 4, w->main);
	if (cuMemAllocAsync && cuMemFreeAsync)
		CALL(cuMemAllocAsync, &scratch, 256 * 1024, w->main);
	for (int i = 0; i < opt.layers; i++) {
		if (replay) {
			CALL(cuGraphLaunch, w->exec, w->main);
			__atomic_fetch_add(&graph_launches, 1, __ATOMIC_RELAXED);
		} else {
			layer(w, i, true);
		}
	}
	CALL(cuMemsetD32Async, w->logits, pattern, LOGITS, w->main);
	if (scratch) {
		CALL(cuMemcpyDtoDAsync_v2, scratch, w->logits, LOGITS * 4, w->main);
		CALL(cuMemFreeAsync, scratch, w->main);
	}
	CALL(cuEventRecord, w->done, w->main);
	CALL(cuStreamWaitEvent, w->copy, w->done, 0);
	CALL(cuMemcpyDtoHAsync_v2, w->host_logits, w->logits, LOGITS * 4, w->copy);
	/* Busy or done: both are right, and busy is no failure. */
	err = COUNTED(cuStreamQuery, w->copy);
	if (err && err != NOT_READY)
		check(err, "cuStreamQuery");
	CALL(cuStreamSynchronize, w->copy);
	for (int i = 0; i < LOGITS; i++)
		if (w->host_logits[i] != pattern)
			die("wrong result: logit %d of token %d is 0x%x, not 0x%x", i, number,
			    w->host_logits[i], pattern);
}

static void worker_init(struct worker *w)
{
	CALL(cuCtxSetCurrent, ctx);
	CALL(cuStreamCreate, &w->main, 1);
	CALL(cuStreamCreate, &w->side, 1);
	CALL(cuStreamCreate, &w->copy, 1);
	CALL(cuEventCreate, &w->forked, 2);
	CALL(cuEventCreate, &w->joined, 2);
	CALL(cuEventCreate, &w->done, 2);
	CALL(cuEventCreate, &w->begin, 0);
	CALL(cuEventCreate, &w->end, 0);
	CALL(cuMemAlloc_v2, &w->kv, 16 * MIB);
	CALL(cuMemsetD8_v2, w->kv, 0, 16 * MIB);
	CALL(cuMemAlloc_v2, &w->hidden, HIDDEN * 4);
	CALL(cuMemAlloc_v2, &w->logits, LOGITS * 4);
	CALL(cuMemHostAlloc, (void **)&w->host_logits, LOGITS * 4, 0);
	CALL(cuMemHostAlloc, (void **)&w->host_token, 4096, 0);
}

static void worker_end(struct worker *w)
{
	if (w->exec)
		CALL(cuGraphExecDestroy, w->exec);
	CALL(cuMemFreeHost, w->host_token);
	CALL(cuMemFreeHost, w->host_logits);
	CALL(cuMemFree_v2, w->logits);
	CALL(cuMemFree_v2, w->hidden);
	if (!opt.leak || w->number)
		CALL(cuMemFree_v2, w->kv);
	CALL(cuEventDestroy_v2, w->end);
	CALL(cuEventDestroy_v2, w->begin);
	CALL(cuEventDestroy_v2, w->done);
	CALL(cuEventDestroy_v2, w->joined);
	CALL(cuEventDestroy_v2, w->forked);
	CALL(cuStreamDestroy_v2, w->copy);
	CALL(cuStreamDestroy_v2, w->side);
	CALL(cuStreamDestroy_v2, w->main);
}

static void *work(void *arg)
{
	struct worker *w = arg;
	int graph_from = opt.tokens;
	float ms;

	worker_init(w);
	layer(w, 0, true);
	CALL(cuCtxSynchronize);
	/* Waiting for the whole context, or freeing, would invalidate another thread's capture. */
	pthread_barrier_wait(&barrier);
	if (opt.graph && cuGraphInstantiateWithFlags) {
		capture_layer(w);
		graph_from = opt.tokens - opt.tokens / 4;
	}
	pthread_barrier_wait(&barrier);
	CALL(cuEventRecord, w->begin, w->main);
	for (int i = 0; i < opt.tokens; i++)
		token(w, i, i >= graph_from);
	CALL(cuEventRecord, w->end, w->main);
	CALL(cuStreamSynchronize, w->main);
	CALL(cuEventElapsedTime, &ms, w->begin, w->end);
	if (ms < 0)
		die("wrong result: the tokens took %f ms", (double)ms);
	if (!opt.quiet && !w->number && opt.tokens)
		printf("%.3f ms a token\n", (double)ms / opt.tokens);
	worker_end(w);
	return NULL;
}

static void print_counts(void)
{
#define PRINT(sym, args)                                                                           \
	if (n_##sym)                                                                               \
		printf("%s %llu\n", #sym, (unsigned long long)n_##sym);
	FUNCTIONS(PRINT, PRINT)
}

static const char usage[] =
	"usage: sample [--tokens N] [--layers N] [--threads N] [--seed N] [--no-graph] [--leak]\n"
	"              [--counts] [--quiet]\n";

static int number(const char *s, int min, int max)
{
	char *end;
	long n = strtol(s, &end, 10);

	if (*end || end == s || n < min || n > max) {
		fprintf(stderr, "sample: \"%s\" is not a number from %d to %d\n%s", s, min, max,
			usage);
		exit(2);
	}
	return n;
}

static void parse(int argc, char **argv)
{
	static const struct option options[] = {
		{"tokens", 1, 0, 't'}, {"layers", 1, 0, 'l'},	{"threads", 1, 0, 'j'},
		{"seed", 1, 0, 's'},   {"no-graph", 0, 0, 'g'}, {"leak", 0, 0, 'k'},
		{"counts", 0, 0, 'c'}, {"quiet", 0, 0, 'q'},	{"help", 0, 0, 'h'},
		{0, 0, 0, 0},
	};
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (c) {
		case 't':
			opt.tokens = number(optarg, 0, 1000000);
			break;
		case 'l':
			opt.layers = number(optarg, 1, 1000);
			break;
		case 'j':
			opt.threads = number(optarg, 1, MAX_THREADS);
			break;
		case 's':
			opt.seed = number(optarg, 0, 1000000000);
			break;
		case 'g':
			opt.graph = false;
			break;
		case 'k':
			opt.leak = true;
			break;
		case 'c':
			opt.counts = true;
			break;
		case 'q':
			opt.quiet = true;
			break;
		case 'h':
			fputs(usage, stdout);
			exit(0);
		default:
			fputs(usage, stderr);
			exit(2);
		}
	}
	if (optind < argc) {
		fputs(usage, stderr);
		exit(2);
	}
}

int main(int argc, char **argv)
{
	static struct worker workers[MAX_THREADS];
	int cnt;
	dptr positions;

	parse(argc, argv);
	cnt = opt.layers * WEIGHTS;
	load_driver();
	set_up();
	load_kernels();
	load_weights();
	positions = load_positions();
	try_too_much();
	pthread_barrier_init(&barrier, NULL, opt.threads);
	for (int i = 0; i < opt.threads; i++)
		workers[i].number = i;
	for (int i = 1; i < opt.threads; i++)
		if (pthread_create(&workers[i].thread, NULL, work, &workers[i]))
			die("cannot make a thread");
	work(&workers[0]);
	for (int i = 1; i < opt.threads; i++)
		pthread_join(workers[i].thread, NULL);
	CALL(cuMemFree_v2, positions);
	for (int i = 0; i < cnt; i++)
		CALL(cuMemFree_v2, weights[i]);
	if (library)
		CALL(cuLibraryUnload, library);
	CALL(cuModuleUnload, module);
	CALL(cuDevicePrimaryCtxRelease_v2, device);
	printf("loaded %d weights, %.1f MiB; %d tokens, %d layers, %d thread%s; %llu kernel "
	       "launches, %llu graph launches%s\n",
	       cnt, (double)weight_bytes / MIB, opt.tokens, opt.layers, opt.threads,
	       opt.threads == 1 ? "" : "s",
	       (unsigned long long)(n_cuLaunchKernel + n_cuLaunchKernelEx),
	       (unsigned long long)graph_launches, opt.leak ? "; leaked 16 MiB" : "");
	if (opt.counts)
		print_counts();
	free(weights);
	return 0;
}
