/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The summary as rows: its JSON, and its tables. */
#include "summary_priv.h"

#include <stdlib.h>
#include <string.h>

#include "decode/nv/nv.h"
#include "report/collect.h"
#include "report/losses.h"
#include "text/table.h"
#include "util/order.h"

/* Longer tables are cut: the totals include the rest. */
#define JSON_ROWS_MAX 1000

static const char *class_of(const struct summary_view *v, const struct class_stat *c)
{
	return c == &v->all ? "all" : c == &v->rest ? "rest" : api_class_name(c - v->sum->classes);
}

static const char *label_of(char buf[SECTION_BUF], const struct gpu_device *d)
{
	device_label(buf, &d->is, d->number);
	return buf;
}

static uint64_t timed_cnt(const struct fn_row *r)
{
	return r->st.cnt - r->st.untimed_cnt;
}

/* A spinning wait keeps its CPU; a sleeping one yields it at once. */
static const char *how_it_waits(const struct fn_stat *st)
{
	if (st->off_cpu_ns * 10 <= st->wait_ns)
		return "spins";
	return st->off_cpu_ns * 2 >= st->wait_ns ? "sleeps" : "both";
}

static const char *error_text(char buf[SECTION_BUF], const struct error_stat *e)
{
	snprintf(buf, SECTION_BUF, "%s (%d), first from %s",
		 fn_result_name(e->first, e->code) ?: "unknown", e->code, e->first->name);
	return buf;
}

static const char *first_error(char buf[SECTION_BUF], const struct cmd_stat *c)
{
	snprintf(buf, SECTION_BUF, "%s, first %s", c->name, c->first_error ?: "without a name");
	return buf;
}

static const char *per_call(char buf[SECTION_BUF], const struct fn_row *r)
{
	snprintf(buf, SECTION_BUF, "%.1f", ratio_of(r->st.ioctl_cnt, r->st.cnt));
	return buf;
}

static const char *slow_text(char buf[SECTION_BUF], const struct slow_ioctl *slow)
{
	snprintf(buf, SECTION_BUF, "%s%s%s%s%s", slow->name, slow->class ? " " : "",
		 slow->class ?: "", slow->call ? " in " : "", slow->call ?: "");
	return buf;
}

#define MOST_FNS 3
/* From this width on functions have numbers of calls. */
#define WIDE 100
/* Columns of a part before its functions, and the width up to which there are more of these. */
#define PART_COLS      34
#define MOST_WIDTH_MAX 134

/* "cuMemsetD8 116 ms (1), cuMemcpyHtoD 35.0 ms (24)": functions of the class, as many as fit; of
 * the rest, the names of the classes. */
static const char *most_of(char buf[SECTION_BUF], const struct summary_view *v,
			   const struct class_stat *c, int width)
{
	int room = width < MOST_WIDTH_MAX ? width - PART_COLS : MOST_WIDTH_MAX - PART_COLS;
	unsigned class = c - v->sum->classes;
	int len = 0, n, shown = 0;

	*buf = '\0';
	for (unsigned i = v->part_cnt; c == &v->rest && i < v->timed_cnt; i++)
		len += snprintf(buf + len, SECTION_BUF - len, "%s%s", len ? ", " : "",
				api_class_name(v->class_order[i]));
	for (size_t i = 0; c != &v->rest && i < v->fn_cnt && shown < MOST_FNS; i++) {
		const struct fn_stat *st = &v->fns[i].st;

		if (!st->fn || st->fn->class != class || !st->top_ns)
			continue;
		n = snprintf(buf + len, SECTION_BUF - len, "%s%.512s %s", len ? ", " : "",
			     v->fns[i].name, HUMAN_TIME(st->top_ns));
		if (width >= WIDE)
			n += snprintf(buf + len + n, SECTION_BUF - len - n, " (%s)",
				      HUMAN_COUNT(st->cnt));
		if (shown++ && len + n > room) {
			buf[len] = '\0';
			break;
		}
		len += n;
	}
	if (len > room)
		strcpy(buf + room - 3, "...");
	return buf;
}

/* The terminal shows the first rows, then the ioctls outside calls. */
static const struct fn_row *driver_fn(const struct section_cursor *w, unsigned i)
{
	const struct summary_view *v = w->s;
	size_t max = w->j ? v->fn_cnt : v->driver_max;

	max = max < v->fn_cnt ? max : v->fn_cnt;
	return i < max ? &v->driver_fns[i] : i == max && !w->j ? &v->outside : NULL;
}

#define SECTION_STATE struct summary_view
#define SECTION_ROWS  "sink/summary/summary.section"
#include "report/section_rows.h"

static int class_by_time(const void *a, const void *b, void *ctx)
{
	const struct class_stat *c = ctx;
	unsigned x = *(const unsigned *)a, y = *(const unsigned *)b;

	return DESCENDING(c[x].total_ns, c[y].total_ns) ?: ASCENDING(x, y);
}

static int class_by_top(const void *a, const void *b, void *ctx)
{
	const struct class_stat *c = ctx;
	unsigned x = *(const unsigned *)a, y = *(const unsigned *)b;

	return DESCENDING(c[x].top_ns, c[y].top_ns) ?: ASCENDING(x, y);
}

void summary_view__init(struct summary_view *v, struct summary *s, const struct trace_info *info,
			const struct trace_end *end)
{
	const struct driver_stat *d = &s->driver;

	*v = (struct summary_view){
		.sum = s,
		.info = info,
		.end = end,
		.lost = summary_losses(s, end),
		.all = {.cnt = s->call_cnt, .total_ns = s->call_ns},
		.outside = {"(outside CUDA calls)",
			    {.ioctl_cnt = d->outside_cnt, .ioctl_ns = d->outside_ns}},
	};
	v->fns = summary_fns(s, &v->fn_cnt);
	v->driver_fns = summary_fns(s, &v->fn_cnt);
	if (!v->fns || !v->driver_fns)
		v->fn_cnt = 0;
	if (v->fn_cnt)
		qsort(v->fns, v->fn_cnt, sizeof(*v->fns), fn_row_by_time);
	if (v->fn_cnt)
		qsort(v->driver_fns, v->fn_cnt, sizeof(*v->fns), fn_row_by_driver);
	v->kernels = summary_kernels(s, &v->kernel_cnt);
	v->cmds = summary_cmds(s, &v->cmd_cnt);
	for (unsigned i = 0; i < CLASS_CNT; i++)
		v->class_order[i] = i;
	qsort_r(v->class_order, CLASS_CNT, sizeof(v->class_order[0]), class_by_time, s->classes);
	gpu_devices__finish(&s->run_gpus);
	s->residency.info = info;
	residency__sort(&s->residency);
}

void summary_view__parts(struct summary_view *v, unsigned max)
{
	struct summary *s = v->sum;

	if (v->fn_cnt)
		qsort(v->fns, v->fn_cnt, sizeof(*v->fns), fn_row_by_top);
	qsort_r(v->class_order, CLASS_CNT, sizeof(v->class_order[0]), class_by_top, s->classes);
	v->timed_cnt = v->part_cnt = 0;
	v->rest = v->all;
	v->rest.top_ns = s->call_ns;
	while (v->timed_cnt < CLASS_CNT && s->classes[v->class_order[v->timed_cnt]].top_ns)
		v->timed_cnt++;
	while (v->part_cnt < max && v->part_cnt < v->timed_cnt)
		v->rest.top_ns -= s->classes[v->class_order[v->part_cnt++]].top_ns;
}

void summary_view__free(struct summary_view *v)
{
	free(v->fns);
	free(v->driver_fns);
	free(v->kernels);
	free(v->cmds);
}

unsigned summary_print_table(const struct summary_view *v, const struct section_table *of,
			     const char *list, unsigned max, const struct term *term)
{
	return section_print(NULL, of, v, v->sum, list, max, term);
}

void summary__json(struct summary *s, struct out *out, const struct trace_info *info,
		   const struct trace_end *end)
{
	struct summary_view v;
	struct json j;

	summary_view__init(&v, s, info, end);
	json__init(&j, out);
	section_json(NULL, &summary_table, &v, s, &j, NULL);
	out_char(out, '\n');
	out__commit(out);
	summary_view__free(&v);
}
