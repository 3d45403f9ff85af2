/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Counters of metrics.c, shown by prometheus.c. */
#ifndef METRICS_METRICS_PRIV_H
#define METRICS_METRICS_PRIV_H

#include "gpu_samples.h"
#include "metrics.h"

#include <uthash.h>

/* Limits of the classic histogram: 1.024 µs, and times four up to 17.2 s. */
#define BUCKET_CNT   13
#define BUCKET_NS(i) (1ull << (10 + 2 * (i)))

#define METRICS_XIDS 64
/* Series of launches, nodes, graph launches, bytes, live and peak memory, processes, and the
 * histograms of the usual classes. Each further histogram counts as many series as it has lines. */
#define SERIES_OF_A_TARGET 150
#define HISTS_OF_A_TARGET  8
#define SERIES_OF_A_HIST   (BUCKET_CNT + 3)

/* Size of the cache of a target's recent functions. */
#define FNS_RECENT_LOG 5

struct hist {
	uint64_t cnt[BUCKET_CNT + 1]; /* not cumulative; the last is above all limits */
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

/* --gpu-ctxsw: how often contexts had a GPU, and the total time. */
struct gpu_metrics {
	char bus[32];
	uint64_t cnt, total_ns;
	UT_hash_handle hh;
};

/* NCCL calls that move data, or launch such calls. */
struct coll_metrics {
	enum api_op op;
	uint64_t cnt, bytes, total_ns;
	UT_hash_handle hh;
};

/* Executions of a process's device, by operation. */
struct run_metrics {
	struct {
		uint32_t device;
		char op[12];
	} key;
	uint64_t cnt, total_ns;
	uint64_t collective_ns; /* part in NCCL kernels */
	UT_hash_handle hh;
};

struct target_key {
	const char *namespace, *pod, *container, *command;
};

struct metrics_target {
	struct target_key key; /* points into text */
	char *text;
	uint64_t processes;
	uint64_t series; /* in addition to SERIES_OF_A_TARGET */
	uint64_t ended;	 /* sequence number of the loss of its last process */
	struct fn_metrics *fns;
	struct fn_metrics *recent[1 << FNS_RECENT_LOG]; /* last used, by function */
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
