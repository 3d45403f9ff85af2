/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "memory.h"

#include "attach/attach.h"
#include "http.h"
#include "inject/inject.h"
#include "otlp/queue.h"
#include "response_cache.h"
#include "formatter.h"
#include "profile.h"
#include "procs.h"
#include "sink/delivery/workers.h"

#include "ct_shm.h"

#define KIB 1024ull
#define MIB (1024 * KIB)

/* Kernel memory of a row of the smallest tables. */
#define SMALL_KERNEL_SZ KERNEL_ERRORS_SZ
/* For a process traced in-process: its row in the kernel, and error codes. */
#define INPROC_SZ (1024 + CT_SHM_ERRORS * SMALL_KERNEL_SZ)
/* Limit of processes with labels: each uses CUDA, with a context of 300 MB and more on a GPU. */
#define LABELS_MAX 2048
/* Per task: threads that ended without a record. */
#define THREAD_NAMES 4
/* A line of /metrics with the longest labels, and a data point of OTLP. */
#define LINE_SZ	  800
#define POINT_SZ  512
#define SERIES_SZ 128
/* Programs and libraries, BPF programs and their fixed tables (9 MiB in the kernel), compressors,
 * connections' buffers, helper processes: measured 12 MiB, plus fragmentation of malloc(). */
#define REST_SZ (24 * MIB)
/* Unread answers (8 MiB), the one being made, and its text. */
#define CTL_SZ (8 * MIB + 2 * LABELS_MAX * 3 * KIB)

static uint64_t less(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t more(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* Tables of stacks, which are only for profiles. */
static const struct {
	enum limit_table table;
	uint64_t max;
} of_stacks[] = {
	{QUOTA_STACKS, 8 << 20},
	{QUOTA_PERF_MAPS, 8 << 20},
	{QUOTA_PATHS, 8 << 20},
	{QUOTA_SYMBOLS, 64 << 20},
};

void memory__set_limits(const struct config *c, struct quotas *q)
{
	uint64_t tasks = memory_rows(c->metrics.max_tasks);
	struct quota *labels = &q->of[QUOTA_LABELS], *threads = &q->of[QUOTA_THREADS],
		     *processes = &q->of[QUOTA_PROCESSES];

	labels->max = labels->share = less(tasks, LABELS_MAX);
	processes->max = processes->share = tasks;
	threads->max = THREAD_NAMES * tasks;
	/* One process may have half. */
	for (unsigned i = 0; i < sizeof(of_stacks) / sizeof(of_stacks[0]); i++) {
		struct quota *s = &q->of[of_stacks[i].table];

		s->max = less(s->max, of_stacks[i].max);
		s->share = less(s->share, of_stacks[i].max / 2);
	}
}

unsigned memory__writers(const struct config *c, unsigned cpus)
{
	/* With GPU times, lines wait as text, which one thread formats. */
	if (config__has_gpu_times(c))
		return 0;
	if (c->files.format_threads == CONFIG_FORMAT_THREADS_AUTO)
		return workers__size(cpus);
	return c->files.format_threads;
}

struct sum {
	void (*part)(void *ctx, const char *what, uint64_t bytes);
	void *ctx;
	uint64_t bytes;
};

static void add(struct sum *s, const char *what, uint64_t bytes)
{
	s->bytes += bytes;
	if (s->part)
		s->part(s->ctx, what, bytes);
}

uint64_t memory__max_bytes(const struct config *c, const struct quotas *q, unsigned cpus,
			   void (*part)(void *ctx, const char *what, uint64_t bytes), void *ctx)
{
	uint64_t counts = memory_rows(c->metrics.max_counts), errors = counts / 4;
	uint64_t tasks = memory_rows(c->metrics.max_tasks), lines = c->metrics.max_series * LINE_SZ;
	uint64_t kernel_counts = counts - memory_inproc(c, counts);
	uint64_t kernel_tasks = tasks - memory_inproc(c, tasks);
	struct sum s = {.part = part, .ctx = ctx};

	add(&s, "counts and errors, in the kernel",
	    kernel_counts * KERNEL_COUNTS_SZ + errors * SMALL_KERNEL_SZ +
		    less(CT_SHARES_MAX, kernel_counts + errors) * SMALL_KERNEL_SZ);
	add(&s, "threads and processes, in the kernel",
	    kernel_tasks * (KERNEL_THREADS_SZ + 3 * SMALL_KERNEL_SZ +
			    (c->trace.kernel ? KERNEL_DRIVER_SZ : 0)));
	add(&s, "the buffer", rings__share(c->trace.buffer_size, cpus) * (uint64_t)cpus);
	add(&s, "counts and errors, in the daemon",
	    counts * DPROC_COUNT_SZ + errors * SMALL_KERNEL_SZ);
	add(&s, "tables of processes and libraries", quotas__max_bytes(q));
	add(&s, "flight recorder", c->recorder.keep_ns ? c->recorder.memory + MIB : 0);
	/* Its rows, what is made from them, and that of the last interval with its copies for
	 * readers. */
	add(&s, "profiles", c->profiles.interval_ns ? 4 * DPROFILE_SZ : 0);
	add(&s, "series", c->metrics.max_series * SERIES_SZ);
	/* The cached texts, or the largest, which needs half as much again while it grows. */
	add(&s, "port", HTTP_CLIENTS_SZ + more(RESPONSES_SZ, 2 * lines));
	/* Requests in flight count as queued. A text may need half as much again, and is copied. */
	if (*c->otlp.endpoint)
		add(&s, "collector",
		    c->otlp.queue * OTLP_SPAN_SZ + 2 * MIB + 2 * c->metrics.max_series * POINT_SZ);
	add(&s, "processes with the library",
	    config__has_listener(c) ? inject__max_bytes(tasks / MEMORY_INPROC_PARTS) +
					      (c->trace.inject ? INJECT_OPEN_MAX * INPROC_SZ : 0)
				    : 0);
	/* The limit, plus the table of their calls. */
	add(&s, "lines pending for GPU times",
	    config__has_gpu_times(c) ? c->trace.gpu_pending_size + MIB : 0);
	add(&s, "lines on their way to files", formatter__max_bytes(memory__writers(c, cpus)));
	add(&s, "control", CTL_SZ);
	add(&s, "the rest", REST_SZ);
	return s.bytes;
}
