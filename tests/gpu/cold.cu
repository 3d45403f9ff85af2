// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Programs in which CUPTI is started and stopped: cold WHAT SECONDS LOG
// WHAT: loop (launches and copies), graphs (replays), captures (a graph is captured, instantiated and destroyed in each unit), contexts
// (two), threads (seven, which all work until the end), waits, exits (as threads, but the main thread calls exit() meanwhile). SIGTERM
// ends it earlier.
// The results of each unit are checked. LOG has a line for each: thread, CLOCK_MONOTONIC ns at its begin and end, and how many kernels
// (without those of graphs), copies, memsets and graph launches it had.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <thread>
#include <vector>
#include <execinfo.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <cuda_runtime.h>
#include <cuda.h>
#define CK(x) check(x, __LINE__)

static const unsigned n = 1024;
static std::atomic<bool> stop, leaves, ends;
static std::mutex lock;
static FILE *file;

// The driver refuses calls after its shutdown in exit().
template <typename result> static void check(result error, int line)
{
	if (!error)
		return;
	while (leaves)
		pause();
	fprintf(stderr, "HARMED line %d: error %d\n", line, (int)error);
	_exit(2);
}

// COLD_SLOW: the exit takes 0.2 s more after libcudart's own handler, which was registered later and runs before.
static void slowly() { usleep(200000); }
__attribute__((constructor(101))) static void registers() { if (getenv("COLD_SLOW")) atexit(slowly); }

// Where it crashed: modules and offsets.
static void crashed(int sig, siginfo_t *info, void *)
{
	void *frames[32];
	dprintf(2, "HARMED: signal %d, address %p\n", sig, info->si_addr);
	backtrace_symbols_fd(frames, backtrace(frames, 32), 2);
	signal(sig, SIG_DFL);
	raise(sig);
}

__global__ void add(unsigned *p, unsigned n)
{
	unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i < n)
		p[i]++;
}

static unsigned long now()
{
	timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ul + t.tv_nsec;
}

struct worker {
	const char *what;
	cudaStream_t stream;
	unsigned *mem, *host, expected = 0, kernels, copies, sets, graphs;
	cudaGraphExec_t exec = nullptr;

	void launch() { add<<<4, 256, 0, stream>>>(mem, n); CK(cudaGetLastError()); expected++; kernels++; }
	void replay() { CK(cudaGraphLaunch(exec, stream)); expected += 3; graphs++; }
	void capture()
	{
		cudaGraph_t graph;
		CK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
		for (int i = 0; i < 3; i++)
			add<<<4, 256, 0, stream>>>(mem, n);
		CK(cudaStreamEndCapture(stream, &graph));
		CK(cudaGraphInstantiate(&exec, graph, 0));
		CK(cudaGraphDestroy(graph));
	}
	explicit worker(const char *w) : what(w)
	{
		CK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
		CK(cudaMalloc(&mem, n * 4));
		CK(cudaMallocHost(&host, n * 4));
		CK(cudaMemsetAsync(mem, 0, n * 4, stream));
		if (!strcmp(what, "graphs"))
			capture();
		CK(cudaStreamSynchronize(stream));
	}
	void unit()
	{
		unsigned long began = now();
		kernels = copies = sets = graphs = 0;
		if (!strcmp(what, "captures")) {
			capture();
			replay();
			CK(cudaStreamSynchronize(stream));
			CK(cudaGraphExecDestroy(exec));
		}
		for (int i = 0; exec && !strcmp(what, "graphs") && i < 20; i++)
			replay();
		for (int i = 0; i < (strcmp(what, "waits") ? 10 : 2); i++) {
			launch();
			if (!strcmp(what, "waits"))
				CK(cudaStreamSynchronize(stream));
		}
		CK(cudaMemcpyAsync(host, mem, n * 4, cudaMemcpyDeviceToHost, stream)); copies++;
		CK(cudaStreamSynchronize(stream));
		for (unsigned i = 0; i < n; i++)
			if (host[i] != expected) {
				fprintf(stderr, "HARMED: %u, not %u\n", host[i], expected);
				_exit(3);
			}
		if (expected > 5000) {
			CK(cudaMemsetAsync(mem, 0, n * 4, stream)); sets++;
			expected = 0;
			CK(cudaStreamSynchronize(stream));
		}
		unsigned long ended = now();
		std::lock_guard<std::mutex> held(lock);
		fprintf(file, "%ld %lu %lu %u %u %u %u\n", syscall(SYS_gettid), began, ended, kernels, copies, sets, graphs);
	}
};

int main(int argc, char **argv)
{
	const char *what = argc > 3 ? argv[1] : "loop";
	unsigned long until = now() + (argc > 3 ? atof(argv[2]) : 1) * 1e9;
	bool exits = !strcmp(what, "exits"), threads = exits || !strcmp(what, "threads");
	std::vector<std::thread> others;

	struct sigaction action = {};
	action.sa_sigaction = crashed;
	action.sa_flags = SA_SIGINFO;
	void *frames[1];
	backtrace(frames, 1);
	for (int sig : {SIGSEGV, SIGBUS, SIGABRT})
		sigaction(sig, &action, nullptr);
	signal(SIGTERM, [](int) { ends = true; });
	file = fopen(argc > 3 ? argv[3] : "/dev/null", "w");
	worker main_one(what);
	CUcontext second = nullptr, first;
	worker *other = nullptr;
	if (!strcmp(what, "contexts")) {
		CUctxCreateParams params = {};
		CK(cuCtxGetCurrent(&first));
		CK(cuCtxCreate(&second, &params, 0, 0));
		other = new worker("loop");
		CK(cuCtxSetCurrent(first));
	}
	for (int i = 0; threads && i < 6; i++)
		others.emplace_back([what] {
			worker w(what);
			while (!stop)
				w.unit();
		});
	printf("ready\n");
	fflush(stdout);
	while (now() < until && !ends) {
		main_one.unit();
		if (other) {
			CK(cuCtxSetCurrent(second));
			other->unit();
			CK(cuCtxSetCurrent(first));
		}
	}
	fflush(file);
	printf("fine\n");
	fflush(stdout);
	leaves = exits;
	if (exits)
		exit(0);
	stop = true;
	for (auto &t : others)
		t.join();
	return 0;
}
