/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Events like those of the model, for tests of later stages. A factory has a clock that each call
 * advances; a test sets the relevant members between make and use.
 */
#ifndef TESTS_FACTORY_H
#define TESTS_FACTORY_H

#include <assert.h>
#include <string.h>

#include "model/event.h"
#include "model/trace.h"

#define FACTORY_BASE_NS 1000000000000ull

/* Names of kernels in real programs. */
#define FACTORY_KERNELS                                                                              \
	"void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, "     \
	"std::array<char*, 3ul> >(int, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul>)", \
		"ampere_sgemm_128x64_tn",                                                            \
		"void (anonymous namespace)::softmax_warp_forward<float, float, float, 10, false, "  \
		"false>(float*, float const*, int, int, int)",                                       \
		"triton_poi_fused_add_mul_0"

struct factory {
	uint64_t now_ns;
	uint64_t next_id;
	uint32_t pid, tid;
	const char *comm;
	uint64_t words[CT_MAX_WORDS];
};

static inline struct factory factory(uint32_t pid)
{
	return (struct factory){
		.now_ns = FACTORY_BASE_NS, .next_id = 1, .pid = pid, .tid = pid, .comm = "python3"};
}

/* A call of dur_ns that begins gap_ns after the previous call ended. */
static inline struct trace_event factory_call(struct factory *f, const char *symbol,
					      uint64_t gap_ns, uint64_t dur_ns)
{
	const struct api_fn *fn = api_fn_by_symbol(symbol);
	struct trace_event ev = {.kind = EVENT_CALL};

	assert(fn);
	ev.fn = fn;
	ev.type = event_type_of(fn->class);
	ev.op = api_op_name(fn->op);
	ev.name = fn->name;
	ev.pid = f->pid;
	ev.tid = f->tid;
	ev.comm = f->comm;
	ev.start_ns = f->now_ns + gap_ns;
	ev.end_ns = ev.start_ns + dur_ns;
	ev.id = f->next_id++;
	ev.lib_id = 1;
	f->now_ns = ev.end_ns;
	return ev;
}

static inline struct trace_event factory_launch(struct factory *f, const char *kernel,
						uint64_t stream)
{
	struct trace_event ev = factory_call(f, "cuLaunchKernel", 1000, 4000);

	ev.has = HAS_LAUNCH | HAS_STREAM;
	ev.stream = stream;
	ev.launch = (struct launch_info){.grid = {80, 1, 1},
					 .block = {256, 1, 1},
					 .has_config = true,
					 .func = 0x5555,
					 .kernel = kernel};
	return ev;
}

static inline struct trace_event factory_on_stream(struct factory *f, const char *symbol,
						   uint64_t stream, uint64_t dur_ns)
{
	struct trace_event ev = factory_call(f, symbol, 500, dur_ns);

	ev.has = HAS_STREAM;
	ev.stream = stream;
	return ev;
}

static inline struct trace_event factory_sync(struct factory *f, uint64_t stream)
{
	return factory_on_stream(f, "cuStreamSynchronize", stream, 50000);
}

/* device_bytes: live memory after the call */
static inline struct trace_event factory_alloc(struct factory *f, uint64_t size,
					       uint64_t device_bytes)
{
	struct trace_event ev = factory_call(f, "cuMemAlloc_v2", 1000, 90000);

	ev.has = HAS_SIZE | HAS_PTR;
	ev.size = size;
	ev.ptr = 0x7f0000000000 + ev.id * 0x1000000;
	ev.has_mem = true;
	ev.mem.bytes[MEM_DEVICE] = device_bytes;
	return ev;
}

static inline struct trace_event factory_free(struct factory *f, uint64_t device_bytes)
{
	struct trace_event ev = factory_call(f, "cuMemFree_v2", 1000, 40000);

	ev.has = HAS_PTR;
	ev.ptr = 0x7f0000000000;
	ev.has_mem = true;
	ev.mem.bytes[MEM_DEVICE] = device_bytes;
	return ev;
}

static inline struct trace_event factory_copy(struct factory *f, const char *symbol,
					      enum copy_dir dir, uint64_t size, uint64_t dur_ns)
{
	struct trace_event ev = factory_call(f, symbol, 700, dur_ns);

	ev.has = HAS_SIZE | HAS_DIR;
	ev.dir = dir;
	ev.size = size;
	if (!ev.fn->is_async) {
		ev.has |= HAS_BANDWIDTH;
		ev.bandwidth_gbps = (double)size / dur_ns;
	}
	return ev;
}

static inline struct trace_event factory_process(struct factory *f, const char *what)
{
	struct trace_event ev = {
		.kind = EVENT_PROCESS, .type = TYPE_PROCESS, .name = what, .op = what};

	ev.pid = f->pid;
	ev.tid = f->tid;
	ev.comm = f->comm;
	ev.start_ns = ev.end_ns = f->now_ns += 1000;
	return ev;
}

static inline struct trace_info factory_info(void)
{
	static const char *const argv[] = {"python3", "infer.py", NULL};
	static const struct trace_lib libs[] = {
		{"/usr/lib/x86_64-linux-gnu/libcuda.so.1", "0123abcd", 1, 613}};

	return (struct trace_info){
		.version = "0.1-test",
		.argv = argv,
		.argc = 2,
		.hostname = "host",
		.kernel = "6.1.0",
		.machine = "x86_64",
		.driver_version = "580.159.04",
		.cuda_version = 13000,
		.libs = libs,
		.lib_cnt = 1,
		.traced =
			"init, device, context, module, memory, transfer, launch, graph, stream, event, sync",
		.not_traced = "query (61 functions)",
		.mechanism = "uprobe.multi",
		.probe_cost_ns = 1350,
		.base_ns = FACTORY_BASE_NS,
		.wall_ns = 1700000000123456789ull};
}

static inline struct trace_end factory_end(const struct factory *f, uint64_t call_cnt)
{
	struct trace_end end = {.end_ns = f->now_ns,
				.reason = "command exited",
				.event_cnt = call_cnt,
				.call_cnt = call_cnt,
				.probe_cost_ns = 1350,
				.cost_ns = call_cnt * 1350,
				.not_traced = "query (61 functions)"};

	end.stats[CT_STAT_ENTRIES] = call_cnt;
	if (f->now_ns > FACTORY_BASE_NS)
		end.cost_share = (double)end.cost_ns / (f->now_ns - FACTORY_BASE_NS);
	return end;
}

#endif /* TESTS_FACTORY_H */
