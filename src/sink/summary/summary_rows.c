/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The counters of a summary as sorted rows, for the printers. */
#include "summary_priv.h"
#include "util/order.h"

#include <stdlib.h>
#include <string.h>

const char *const mem_shown_name[MEM_KIND_CNT] = {
	[MEM_DEVICE] = "device",
	[MEM_HOST] = "pinned host",
	[MEM_MANAGED] = "managed",
};

const char *transfer_kind_name(unsigned kind)
{
	if (kind == TRANSFER_MEMSET)
		return "memset";
	if (kind == TRANSFER_PREFETCH)
		return "prefetch";
	if (kind == TRANSFER_UNKNOWN)
		return "unknown";
	return copy_dir_name(kind);
}

/* Larger first; equal values are ordered by name, so that the same trace has the same text. */
#define BY(field)                                                                                  \
	const struct fn_row *x = a, *y = b;                                                        \
                                                                                                   \
	if (x->st.field != y->st.field)                                                            \
		return x->st.field < y->st.field ? 1 : -1;                                         \
	return strcmp(x->name, y->name)

int fn_row_by_time(const void *a, const void *b)
{
	BY(total_ns);
}

int fn_row_by_top(const void *a, const void *b)
{
	BY(top_ns);
}

int fn_row_by_count(const void *a, const void *b)
{
	BY(cnt);
}

int fn_row_by_wait(const void *a, const void *b)
{
	BY(wait_ns);
}

int fn_row_by_driver(const void *a, const void *b)
{
	BY(ioctl_ns);
}

static int fn_row_by_name(const void *a, const void *b)
{
	return strcmp(((const struct fn_row *)a)->name, ((const struct fn_row *)b)->name);
}

static int kernel_cmp(const void *a, const void *b)
{
	const struct kernel_stat *x = *(const struct kernel_stat *const *)a;
	const struct kernel_stat *y = *(const struct kernel_stat *const *)b;
	uint64_t x_cnt = x->cnt + x->node_cnt, y_cnt = y->cnt + y->node_cnt;

	return DESCENDING(x_cnt, y_cnt) ?: strcmp(x->name, y->name);
}

static void fn_stat_add(struct fn_stat *sum, const struct fn_stat *st)
{
	sum->cnt += st->cnt;
	sum->untimed_cnt += st->untimed_cnt;
	sum->total_ns += st->total_ns;
	sum->top_ns += st->top_ns;
	sum->blocked_ns += st->blocked_ns;
	sum->error_cnt += st->error_cnt;
	sum->wait_cnt += st->wait_cnt;
	sum->wait_ns += st->wait_ns;
	sum->off_cpu_ns += st->off_cpu_ns;
	sum->ioctl_cnt += st->ioctl_cnt;
	sum->ioctl_ns += st->ioctl_ns;
	if (st->max_ns > sum->max_ns) {
		sum->max_ns = st->max_ns;
		sum->max_at_ns = st->max_at_ns;
	}
}

struct fn_row *summary_fns(const struct summary *s, size_t *cnt)
{
	struct fn_row *rows = calloc(s->fn_cnt + 1, sizeof(*rows));
	size_t n = 0, i, o = 0;

	*cnt = 0;
	if (!rows)
		return NULL;
	for (i = 0; i < SUMMARY_FN_SLOTS; i++)
		if (s->fns[i].fn)
			rows[n++] = (struct fn_row){s->fns[i].fn->name, s->fns[i]};
	if (s->other_fns.cnt)
		rows[n++] = (struct fn_row){"(others)", s->other_fns};
	qsort(rows, n, sizeof(*rows), fn_row_by_name);
	for (i = 1; i < n; i++) {
		if (!strcmp(rows[o].name, rows[i].name))
			fn_stat_add(&rows[o].st, &rows[i].st);
		else
			rows[++o] = rows[i];
	}
	*cnt = n ? o + 1 : 0;
	return rows;
}

const struct kernel_stat **summary_kernels(const struct summary *s, size_t *cnt)
{
	const struct kernel_stat **list = calloc(hash_cnt(&s->kernels) + 1, sizeof(*list));
	size_t n = 0;

	*cnt = 0;
	if (!list)
		return NULL;
	hash_each (k, &s->kernels)
		/* The others ran only in graphs that were made before the trace. */
		if (k->cnt || k->node_cnt)
			list[n++] = k;
	if (s->other_kernels.cnt || s->other_kernels.node_cnt)
		list[n++] = &s->other_kernels;
	qsort(list, n, sizeof(*list), kernel_cmp);
	*cnt = n;
	return list;
}

static int cmd_cmp(const void *a, const void *b)
{
	const struct cmd_stat *x = *(const struct cmd_stat *const *)a;
	const struct cmd_stat *y = *(const struct cmd_stat *const *)b;

	return DESCENDING(x->total_ns, y->total_ns) ?: strcmp(x->name, y->name);
}

const struct cmd_stat **summary_cmds(const struct summary *s, size_t *cnt)
{
	const struct cmd_stat **list = calloc(hash_cnt(&s->driver.cmds) + 1, sizeof(*list));
	size_t n = 0;

	*cnt = 0;
	if (!list)
		return NULL;
	hash_each (c, &s->driver.cmds)
		list[n++] = c;
	if (s->driver.other_cmds.cnt)
		list[n++] = &s->driver.other_cmds;
	qsort(list, n, sizeof(*list), cmd_cmp);
	*cnt = n;
	return list;
}
