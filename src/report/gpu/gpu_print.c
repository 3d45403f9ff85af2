/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* GPU times as text and JSON. */
#include "gpu_priv.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "report/section.h"
#include "text/kernel_name.h"
#include "util/plural.h"

#define WORDS_SZ 512

static const char *dir_name(unsigned dir)
{
	return dir == COPY_NONE ? "unknown" : copy_dir_name(dir);
}

/* Why the iterations have no GPU times. */
static const char *coarse_words(const struct gpu_result *res, char text[WORDS_SZ])
{
	snprintf(
		text, WORDS_SZ,
		"the trace is too long for iterations as short as these: GPU time is stored in intervals of %s, and "
		"an iteration has fewer than %d of them; trace for a shorter time (--duration)",
		HUMAN_TIME(res->iter_coarse_ns), ITER_PIECES);
	return text;
}

static const char *device_text(char buf[SECTION_BUF], const struct gpu_device *d)
{
	size_t n;

	device_label(buf, &d->is, d->number);
	n = strlen(buf);
	/* Another machine has other devices. */
	if (d->clock)
		snprintf(buf + n, SECTION_BUF - n, " of trace %" PRIu32, d->trace);
	return buf;
}

/* Time when communication overlaps other work. */
static uint64_t beside_ns(const struct gpu_busy *b)
{
	uint64_t comm = b->parts[GPU_COMMUNICATING].total, alone = gpu_busy__alone(b);

	return comm > alone ? comm - alone : 0;
}

/* The next device that is not shared. */
static const struct gpu_device *own_device(const struct gpu *g, const struct gpu_device *prev)
{
	bool is_next = !prev;

	for (unsigned i = 0; i < g->devices.cnt; i++) {
		if (is_next && !g->devices.of[i]->is_shared)
			return g->devices.of[i];
		is_next |= g->devices.of[i] == prev;
	}
	return NULL;
}

/* Everything except kernels. */
static const struct gpu_sum *other_at(const struct gpu *g, unsigned i)
{
	if (!i)
		return &g->graphs;
	return i <= GPU_DIR_CNT ? &g->copies[i - 1] : i == GPU_DIR_CNT + 1 ? &g->memset : NULL;
}

static const char *other_name(const struct gpu *g, const struct gpu_sum *x)
{
	static const char *const copies[GPU_DIR_CNT] = {
		[COPY_NONE] = "copies",		 [COPY_DIR_HTOD] = "copies HtoD",
		[COPY_DIR_DTOH] = "copies DtoH", [COPY_DIR_DTOD] = "copies DtoD",
		[COPY_DIR_HTOH] = "copies HtoH", [COPY_DIR_PEER] = "copies between GPUs",
	};

	return x == &g->graphs ? "graphs" : x == &g->memset ? "memsets" : copies[x - g->copies];
}

#define NAME_SZ 256
static const char *short_text(char buf[SECTION_BUF], const char *name)
{
	size_t len = 0;
	const char *text = name ? kernel_short_name(name, &len) : NULL;

	if (!text)
		return "without a name";
	snprintf(buf, NAME_SZ, "%.*s", (int)len, text);
	return buf;
}

#define SECTION_STATE struct gpu
#define SECTION_ROWS  "report/gpu/gpu.section"
#include "report/section_rows.h"

static void print_kernels(const struct gpu *g, const struct term *term)
{
	unsigned rows = report_rows(term, g->r->opts.top);

	section_print(g->r, &gpu_table, g, g, "kernels", rows, term);
	if (g->sorted_cnt > rows)
		term_para(term, "and %u more kernel%s", g->sorted_cnt - rows,
			  plural(g->sorted_cnt - rows));
}

static void print_words(const struct gpu *g, const struct term *term)
{
	const struct gpu_result *res = &g->res;
	const struct trace_end *end = g->r->end;
	char why[WORDS_SZ];

	if (g->all.queue_cnt) {
		term_para(term, "From a call to its start on the GPU: median %s, 99 %% below %s",
			  HUMAN_TIME(res->queue_p50_ns), HUMAN_TIME(res->queue_p99_ns));
	}
	if (res->gpu_bound || res->host_bound) {
		term_para(
			term,
			"Iterations: %s limited by the GPU, %s by the host; the GPU is busy for %.0f %% of the median "
			"iteration",
			HUMAN_COUNT(res->gpu_bound), HUMAN_COUNT(res->host_bound),
			100 * res->iter_busy_median);
	}
	if (res->iter_coarse_ns) {
		coarse_words(res, why);
		term_para(term, "Iterations: unknown whether the GPU or the host limits them: %s",
			  why);
	}
	if (res->iter_comm_median > 0) {
		term_para(
			term,
			"NCCL's kernels run for %.1f %% of the median iteration, and alone for %.1f %%",
			100 * res->iter_comm_median, 100 * res->iter_alone_median);
	}
	if (!end || !end->gpu.on)
		return;
	term_para(
		term,
		"Without a GPU time: %s of %s launches; %llu records dropped by CUPTI, %llu without times, %llu "
		"not read in time, %llu without a call; times are accurate to %llu ns",
		HUMAN_COUNT(end->gpu.launches_untimed),
		HUMAN_COUNT(end->gpu.launches_timed + end->gpu.launches_untimed),
		(unsigned long long)end->gpu.dropped, (unsigned long long)end->gpu.untimed,
		(unsigned long long)end->gpu.lost, (unsigned long long)end->gpu.no_call,
		(unsigned long long)end->gpu.clock_error_ns);
}

void gpu_print(const void *a, const struct term *term)
{
	const struct gpu *g = a;

	if (!g->all.cnt)
		return;
	term_heading(term, "On the GPU");
	section_print(g->r, &gpu_table, g, g, "devices", TABLE_ROWS, term);
	if (g->res.shared)
		term_para(term, GPU_SHARED_WORDS);
	term_gap(term);
	if (g->res.comm_ns &&
	    section_print(g->r, &gpu_table, g, g, "communication", TABLE_ROWS, term))
		term_gap(term);
	if (section_print(g->r, &gpu_table, g, g, "others", TABLE_ROWS, term))
		term_gap(term);
	print_kernels(g, term);
	print_words(g, term);
}
