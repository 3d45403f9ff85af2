/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Iterations as JSON and as text. */
#include "iter_priv.h"
#include "report/section.h"
#include "util/order.h"

#include <stdlib.h>
#include <string.h>

static int by_kernel(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return ASCENDING(x, y);
}

static int by_cnt(const void *a, const void *b)
{
	const struct kernel_row *x = a, *y = b;

	return DESCENDING(x->cnt, y->cnt) ?: ASCENDING(x->kernel, y->kernel);
}

void iter_count_kernels(struct iter *it)
{
	uint32_t *k = calloc(it->sample_cnt + 1, sizeof(*k));
	struct kernel_row *rows = calloc(it->sample_cnt + 1, sizeof(*rows));
	unsigned n = 0;

	free(it->rows);
	it->rows = rows;
	it->row_cnt = 0;
	if (!k || !rows)
		goto out;
	if (it->sample_cnt)
		memcpy(k, it->sample, it->sample_cnt * sizeof(*k));
	qsort(k, it->sample_cnt, sizeof(*k), by_kernel);
	for (unsigned i = 0; i < it->sample_cnt; i++) {
		if (!n || rows[n - 1].kernel != k[i])
			rows[n++].kernel = k[i];
		rows[n - 1].cnt++;
	}
	qsort(rows, n, sizeof(*rows), by_cnt);
	it->row_cnt = n;
out:
	free(k);
}

/* The number of iterations from this one to the end of its round. */
static unsigned round_length(const struct iter *it, const struct it_iter *first)
{
	const struct it_iter *end = first;

	while (end < it->list + it->cnt && end->round == first->round)
		end++;
	return end - first;
}

/* The first iteration of the round after the one of prev; NULL: none. */
static const struct it_iter *next_round(const struct iter *it, const struct it_iter *prev)
{
	const struct it_iter *next = prev ? prev + round_length(it, prev) : it->list;

	return it->cnt && next < it->list + it->cnt ? next : NULL;
}

static const char *const stat_labels[ITS_CNT] = {
	[ITS_KERNELS] = "kernel launches", [ITS_GRAPHS] = "graph launches",
	[ITS_CALLS] = "CUDA calls",	   [ITS_HTOD] = "bytes HtoD",
	[ITS_DTOH] = "bytes DtoH",	   [ITS_TIME] = "time",
	[ITS_LAUNCH] = "in launches",	   [ITS_SYNC] = "in waits",
	[ITS_GAP] = "outside calls",
};

static const char *dist_text(char buf[SECTION_BUF], enum iter_stat stat, double v)
{
	if (stat <= ITS_CALLS)
		human_count(buf, (uint64_t)(v + 0.5));
	else if (stat <= ITS_DTOH)
		human_bytes(buf, (uint64_t)(v + 0.5));
	else
		human_time(buf, v);
	return buf;
}

static const char *const modes[] = {
	[ITER_AUTO] = "auto",
	[ITER_MARKER] = "marker",
	[ITER_SYNC] = "sync",
	[ITER_GAP] = "gap",
};

#define SECTION_STATE struct iter
#define SECTION_ROWS  "report/iter/iter.section"
#include "report/section_rows.h"

void iter_print(const void *a, const struct term *term)
{
	const struct iter *it = a;

	if (!it->cnt) {
		term_section(term, "Iterations", "none found: %s", it->why);
		return;
	}
	term_section(
		term, "Iterations",
		"%s in %s round%s; the numbers below exclude %s of warm-up; confidence %.0f %%",
		HUMAN_COUNT(it->cnt), HUMAN_COUNT(it->round_cnt), plural(it->round_cnt),
		HUMAN_COUNT(it->res.warmup), it->res.confidence * 100);
	term_para(term, "%s.", it->why);
	section_print(it->r, &iter_table, it, it, "stats", ITS_CNT, term);
	if (it->row_cnt)
		term_gap(term);
	section_print(it->r, &iter_table, it, it, "sequence", 0, term);
}
