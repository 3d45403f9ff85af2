/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Energy of GPUs and of the processes that used them: the state of energy.c and energy_print.c.
 *
 * NVML's counter gives the energy between two samples. The idle power of a GPU is its mean power
 * between samples without any work. The rest of each interval is divided among the processes by
 * their GPU time in it, so the parts add up to the counter.
 */
#ifndef REPORT_GPU_ENERGY_H
#define REPORT_GPU_ENERGY_H

#include "report/report.h"

#define ENERGY_GPUS	 64
#define ENERGY_WORKERS	 128	/* processes, counted once for each GPU */
#define ENERGY_SAMPLES	 65536u /* of a GPU: more of them are joined */
#define ENERGY_BINS	 16384u /* of a process's GPU time; their width grows with the trace */
#define ENERGY_BIN_NS	 10000	/* the width at first */
#define ENERGY_RUN_PARTS 3

/* What shows the GPU time of processes, the best first. */
enum energy_source { ENERGY_SWITCHES, ENERGY_EXECUTIONS, ENERGY_NVML, ENERGY_SOURCE_CNT };

struct energy_sample {
	uint64_t ns;
	double mj;    /* since the first sample */
	bool is_used; /* work ran since the previous sample */
};

struct energy_gpu {
	uint64_t number;
	unsigned trace;
	char uuid[64], pci[32], model[96];
	uint32_t minor;
	struct energy_sample *samples;
	unsigned cnt, cap, stride, skipped;
	uint64_t last_mj;
	uint64_t sampled_ns, before_ns; /* the last sample, with energy or not; the one before */
	bool has_energy;
	double *rates; /* rates[i]: J per ns of GPU time before sample i */
	/* valid after the finish; J */
	double joules, idle_joules, other_joules, idle_watts; /* idle_watts < 0: not known */
	enum energy_source source;
};

struct energy_bins {
	uint64_t origin, width;
	double *ns; /* after the finish: sums up to the end of each bin */
};

struct energy_worker {
	unsigned gpu;
	uint32_t pid;
	char comm[16];
	struct energy_bins bins[ENERGY_SOURCE_CNT];
	const struct energy_bins *by; /* NULL: no GPU time */
	double gpu_ns, joules;
	/* Steps after the warm-up; 0: none. */
	uint64_t steps;
	double step_joules;
};

/* A part of the run: before, during and after the steady state. */
struct energy_part {
	const char *name;
	uint64_t ns;
	double joules;
};

/* Steps of serving. */
struct energy_tokens {
	const char *name;
	uint64_t steps, tokens, ns;
	double joules, idle_joules;
	unsigned gpus; /* of the process */
};

struct energy {
	struct report *r;
	struct energy_gpu *gpus[ENERGY_GPUS];
	struct energy_worker *workers[ENERGY_WORKERS]; /* after the finish: most energy first */
	unsigned gpu_cnt, worker_cnt;
	uint64_t rejected_cnt; /* events rejected by the limits */
	struct energy_part parts[ENERGY_RUN_PARTS];
	struct energy_tokens tokens[2]; /* prefill, decode */
};

extern const struct section_table energy_table;
void energy_print(const void *a, const struct term *term);

#endif /* REPORT_GPU_ENERGY_H */
