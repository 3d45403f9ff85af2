/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Metrics of GPUs: errors, NVML's samples, collectives and their GPU time. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>

#include "factory.h"
#include "metrics_check.h"

/* More kinds of errors than the limit: the rest is counted. */
static void many_xids(void **state)
{
	struct metrics *m = metrics__new(1000);
	struct trace_event ev = {.kind = EVENT_XID, .xid.gpu = "0000:01:00"};

	for (ev.xid.xid = 0; ev.xid.xid < 100; ev.xid.xid++)
		metrics__event(m, NULL, &ev);
	has(m, "cudatrace_xids_total{gpu=\"0000:01:00\",xid=\"63\"} 1");
	lacks(m, "xid=\"64\"");
	has(m, "cudatrace_series_rejected_total 36");
	metrics__free(m);
}

static struct trace_event gpu_event(const char *op, uint64_t ns)
{
	return (struct trace_event){
		.kind = EVENT_GPU_STATS,
		.op = op,
		.start_ns = ns,
		.gpu_stats = {.gpu = {0, true}, .uuid = "GPU-1"},
	};
}

/* The last sample, under DCGM's names; a target's values are sums over its processes. */
static void gpus(void **state)
{
	static const char labels[] =
		"gpu=\"0\",UUID=\"GPU-1\",pci_bus_id=\"0:3b\",device=\"nvidia2\","
		"modelName=\"H100\",Hostname=\"node\"} ";
	struct metrics *m = metrics__new(1000);
	struct labels none = {0};
	struct metrics_target *t = metrics__get(m, &none, "train");
	struct trace_event ev = gpu_event("device", 1);
	char line[512];

	ev.gpu_stats.pci = "0:3b";
	ev.gpu_stats.model = "H100";
	ev.gpu_stats.minor = (struct opt_u64){2, true};
	metrics__event(m, NULL, &ev);
	lacks(m, "DCGM_FI_DEV_GPU_UTIL{");
	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < 2; i++) {
			ev = gpu_event("process", 1000);
			ev.gpu_stats.memory_used = (struct opt_u64){1 << 20, true};
			ev.gpu_stats.sm_util = (struct opt_u64){20000, true};
			metrics__event(m, t, &ev);
		}
		ev = gpu_event("sample", 1000 + round * 2000000000ull);
		ev.gpu_stats.util = (struct opt_u64){57000, true};
		ev.gpu_stats.memory_used = (struct opt_u64){3 << 19, true};
		ev.gpu_stats.tensor_active = (struct opt_u64){12500, true};
		ev.gpu_stats.throttle = "sw_power_cap";
		ev.gpu_stats.cost_us = (struct opt_u64){250000000, true};
		metrics__event(m, NULL, &ev);
	}
#define HAS(name, value)                                                                           \
	snprintf(line, sizeof(line), "%s{%s%s", name, labels, value);                              \
	has(m, line)
	HAS("DCGM_FI_DEV_GPU_UTIL", "57");
	HAS("DCGM_FI_DEV_FB_USED", "1.5");
	HAS("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "0.125");
	HAS("cudatrace_gpu_throttled_seconds_total", "2");
	HAS("cudatrace_gpu_samples_total", "2");
	HAS("cudatrace_gpu_sampling_seconds_total", "0.5");
	lacks(m, "DCGM_FI_DEV_POWER_USAGE{");
	snprintf(line, sizeof(line),
		 "cudatrace_gpu_memory_used_bytes{namespace=\"\",pod=\"\",container=\"\","
		 "command=\"train\",%s2097152",
		 labels);
	has(m, line);
	snprintf(line, sizeof(line),
		 "cudatrace_gpu_utilization{namespace=\"\",pod=\"\",container=\"\","
		 "command=\"train\",%s40",
		 labels);
	has(m, line);
	/* The process has ended: it is not in the next sample. */
	ev = gpu_event("sample", 5000000000ull);
	metrics__event(m, NULL, &ev);
	lacks(m, "command=\"train\",gpu=");
	lacks(m, "DCGM_FI_DEV_GPU_UTIL{");
	metrics__free(m);
}

/* The energy counter's growth: idle power, and the rest by SM time; nothing is lost. */
static void energy(void **state)
{
	static const struct {
		uint64_t joules, train, other, util;
	} samples[] = {{1000, 0, 0, 0},
		       {1100, 0, 0, 0},
		       {1600, 30, 10, 40},
		       {1800, 0, 0, 5},
		       {100, 0, 0, 0}};
	struct metrics *m = metrics__new(1000);
	struct labels none = {0};
	struct metrics_target *t = metrics__get(m, &none, "train");
	struct trace_event ev;
	char line[512];

	for (unsigned i = 0; i < sizeof(samples) / sizeof(samples[0]); i++) {
		ev = gpu_event("process", i * 1000000000ull);
		ev.gpu_stats.sm_util = (struct opt_u64){samples[i].train * 1000, true};
		if (samples[i].train)
			metrics__event(m, t, &ev);
		ev.gpu_stats.sm_util.v = samples[i].other * 1000;
		if (samples[i].other)
			metrics__event(m, metrics__get(m, &none, "(others)"), &ev);
		ev = gpu_event("sample", (i + 1) * 1000000000ull);
		ev.gpu_stats.util = (struct opt_u64){samples[i].util * 1000, true};
		ev.gpu_stats.energy_j = (struct opt_u64){samples[i].joules * 1000, true};
		metrics__event(m, NULL, &ev);
	}
#define ENERGY(name, target, value)                                                                \
	snprintf(line, sizeof(line),                                                               \
		 "cudatrace_gpu_" name "energy_joules_total{" target "gpu=\"0\",UUID=\"GPU-1\","   \
		 "pci_bus_id=\"\",device=\"\",modelName=\"\",Hostname=\"node\"} " value);          \
	has(m, line)
#define TARGET(command) "namespace=\"\",pod=\"\",container=\"\",command=\"" command "\","
	ENERGY("", TARGET("train"), "300");
	ENERGY("", TARGET("(others)"), "200");
	ENERGY("idle_", "", "300");
	has(m, "# TYPE cudatrace_gpu_energy_joules_total counter");
	metrics__free(m);
}

/* Data moved between GPUs: calls, their bytes and time, kernels of NCCL. */
static void communication(void **state)
{
	const struct api_fn *fn = api_fn_by_symbol("ncclAllReduce");
	struct metrics *m = metrics__new(2000);
	struct metrics_target *t = metrics__get(m, &(struct labels){0}, "x");
	struct trace_event ev = {
		.kind = EVENT_CALL, .fn = fn, .end_ns = 500000000, .has = HAS_BYTES};
	struct trace_event gpu = {.kind = EVENT_GPU, .op = "kernel", .end_ns = 1500000000};
	struct ct_count c = {.errors = 1, .total_ns = 250000000};

	/* Processes without collectives have no line. */
	lacks(m, "cudatrace_collectives_total{");
	ev.coll.bytes = 4096;
	metrics__event(m, t, &ev);
	/* Inside another call of NCCL, failed, unfinished. */
	ev.api_depth = 1;
	metrics__event(m, t, &ev);
	ev.api_depth = 0;
	ev.is_error = true;
	metrics__event(m, t, &ev);
	ev.is_error = false;
	ev.unfinished = true;
	metrics__event(m, t, &ev);
	ev.unfinished = false;
	/* It moves nothing; the end of a group launches the collectives. */
	ev.fn = api_fn_by_symbol("ncclCommCount");
	metrics__event(m, t, &ev);
	ev.has = 0;
	ev.fn = api_fn_by_symbol("ncclGroupEnd");
	metrics__event(m, t, &ev);
	has(m, "cudatrace_collectives_total{" X ",op=\"all_reduce\"} 1");
	has(m, "cudatrace_collectives_total{" X ",op=\"group_end\"} 1");
	has(m, "cudatrace_collective_bytes_total{" X ",op=\"all_reduce\"} 4096");
	has(m, "cudatrace_collective_host_seconds_total{" X ",op=\"all_reduce\"} 0.5");
	/* Counted calls, one of which failed. */
	c.hist[ct_hist_index(1000)] = 3;
	metrics__counts(m, t, fn, &c);
	has(m, "cudatrace_collectives_total{" X ",op=\"all_reduce\"} 3");
	has(m, "cudatrace_collective_host_seconds_total{" X ",op=\"all_reduce\"} 0.75");
	lacks(m, "op=\"none\"");
	/* Only kernels of NCCL count. */
	gpu.gpu.device = 3;
	gpu.gpu.kernel = "gemm_nccl";
	metrics__event(m, t, &gpu);
	lacks(m, "cudatrace_gpu_communication_seconds_total{");
	gpu.gpu.kernel = "ncclDevKernel_AllReduce_Sum_f32_RING_LL";
	metrics__event(m, t, &gpu);
	gpu.gpu.kernel = NULL;
	metrics__event(m, t, &gpu);
	has(m, "cudatrace_gpu_communication_seconds_total{" X ",device=\"3\"} 1.5");
	has(m, "cudatrace_gpu_execution_seconds_total{" X ",device=\"3\",op=\"kernel\"} 4.5");
	metrics__free(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(many_xids),
		cmocka_unit_test(gpus),
		cmocka_unit_test(energy),
		cmocka_unit_test(communication),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
