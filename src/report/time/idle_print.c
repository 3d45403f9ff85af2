/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Idle periods as JSON and as text. */
#include "idle_priv.h"

#include <stdlib.h>
#include <string.h>

#include "report/advice/verdict.h"
#include "report/gpu/gpu.h"
#include "report/iter/iter.h"

static const char what[] =
	"from the return of a call after which no stream of the process had work that was not "
	"known to be done, to the start of the next call that submits work: a lower bound, for the "
	"host does not see when a kernel ends, only when it has waited for it";

const char *idle_cause_name(enum idle_cause c)
{
	static const char *const names[IDLE_CAUSE_CNT] = {
		[IDLE_CPU] = "cpu work",     [IDLE_MODULE] = "module load",
		[IDLE_ALLOC] = "allocation", [IDLE_TRANSFER] = "transfer",
		[IDLE_CALL] = "other call",
	};

	return names[c];
}

/* "cuLibraryLoadData 81 %, no CUDA call 12 %": what took most of the period. */
static void describe(const struct idle_period *p, char *text, size_t size)
{
	uint64_t outside = p->dur_ns > p->cpu.call_ns ? p->dur_ns - p->cpu.call_ns : 0;
	bool used[IDLE_FNS] = {0}, said_outside = false;
	size_t n = 0;

	snprintf(text, size, "no CUDA call");
	for (int round = 0; round < 3 && p->cpu.cnt && n < size; round++) {
		uint64_t most = said_outside ? 0 : outside;
		const char *name = "no CUDA call";
		int at = -1;

		for (unsigned i = 0; i < p->cpu.cnt; i++) {
			if (used[i] || p->cpu.ns[i] <= most)
				continue;
			most = p->cpu.ns[i];
			at = (int)i;
		}
		if (!most)
			break;
		if (at >= 0) {
			used[at] = true;
			name = p->cpu.fns[at]->name;
		} else {
			said_outside = true;
		}
		n += (size_t)snprintf(text + n, size - n, "%s%s %.0f %%", n ? ", " : "", name,
				      100 * ratio_of(most, p->dur_ns));
	}
}

static int by_total(const void *a, const void *b)
{
	const struct idle_stream *x = a, *y = b;

	if (x->total_ns != y->total_ns)
		return x->total_ns < y->total_ns ? 1 : -1;
	return (x->handle > y->handle) - (x->handle < y->handle);
}

/* Copies of the streams, most idle first. */
static struct idle_stream *sorted_streams(const struct idle *d, unsigned *cnt)
{
	struct idle_stream *list;

	*cnt = d->stream_keys.cnt < d->stream_cap ? d->stream_keys.cnt : d->stream_cap;
	list = calloc(*cnt + 1, sizeof(*list));
	if (!list)
		*cnt = 0;
	if (!*cnt)
		return list;
	memcpy(list, d->streams, *cnt * sizeof(*list));
	qsort(list, *cnt, sizeof(*list), by_total);
	return list;
}

static void put_streams(const struct idle *d, struct json *j)
{
	unsigned cnt;
	struct idle_stream *list = sorted_streams(d, &cnt);

	json_open_array(j, "streams");
	for (unsigned i = 0; i < cnt && i < d->r->opts.top && list[i].cnt; i++) {
		json_open(j, NULL);
		json_hex(j, "stream", list[i].handle);
		json_u64(j, "pid", list[i].pid);
		json_u64(j, "count", list[i].cnt);
		json_u64(j, "total_ns", list[i].total_ns);
		json_u64(j, "max_ns", list[i].max_ns);
		json_close(j);
	}
	json_close_array(j);
	free(list);
}

void idle_json(const void *a, struct json *j)
{
	const struct idle *d = a;
	char text[256];

	json_open(j, "idle");
	json_u64(j, "total_ns", d->res.total_ns);
	json_u64(j, "count", d->res.count);
	json_u64(j, "span_ns", d->res.span_ns);
	json_f64(j, "share", ratio_of(d->res.total_ns, d->res.span_ns));
	json_u64(j, "in_iterations_ns", d->res.in_iter_ns);
	json_u64(j, "in_iterations_count", d->res.in_iter_cnt);
	json_str(j, "what", what);
	json_open_array(j, "by_cause");
	for (unsigned i = 0; i < IDLE_CAUSE_CNT; i++) {
		if (!d->cause_cnt[i])
			continue;
		json_open(j, NULL);
		json_str(j, "cause", idle_cause_name(i));
		json_u64(j, "count", d->cause_cnt[i]);
		json_u64(j, "total_ns", d->res.cause_ns[i]);
		json_close(j);
	}
	json_close_array(j);
	put_streams(d, j);
	json_open_array(j, "list");
	for (unsigned i = 0; i < d->list_cnt; i++) {
		const struct idle_period *p = &d->list[i];

		describe(p, text, sizeof(text));
		json_open(j, NULL);
		report_json_ts(d->r, j, "ts", p->begin_ns);
		json_u64(j, "duration_ns", p->dur_ns);
		json_u64(j, "pid", p->pid);
		if (p->has_stream)
			json_hex(j, "stream", p->stream);
		json_str(j, "after", p->after);
		json_str(j, "before", p->before);
		json_str(j, "cpu", text);
		json_bool(j, "in_iteration", iter_round_at(d->r, p->pid, p->begin_ns) != 0);
		json_close(j);
	}
	json_close_array(j);
	json_close(j);
}

static void print_list(const struct idle *d, const struct term *term)
{
	unsigned top = report_rows(term, d->r->opts.top);
	char texts[TABLE_ROWS][384];
	struct table_row *row;
	struct table t;

	table__init(&t, "at|idle|what the CPU did");
	for (unsigned i = 0; i < d->list_cnt && i < top; i++) {
		const struct idle_period *p = &d->list[i];

		describe(p, texts[i], sizeof(texts[i]));
		row = table__row(&t, texts[i]);
		human_time(row->cell[0], (double)p->begin_ns - (double)d->r->base_ns);
		human_time(row->cell[1], p->dur_ns);
	}
	if (t.row_cnt)
		table__print(&t, term);
}

static void print_streams(const struct idle *d, const struct term *term)
{
	struct table_row *row;
	char names[4][64];
	struct table t;
	unsigned cnt;
	struct idle_stream *list = sorted_streams(d, &cnt);

	table__init(&t, "idle|periods|longest|stream");
	for (unsigned i = 0; i < cnt && i < 4 && list[i].cnt; i++) {
		snprintf(names[i], sizeof(names[i]), "0x%llx of process %u",
			 (unsigned long long)list[i].handle, list[i].pid);
		row = table__row(&t, names[i]);
		human_time(row->cell[0], list[i].total_ns);
		human_count(row->cell[1], list[i].cnt);
		human_time(row->cell[2], list[i].max_ns);
	}
	if (t.row_cnt)
		table__print(&t, term);
	free(list);
}

void idle_print(const void *a, const struct term *term)
{
	const struct idle *d = a;
	struct gpu_idle steady;
	struct gpu_result gpu;
	char total[CELL_SZ], share[CELL_SZ], count[CELL_SZ], span[CELL_SZ], cell[CELL_SZ];

	if (!d->res.span_ns)
		return;
	human_time(total, d->res.total_ns);
	human_share(share, d->res.total_ns, d->res.span_ns);
	human_count(count, d->res.count);
	human_time(span, d->res.span_ns);
	gpu_result(d->r, &gpu);
	verdict_idle(d->r, &steady);
	if (gpu.executions) {
		/* One number, the measured one: these periods are some of that time. */
		human_time(total, steady.ns);
		human_share(share, steady.ns, steady.of_ns);
		if (steady.measured)
			term_section(term, "GPU idle", "%s of the steady state, %s, measured",
				     share, total);
		else
			term_section(term, "GPU idle", "measured: see the section gpu");
		if (d->list_cnt)
			term_para(term, "The longest periods that the host's calls prove:");
		print_list(d, term);
		return;
	}
	term_section(term, "GPU idle",
		     "at least %s in %s period%s, %s of the %s between the first work and the "
		     "last",
		     total, count, plural(d->res.count), share, span);
	term_para(term, "That is %s.", what);
	if (d->res.in_iter_cnt) {
		human_time(cell, d->res.in_iter_ns);
		human_count(count, d->res.in_iter_cnt);
		term_para(term, "Within rounds of iterations: %s in %s period%s.", cell, count,
			  plural(d->res.in_iter_cnt));
	}
	print_list(d, term);
	print_streams(d, term);
}
