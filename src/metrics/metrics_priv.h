/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Counters: metrics.c has the targets, metrics_event.c counts, prometheus.c shows them. */
#ifndef METRICS_METRICS_PRIV_H
#define METRICS_METRICS_PRIV_H

#include "gpu_samples.h"
#include "metrics.h"

#include "util/hash_table.h"

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
	struct hash_link link;
	const struct api_fn *fn;
	struct metrics_fn sums;
};
HASH_TABLE(fn_metrics, fn);

struct error_key {
	const struct api_fn *fn;
	int32_t code;
};

struct error_metrics {
	struct hash_link link;
	struct error_key key;
	uint64_t cnt;
};
HASH_TABLE(error_metrics, key);

struct cmd_metrics {
	struct hash_link link;
	char name[80]; /* padded with 0 */
	uint64_t cnt, total_ns;
};
HASH_TABLE(cmd_metrics, name);

/* --gpu-ctxsw: how often contexts had a GPU, and the total time. */
struct gpu_metrics {
	struct hash_link link;
	char bus[32]; /* padded with 0 */
	uint64_t cnt, total_ns;
};
HASH_TABLE(gpu_metrics, bus);

/* NCCL calls that move data, or launch such calls. */
struct coll_metrics {
	struct hash_link link;
	enum api_op op;
	uint64_t cnt, bytes, total_ns;
};
HASH_TABLE(coll_metrics, op);

/* Executions of a process's device, by operation. */
struct run_metrics {
	struct hash_link link;
	struct run_key {
		uint32_t device;
		char op[12];
	} key;
	uint64_t cnt, total_ns;
	uint64_t collective_ns; /* part in NCCL kernels */
};
HASH_TABLE(run_metrics, key);

struct target_key {
	const char *namespace, *pod, *container, *command;
};

struct metrics_target {
	struct hash_link link;
	struct target_key key; /* points into text */
	char *text;
	uint64_t processes;
	uint64_t series; /* in addition to SERIES_OF_A_TARGET */
	uint64_t ended;	 /* sequence number of the loss of its last process */
	struct fn_metrics_table fns;
	struct fn_metrics *recent[1 << FNS_RECENT_LOG]; /* last used, by function */
	struct error_metrics_table errors;
	struct cmd_metrics_table cmds;
	struct gpu_metrics_table resident_on;
	struct run_metrics_table runs;
	struct coll_metrics_table colls;
	struct hist *durations[API_CNT][CLASS_CNT];
	unsigned hist_cnt;
	uint64_t launches, nodes, graph_launches;
	uint64_t bytes[COPY_DIR_PEER + 1];
	uint64_t mem[3], peak[3]; /* device, host, managed */
	struct target_gpu *gpus;  /* NULL: none */
	unsigned gpu_cnt;
};
HASH_TABLE_TYPE(metrics_target);
HASH_TABLE_BYTES(metrics_target, text);

struct metrics {
	struct metrics_target_table targets;
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

/* metrics.c: takes n more series. Past the limit new ones are rejected and counted. */
bool metrics__take(struct metrics *m, struct metrics_target *t, unsigned n);
/* Returns row, for which n were taken. If row is NULL (out of memory), gives the n back and counts
 * the rejection. */
void *metrics__made(struct metrics *m, struct metrics_target *t, unsigned n, void *row);

static inline struct fn_metrics **recent_fn(struct metrics_target *t, const struct api_fn *fn)
{
	return &t->recent[(uint32_t)((uintptr_t)fn >> 3) * 2654435761u >> (32 - FNS_RECENT_LOG)];
}

#endif /* METRICS_METRICS_PRIV_H */
