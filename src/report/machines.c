/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Machines of a job side by side: which of them the others wait for, and in what it differs. */
#include "report/collect.h"
#include "report/section.h"

#include "model/call.h"
#include "model/gpu_stats.h"
#include "report/gpu/network.h"
#include "report/layers/communication.h"
#include "util/order.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define MACHINES_MAX REPORT_TRACES_MAX
/* A difference from the median that is worth mentioning. */
#define DIFFERS 0.05

struct mean {
	uint64_t cnt, sum;
};

struct machine {
	unsigned clock;
	struct mean kernels, launches, clocks;
	uint64_t throttled_cnt, xid_cnt, packets_lost;
	/* set at the end */
	const struct trace_info *info; /* of its first trace */
	struct communication_of_clock late;
};

struct machines {
	struct report *r;
	struct machine *rows;
	unsigned cnt, cap;
	unsigned last; /* row of the latest event */
	/* set at the end: medians of the machines */
	uint64_t kernel_ns, launch_ns, sm_clock_mhz;
};

static uint64_t mean_of(const struct mean *m)
{
	return m->cnt ? m->sum / m->cnt : 0;
}

static void add(struct mean *m, uint64_t value)
{
	m->cnt++;
	m->sum += value;
}

static struct machine *row_of(struct machines *m, unsigned clock)
{
	struct machine *grown;
	unsigned i = 0;

	if (m->last < m->cnt && m->rows[m->last].clock == clock)
		return &m->rows[m->last];
	while (i < m->cnt && m->rows[i].clock != clock)
		i++;
	if (i == m->cnt) {
		if (m->cnt == MACHINES_MAX)
			return NULL;
		grown = grow(m->rows, &m->cap, m->cnt + 1, sizeof(*grown), MEMLIMIT_TRACES);
		if (!grown)
			return NULL;
		m->rows = grown;
		grown[m->cnt++].clock = clock;
	}
	m->last = i;
	return &m->rows[i];
}

static bool is_nccl(const char *kernel)
{
	return kernel && !strncmp(kernel, "nccl", strlen("nccl"));
}

/* An idle GPU has a low clock. */
static void on_sample(struct machine *row, const struct trace_event *ev)
{
	if (strcmp(ev->op, "sample") != 0 || !ev->gpu_stats.sm_clock_mhz.known ||
	    !ev->gpu_stats.util.v)
		return;
	add(&row->clocks, ev->gpu_stats.sm_clock_mhz.v);
	row->throttled_cnt += ev->gpu_stats.throttle && *ev->gpu_stats.throttle;
}

static void machines_event(void *a, const struct trace_event *ev)
{
	struct machine *row = row_of(a, ev->clock);

	if (!row)
		return;
	if (ev->kind == EVENT_GPU && !strcmp(ev->op, "kernel") && !is_nccl(ev->gpu.kernel))
		add(&row->kernels, event_duration_ns(ev));
	else if (ev->kind == EVENT_GPU_STATS)
		on_sample(row, ev);
	else if (ev->kind == EVENT_NETWORK)
		row->packets_lost += network_lost(&ev->network);
	else if (ev->kind == EVENT_XID)
		row->xid_cnt++;
	else if (ev->kind == EVENT_CALL && call_was_made(ev) && call_is_top(ev) &&
		 call_launches(ev))
		add(&row->launches, event_duration_ns(ev));
}

/* Of the machines that have the value. Of two, the better one is usual: with an even number, the
 * lower median, or the upper one if more is better. */
static uint64_t median(const struct machines *m, size_t member, bool more_is_better)
{
	uint64_t *v = calloc(m->cnt + 1, sizeof(*v)), found;
	unsigned cnt = 0;

	for (unsigned i = 0; v && i < m->cnt; i++) {
		const struct mean *mean = (const void *)((const char *)&m->rows[i] + member);

		if (mean->cnt)
			v[cnt++] = mean_of(mean);
	}
	if (v)
		sort_values(v, cnt);
	found = cnt ? v[(cnt - !more_is_better) / 2] : 0;
	free(v);
	return found;
}

static int by_lateness(const void *x, const void *y)
{
	const struct machine *a = x, *b = y;

	return DESCENDING(a->late.ns, b->late.ns)
	       ?: DESCENDING(mean_of(&a->kernels), mean_of(&b->kernels))
	       ?: ASCENDING(a->clock, b->clock);
}

static const struct trace_info *info_of(const struct report *r, unsigned clock)
{
	for (unsigned i = 0; i < r->trace_cnt; i++)
		if (r->traces[i].info->clock == clock)
			return r->traces[i].info;
	return r->info;
}

static void machines_finish(void *a)
{
	struct machines *m = a;

	m->last = UINT32_MAX;
	for (unsigned i = 0; i < m->cnt; i++) {
		m->rows[i].info = info_of(m->r, m->rows[i].clock);
		communication_of_clock(m->r, m->rows[i].clock, &m->rows[i].late);
	}
	m->kernel_ns = median(m, offsetof(struct machine, kernels), false);
	m->launch_ns = median(m, offsetof(struct machine, launches), false);
	m->sm_clock_mhz = median(m, offsetof(struct machine, clocks), true);
	if (m->cnt)
		qsort(m->rows, m->cnt, sizeof(*m->rows), by_lateness);
}

static void say(char *buf, const char *what, uint64_t value, uint64_t usual, const char *how)
{
	double share = usual ? (double)value / (double)usual - 1 : 0;
	size_t len = strlen(buf);

	if (share < 0)
		share = -share;
	if (value && share >= DIFFERS)
		snprintf(buf + len, SECTION_BUF - len, "%s%s %.0f %% %s", len ? ", " : "", what,
			 100 * share, how);
}

static const char *why_text(char buf[SECTION_BUF], const struct machines *m,
			    const struct machine *x)
{
	uint64_t kernel = mean_of(&x->kernels), launch = mean_of(&x->launches);
	uint64_t clock = mean_of(&x->clocks);
	size_t len;

	buf[0] = 0;
	if (clock < m->sm_clock_mhz)
		say(buf, "GPU clock", clock, m->sm_clock_mhz, "lower");
	if (kernel > m->kernel_ns)
		say(buf, "kernels", kernel, m->kernel_ns, "longer");
	if (launch > m->launch_ns)
		say(buf, "launches", launch, m->launch_ns, "longer");
	len = strlen(buf);
	if (x->throttled_cnt)
		len += snprintf(buf + len, SECTION_BUF - len,
				"%sthrottled in %" PRIu64 " of %" PRIu64 " samples",
				len ? ", " : "", x->throttled_cnt, x->clocks.cnt);
	if (x->packets_lost)
		len += snprintf(buf + len, SECTION_BUF - len, "%s%" PRIu64 " lost packets",
				len ? ", " : "", x->packets_lost);
	if (x->xid_cnt)
		snprintf(buf + len, SECTION_BUF - len, "%s%" PRIu64 " %s", len ? ", " : "",
			 x->xid_cnt, noun(x->xid_cnt, "Xid", "Xids"));
	return buf;
}

static const char *error_text(char buf[SECTION_BUF], const struct machine *x)
{
	if (x->info->clock_error_ns == UINT64_MAX)
		return "unknown";
	if (!x->info->clock_error_ns)
		return "exact";
	snprintf(buf, SECTION_BUF, "%s", HUMAN_TIME(x->info->clock_error_ns));
	return buf;
}

#define SECTION_STATE struct machines
#define SECTION_ROWS  "report/machines.section"
#include "report/section_rows.h"

static void machines_print(const void *a, const struct term *term)
{
	const struct machines *m = a;

	if (m->cnt < 2)
		return;
	term_section(term, "Machines", "%u%s", m->cnt,
		     m->rows->late.ns ? "; others waited most for the first" : "");
	section_print(m->r, &machines_table, m, m, "machines", TABLE_ROWS, term);
	if (m->cnt > TABLE_ROWS)
		term_para(term, "There are more; the JSON form has all.");
	term_para(term,
		  "Late, total: how often its ranks were late, and how long other ranks waited. "
		  "Why: differences of 5 %% or more from the median machine.");
}

static void machines__free(void *a)
{
	struct machines *m = a;

	memlimit_free(m->rows);
	free(m);
}

const struct analysis_ops machines_ops = {
	.name = "machines",
	.size = STATE_SIZE(struct machines),
	.event = machines_event,
	.finish = machines_finish,
	.section = &machines_table,
	.is_list = true,
	.print = machines_print,
	.free = machines__free,
};
