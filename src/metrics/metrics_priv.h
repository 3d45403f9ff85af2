/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What metrics.c counts and prometheus.c shows. */
#ifndef METRICS_METRICS_PRIV_H
#define METRICS_METRICS_PRIV_H

#include "gpu_samples.h"
#include "metrics.h"

#include <uthash.h>

/* Limits of the classic histogram: 1.024 µs, and times four up to 17.2 s. */
#define BUCKET_CNT   13
#define BUCKET_NS(i) (1ull << (10 + 2 * (i)))

#define METRICS_XIDS 64
/* Launches, nodes, graph launches, bytes, live and peak memory, processes, and so many histograms:
 * those of the usual classes. A further one is as many series as it has lines. */
#define SERIES_OF_A_TARGET 150
#define HISTS_OF_A_TARGET  8
#define SERIES_OF_A_HIST   (BUCKET_CNT + 3)

/* Functions of a target that are found without a search. */
#define FNS_RECENT_LOG 5

struct hist {
	uint64_t cnt[BUCKET_CNT + 1]; /* not cumulated; the last is beyond all limits */
	uint64_t sum_ns;
};

struct fn_metrics {
	const struct api_fn *fn;
	struct metrics_fn sums;
	UT_hash_handle hh;
};

struct error_key {
	const struct api_fn *fn;
	int32_t code;
};

struct error_metrics {
	struct error_key key;
	uint64_t cnt;
	UT_hash_handle hh;
};

struct cmd_metrics {
	char name[80];
	uint64_t cnt, total_ns;
	UT_hash_handle hh;
};

/* --gpu-ctxsw: how often, and for how long, contexts had a GPU. */
struct gpu_metrics {
	char bus[32];
	uint64_t cnt, total_ns;
	UT_hash_handle hh;
};

/* Calls of NCCL that move data, or launch what does. */
struct coll_metrics {
	enum api_op op;
	uint64_t cnt, bytes, total_ns;
	UT_hash_handle hh;
};

/* What a device of the process executed, by operation. */
struct run_metrics {
	struct {
		uint32_t device;
		char op[12];
	} key;
	uint64_t cnt, total_ns;
	uint64_t collective_ns; /* of that, kernels of NCCL */
	UT_hash_handle hh;
};

struct target_key {
	const char *namespace, *pod, *container, *command;
};

struct metrics_target {
	struct target_key key; /* points into text */
	char *text;
	uint64_t processes;
	uint64_t series; /* besides SERIES_OF_A_TARGET */
	uint64_t ended;	 /* which one it was to lose its last process */
	struct fn_metrics *fns;
	struct fn_metrics *recent[1 << FNS_RECENT_LOG]; /* counted last, by function */
	struct error_metrics *errors;
	struct cmd_metrics *cmds;
	struct gpu_metrics *resident_on;
	struct run_metrics *runs;
	struct coll_metrics *colls;
	struct hist *durations[API_CNT][CLASS_CNT];
	unsigned hist_cnt;
	uint64_t launches, nodes, graph_launches;
	uint64_t bytes[COPY_DIR_PEER + 1];
	uint64_t mem[3], peak[3]; /* device, host, managed */
	struct target_gpu *gpus;  /* NULL: none */
	unsigned gpu_cnt;
	UT_hash_handle hh;
};

struct metrics {
	struct metrics_target *targets;
	struct metrics_target others;
	char others_name[16];
	uint64_t series, max_series, rejected, ended;
	struct {
		uint32_t number;
		char gpu[32]; /* where on the bus */
		uint64_t cnt;
	} xids[METRICS_XIDS];
	unsigned xid_cnt;
	struct gpu_samples gpus;
};

#endif /* METRICS_METRICS_PRIV_H */
