/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Both traces are analysed as for a report; then sums are compared: of the whole, of each
 * function and of each kernel. A thing has an exact value (a count, bytes) and perhaps a time. It
 * differs if its value differs, or its time by more than noise. Changes are ordered by their change
 * in time, then by their relative change in count.
 */
#include "diff.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#include "model/call.h"
#include "collect.h"
#include "diff_losses.h"
#include "diff_verdict.h"
#include "rejected.h"
#include "saved/reader.h"
#include "saved/strings.h"
#include "text/losses_text.h"
#include "report/layers/driver_calls.h"
#include "report/gpu/gpu.h"
#include "report/time/idle.h"
#include "report/iter/iter.h"
#include "report/memory/memory.h"
#include "report/time/stage.h"
#include "report/time/wait.h"

enum diff_kind { THING_WHOLE, THING_FUNCTION, THING_KERNEL, THING_EXECUTION, THING_KIND_CNT };

enum value_flag {
	VAL_CNT = 1 << 0,
	VAL_BYTES = 1 << 1, /* the count is of bytes */
	VAL_TIME = 1 << 2,
	VAL_ANALYSED = 1 << 3, /* by a report, whose memory is limited */
};

struct value {
	uint64_t cnt, ns;
};

struct diff_row {
	const char *name;
	enum diff_kind kind;
	unsigned flags; /* enum value_flag */
	bool differs;
	struct value v[2];
	UT_hash_handle hh;
};

struct diff {
	struct report_opts opts;
	struct trace_info info[2];
	struct report *report[2];
	/* Keyed by the address of the interned name. executions: on GPUs (--gpu-time) */
	struct diff_row *functions, *kernels, *executions;
	struct value calls[2], launches[2], errors[2], copied[2][COPY_DIR_PEER + 1];
	uint64_t lost[2];
	struct saved_file files[2]; /* diff__file() */
	bool has_gpu[2];
	struct diff_row **things; /* all, ordered */
	unsigned cnt, differ_cnt;
};

struct diff *diff__new(const struct report_opts *opts)
{
	struct diff *d = calloc(1, sizeof(*d));

	if (d)
		d->opts = *opts;
	return d;
}

int diff__begin(struct diff *d, int side, const struct trace_info *info)
{
	if (d->report[side])
		return 0;
	d->info[side] = *info;
	d->report[side] = report__new(&d->opts, &d->info[side]);
	return d->report[side] ? 0 : -1;
}

static void count(struct diff_row **table, enum diff_kind kind, int side, const char *name,
		  uint64_t ns)
{
	struct diff_row *t;

	HASH_FIND(hh, *table, name, strlen(name), t);
	if (!t) {
		size_t size = strlen(name) + 1;

		t = memlimit_new(MEMLIMIT_COMPARED, sizeof(*t) + size);
		if (!t)
			return;
		*t = (struct diff_row){
			.name = (char *)(t + 1), .kind = kind, .flags = VAL_CNT | VAL_TIME};
		memcpy(t + 1, name, size);
		HASH_ADD_KEYPTR(hh, *table, t->name, strlen(t->name), t);
	}
	t->v[side].cnt++;
	t->v[side].ns += ns;
}

static void on_execution(struct diff *d, int side, const struct trace_event *ev)
{
	d->has_gpu[side] = true;
	count(&d->executions, THING_EXECUTION, side, ev->gpu.kernel ?: ev->name,
	      event_duration_ns(ev));
}

void diff__event(struct diff *d, int side, const struct trace_event *ev)
{
	uint64_t ns;

	report__event(d->report[side], ev);
	if (ev->kind == EVENT_GPU)
		on_execution(d, side, ev);
	if (ev->kind != EVENT_CALL || !ev->fn)
		return;
	ns = event_returned(ev) ? event_duration_ns(ev) : 0;
	count(&d->functions, THING_FUNCTION, side, ev->fn->name, ns);
	d->calls[side].cnt++;
	d->calls[side].ns += call_is_top(ev) ? ns : 0;
	d->errors[side].cnt += ev->is_error;
	if (!call_ran(ev))
		return;
	if (ev->has & HAS_LAUNCH) {
		d->launches[side].cnt++;
		d->launches[side].ns += ns;
		if (ev->launch.kernel)
			count(&d->kernels, THING_KERNEL, side, ev->launch.kernel, ns);
	}
	if (ev->type == TYPE_TRANSFER && ev->has & HAS_SIZE && ev->has & HAS_DIR) {
		d->copied[side][ev->dir].cnt += ev->size;
		d->copied[side][ev->dir].ns += ns;
	}
}

void diff__end(struct diff *d, int side, const struct trace_info *info, const struct trace_end *end)
{
	for (int i = 0; i < CT_DROP_CNT; i++)
		d->lost[side] += end->drops[i];
	report__ended(d->report[side], info, end);
}

static void add(struct diff *d, const char *name, unsigned flags, struct value a, struct value b)
{
	size_t size = strlen(name) + 1;
	struct diff_row *t = calloc(1, sizeof(*t) + size);

	if (!t)
		return;
	memcpy(t + 1, name, size);
	*t = (struct diff_row){
		.name = (char *)(t + 1), .kind = THING_WHOLE, .flags = flags, .v = {a, b}};
	d->things[d->cnt++] = t;
}

#define COUNT(x)   ((struct value){.cnt = (x)})
#define TIME(x)	   ((struct value){.ns = (x)})
#define BOTH(c, t) ((struct value){(c), (t)})
#define SIDES(x)   x[0], x[1]
#define WHOLE_MAX  32

static void add_whole(struct diff *d)
{
	struct iter_result it[2];
	struct memory_result mem[2];
	struct idle_result idle[2];
	struct wait_result wait[2];
	struct stage_result stage[2];
	struct driver_result drv[2];
	struct gpu_result gpu[2];
	bool redacted = d->report[0]->args_redacted || d->report[1]->args_redacted;
	struct value load[2], blocked[2], drivers[2];
	char name[32];

	for (int i = 0; i < 2; i++) {
		const struct stage_sum *l = &stage[i].stages[STAGE_LOAD];

		iter_result(d->report[i], &it[i]);
		memory_result(d->report[i], &mem[i]);
		idle_result(d->report[i], &idle[i]);
		wait_result(d->report[i], &wait[i]);
		stage_result(d->report[i], &stage[i]);
		driver_result(d->report[i], &drv[i]);
		gpu_result(d->report[i], &gpu[i]);
		load[i] = BOTH(l->call_cnt, l->wall_ns);
		blocked[i] = BOTH(wait[i].count, wait[i].total_ns);
		drivers[i] = BOTH(drv[i].ioctl_cnt, drv[i].total_ns);
	}
	add(d, "CUDA calls", VAL_CNT | VAL_TIME, SIDES(d->calls));
	add(d, "kernel launches", VAL_CNT | VAL_TIME, SIDES(d->launches));
	add(d, "failed calls", VAL_CNT, SIDES(d->errors));
	if (!redacted) {
		add(d, "iterations", VAL_CNT | VAL_ANALYSED, COUNT(it[0].count),
		    COUNT(it[1].count));
		add(d, "launches per iteration (median)", VAL_CNT | VAL_ANALYSED,
		    COUNT(it[0].dist[ITS_KERNELS].median), COUNT(it[1].dist[ITS_KERNELS].median));
		add(d, "time per iteration (median)", VAL_TIME | VAL_ANALYSED,
		    TIME(it[0].dist[ITS_TIME].median), TIME(it[1].dist[ITS_TIME].median));
		add(d, "calls while loading", VAL_CNT | VAL_TIME | VAL_ANALYSED, SIDES(load));
	}
	add(d, "blocking calls", VAL_CNT | VAL_TIME | VAL_ANALYSED, SIDES(blocked));
	if (!redacted) {
		add(d, "GPU idle", VAL_TIME | VAL_ANALYSED, TIME(idle[0].total_ns),
		    TIME(idle[1].total_ns));
		add(d, "GPU memory, peak", VAL_CNT | VAL_BYTES | VAL_ANALYSED,
		    COUNT(mem[0].device_peak), COUNT(mem[1].device_peak));
		add(d, "memory never freed", VAL_CNT | VAL_BYTES | VAL_ANALYSED,
		    COUNT(mem[0].leak_bytes), COUNT(mem[1].leak_bytes));
	}
	for (int dir = COPY_NONE + 1; !redacted && dir <= COPY_DIR_PEER; dir++) {
		snprintf(name, sizeof(name), "copied %s", copy_dir_name(dir));
		add(d, name, VAL_CNT | VAL_BYTES | VAL_TIME, d->copied[0][dir], d->copied[1][dir]);
	}
	/* A trace without GPU times has no idle GPU time. */
	if (gpu[0].executions && gpu[1].executions) {
		add(d, "GPU computed", VAL_TIME | VAL_ANALYSED, TIME(gpu[0].compute_ns),
		    TIME(gpu[1].compute_ns));
		add(d, "GPU copied", VAL_TIME | VAL_ANALYSED, TIME(gpu[0].copy_ns),
		    TIME(gpu[1].copy_ns));
		add(d, "GPU did both", VAL_TIME | VAL_ANALYSED, TIME(gpu[0].overlap_ns),
		    TIME(gpu[1].overlap_ns));
		if (gpu[0].comm_ns || gpu[1].comm_ns) {
			add(d, "GPU communicated", VAL_TIME | VAL_ANALYSED, TIME(gpu[0].comm_ns),
			    TIME(gpu[1].comm_ns));
			add(d, "GPU only communicated", VAL_TIME | VAL_ANALYSED,
			    TIME(gpu[0].alone_ns), TIME(gpu[1].alone_ns));
		}
		add(d, "GPU idle, measured", VAL_TIME | VAL_ANALYSED,
		    TIME(gpu[0].span_ns - gpu[0].busy_ns), TIME(gpu[1].span_ns - gpu[1].busy_ns));
		add(d, "wait for the GPU (median)", VAL_TIME | VAL_ANALYSED,
		    TIME(gpu[0].queue_p50_ns), TIME(gpu[1].queue_p50_ns));
	}
	if (drv[0].traced || drv[1].traced)
		add(d, "ioctls", VAL_CNT | VAL_TIME | VAL_ANALYSED, SIDES(drivers));
	add(d, "lost records", VAL_CNT, COUNT(d->lost[0]), COUNT(d->lost[1]));
}

static double ratio(const struct diff_row *t)
{
	return t->v[0].ns ? (double)t->v[1].ns / t->v[0].ns : INFINITY;
}

/* Do the times differ by more than noise? */
static bool time_differs(const struct diff_row *t)
{
	if (!(t->flags & VAL_TIME) || t->v[0].ns == t->v[1].ns)
		return false;
	return ratio(t) > 1 + DIFF_NOISE || ratio(t) < 1 / (1 + DIFF_NOISE);
}

/* The traces share the memory limit: a thing that was rejected in one of them is unknown. */
static bool is_unknown(const struct diff_row *t)
{
	return t->kind == THING_WHOLE
		       ? t->flags & VAL_ANALYSED
		       : !t->v[0].cnt || !t->v[1].cnt || !strcmp(t->name, STRINGS_FULL);
}

static void find_differences(struct diff *d)
{
	bool limited = diff_losses_of_limits();

	for (unsigned i = 0; i < d->cnt; i++) {
		struct diff_row *t = d->things[i];

		t->differs =
			!(limited && is_unknown(t)) &&
			((t->flags & VAL_CNT && t->v[0].cnt != t->v[1].cnt) || time_differs(t));
		d->differ_cnt += t->differs;
	}
}

static double moved_ns(const struct diff_row *t)
{
	return t->flags & VAL_TIME ? fabs((double)t->v[1].ns - (double)t->v[0].ns) : 0;
}

static double cnt_share(const struct diff_row *t)
{
	uint64_t most = t->v[0].cnt > t->v[1].cnt ? t->v[0].cnt : t->v[1].cnt;

	return most ? fabs((double)t->v[1].cnt - (double)t->v[0].cnt) / most : 0;
}

/* Things of the whole keep their order; functions and kernels are sorted by change. */
static int by_change(const void *a, const void *b)
{
	const struct diff_row *x = *(struct diff_row *const *)a, *y = *(struct diff_row *const *)b;

	if (x->kind != y->kind)
		return x->kind < y->kind ? -1 : 1;
	if (x->differs != y->differs)
		return x->differs ? -1 : 1;
	if (moved_ns(x) != moved_ns(y))
		return moved_ns(x) < moved_ns(y) ? 1 : -1;
	if (cnt_share(x) != cnt_share(y))
		return cnt_share(x) < cnt_share(y) ? 1 : -1;
	return strcmp(x->name, y->name);
}

static void take_all(struct diff *d, struct diff_row **table)
{
	struct diff_row *t, *next;

	HASH_ITER (hh, *table, t, next) {
		HASH_DEL(*table, t);
		d->things[d->cnt++] = t;
	}
}

/* Redacted in either trace; NULL: nothing. */
static const char *what_is_redacted(const struct diff *d)
{
	if (d->report[0]->args_redacted || d->report[1]->args_redacted)
		return "arguments";
	return d->info[0].redacted ?: d->info[1].redacted;
}

void diff__file(struct diff *d, int side, const struct saved_file *file)
{
	d->files[side] = *file;
}

unsigned diff__finish(struct diff *d)
{
	size_t max = WHOLE_MAX + HASH_COUNT(d->functions) + HASH_COUNT(d->kernels) +
		     HASH_COUNT(d->executions);
	unsigned whole;

	for (int i = 0; i < 2; i++) {
		report__finish(d->report[i], NULL, &d->files[i], 1);
		/* The limit applies to both reports together. */
		d->report[i]->lost.of_report = false;
	}
	d->things = calloc(max, sizeof(struct diff_row *));
	if (!d->things) {
		memlimit_reject(MEMLIMIT_COMPARED);
		return 0;
	}
	add_whole(d);
	whole = d->cnt;
	take_all(d, &d->functions);
	/* A redacted trace has no kernel names to compare. */
	if (!what_is_redacted(d))
		take_all(d, &d->kernels);
	if (!what_is_redacted(d) && d->has_gpu[0] && d->has_gpu[1])
		take_all(d, &d->executions);
	find_differences(d);
	qsort(d->things + whole, d->cnt - whole, sizeof(*d->things), by_change);
	return d->differ_cnt;
}

bool diff__is_incomplete(const struct diff *d)
{
	return diff_losses_any(d->report);
}

/* With missing records, equal sums do not prove equal traces. */
static const char *verdict_of(const struct diff *d)
{
	return d->differ_cnt ? "different" : diff__is_incomplete(d) ? "unknown" : "same";
}

static void put_cells(const struct diff_row *t, struct table_row *row)
{
	for (int i = 0; i < 2 && t->flags & VAL_CNT; i++) {
		if (t->flags & VAL_BYTES)
			human_bytes(row->cell[i], t->v[i].cnt);
		else
			human_count(row->cell[i], t->v[i].cnt);
	}
	for (int i = 0; i < 2 && t->flags & VAL_TIME; i++)
		human_time(row->cell[2 + i], t->v[i].ns);
	if (t->flags & VAL_TIME && t->v[0].ns)
		snprintf(row->cell[4], CELL_SZ, "%.2f%s", ratio(t), time_differs(t) ? "" : " ~");
}

static const char *verdict(const struct diff_row *t)
{
	if (t->kind == THING_WHOLE || !(t->flags & VAL_CNT))
		return "";
	return !t->v[0].cnt ? "new: " : !t->v[1].cnt ? "gone: " : "";
}

static void print_kind(const struct diff *d, const struct term *term, enum diff_kind kind,
		       const char *heads, unsigned top)
{
	char names[TABLE_ROWS][600];
	struct table t;
	unsigned n = 0, more = 0;

	table__init(&t, heads);
	for (unsigned i = 0; i < d->cnt; i++) {
		const struct diff_row *x = d->things[i];
		struct table_row *row;

		if (x->kind != kind || !x->differs)
			continue;
		if (n >= top || n >= TABLE_ROWS) {
			more++;
			continue;
		}
		snprintf(names[n], sizeof(names[n]), "%s%.500s", verdict(x), x->name);
		row = table__row(&t, names[n]);
		if (!row)
			continue;
		n++;
		put_cells(x, row);
	}
	if (!n)
		return;
	putc('\n', term->f);
	table__print(&t, term);
	if (more)
		term_para(term, "and %u more that differ", more);
}

void diff__print(const struct diff *d, const struct term *term, unsigned top)
{
	const char *mark = diff__is_incomplete(d) ? LOSSES_MARK : "";

	diff_losses_print(d->report, term);
	if (what_is_redacted(d))
		term_para(term, "Hidden: %s: values that depend on them are not compared.",
			  what_is_redacted(d));
	if (d->has_gpu[0] != d->has_gpu[1])
		term_para(term,
			  "Only the trace %s has GPU times (--gpu-time): they are not compared.",
			  d->has_gpu[0] ? "before" : "after");
	diff_verdict_print(d->report, term, DIFF_NOISE, mark);
	if (!d->differ_cnt && *mark) {
		term_para(term, "Not known: no recorded value differs, but a trace is incomplete.");
		return;
	}
	if (!d->differ_cnt) {
		term_para(term,
			  "Nothing changed: all counts are the same, and no time differs by more "
			  "than %.0f %%.",
			  DIFF_NOISE * 100);
		return;
	}
	term_section(term, "What changed",
		     "%u thing%s; counts are exact, a time that differs by less than %.0f %% is "
		     "noise (~)%s",
		     d->differ_cnt, plural(d->differ_cnt), DIFF_NOISE * 100, mark);
	print_kind(d, term, THING_WHOLE, "before|after|time|time|ratio|in all", TABLE_ROWS);
	print_kind(d, term, THING_FUNCTION, "before|after|time|time|ratio|function", top);
	print_kind(d, term, THING_KERNEL, "before|after|time|time|ratio|kernel", top);
	print_kind(d, term, THING_EXECUTION, "before|after|time|time|ratio|on the GPU", top);
}

void diff__json(const struct diff *d, struct json *j)
{
	static const char *const kinds[THING_KIND_CNT] = {"all", "functions", "kernels", "gpu"};

	json_open(j, NULL);
	json_u64(j, "diff", 1);
	diff_losses_json(d->report, j);
	json_sym(j, "verdict", verdict_of(d));
	json_u64(j, "changed", d->differ_cnt);
	json_f64(j, "noise", DIFF_NOISE);
	diff_verdict_json(d->report, j, DIFF_NOISE);
	if (what_is_redacted(d))
		json_str(j, "redacted", what_is_redacted(d));
	rejected_json(j);
	for (int k = 0; k < THING_KIND_CNT; k++) {
		json_open_array(j, kinds[k]);
		for (unsigned i = 0; i < d->cnt; i++) {
			const struct diff_row *t = d->things[i];

			if (t->kind != (enum diff_kind)k)
				continue;
			json_open(j, NULL);
			json_str(j, "name", t->name);
			json_bool(j, "changed", t->differs);
			if (t->flags & VAL_CNT) {
				json_u64(j, t->flags & VAL_BYTES ? "bytes_before" : "count_before",
					 t->v[0].cnt);
				json_u64(j, t->flags & VAL_BYTES ? "bytes_after" : "count_after",
					 t->v[1].cnt);
			}
			if (t->flags & VAL_TIME) {
				json_u64(j, "before_ns", t->v[0].ns);
				json_u64(j, "after_ns", t->v[1].ns);
			}
			json_close(j);
		}
		json_close_array(j);
	}
	json_close(j);
}

static void free_thing(struct diff_row *t)
{
	if (t->kind == THING_WHOLE)
		free(t);
	else
		memlimit_free(t);
}

void diff__free(struct diff *d)
{
	struct diff_row *t, *next;

	if (!d)
		return;
	HASH_ITER (hh, d->functions, t, next) {
		HASH_DEL(d->functions, t);
		free_thing(t);
	}
	HASH_ITER (hh, d->kernels, t, next) {
		HASH_DEL(d->kernels, t);
		free_thing(t);
	}
	HASH_ITER (hh, d->executions, t, next) {
		HASH_DEL(d->executions, t);
		free_thing(t);
	}
	for (unsigned i = 0; i < d->cnt; i++)
		free_thing(d->things[i]);
	free(d->things);
	report__free(d->report[0]);
	report__free(d->report[1]);
	free(d);
}
