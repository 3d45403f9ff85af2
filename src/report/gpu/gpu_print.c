/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "gpu_priv.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "text/kernel_name.h"
#include "util/plural.h"

#define WORDS_SZ 512

/* --- JSON --- */

static void put_sum(struct json *j, const struct gpu_sum *s)
{
	json_u64(j, "count", s->cnt);
	json_u64(j, "total_ns", s->ns);
	json_u64(j, "min_ns", s->min);
	json_u64(j, "max_ns", s->max);
	json_f64(j, "mean_ns", ratio_of(s->ns, s->cnt));
	if (s->queue_cnt)
		json_f64(j, "queue_ns", ratio_of(s->queue_ns, s->queue_cnt));
}

static void put_gaps(const struct gpu *g, struct json *j, const struct gpu_busy *b)
{
	json_open_array(j, "gaps");
	for (unsigned i = 0; i < GPU_GAP_CLASSES; i++) {
		json_open(j, NULL);
		if (gpu_gap_below[i] != UINT64_MAX)
			json_u64(j, "below_ns", gpu_gap_below[i]);
		json_u64(j, "count", b->gaps[i].cnt);
		json_u64(j, "total_ns", b->gaps[i].ns);
		json_close(j);
	}
	json_close_array(j);
	if (!b->longest_gap)
		return;
	json_u64(j, "longest_gap_ns", b->longest_gap);
	report_json_ts(g->r, j, "longest_gap_ts", b->longest_gap_at);
}

static void put_text(struct json *j, const char *name, const char *text)
{
	if (*text)
		json_str(j, name, text);
}

static void put_number(struct json *j, const char *name, uint32_t n)
{
	if (n)
		json_u64(j, name, n);
}

/* Which GPU it is. */
static void put_identity(struct json *j, const struct gpu_device *d)
{
	json_u64(j, "device", d->number);
	if (d->is.is_known)
		json_str(j, "uuid", d->is.uuid);
	if (d->is.has_index)
		json_u64(j, "nvml_index", d->is.index);
	put_text(j, "pci", d->is.pci);
	put_text(j, "model", d->is.model);
	put_number(j, "capability", d->is.capability);
	put_number(j, "multiprocessors", d->is.sm_cnt);
	put_number(j, "clock_khz", d->is.clock_khz);
	json_u64(j, "processes", d->pid_cnt);
	if (d->is_shared)
		json_bool(j, "shared", true);
}

static void put_device(const struct gpu *g, struct json *j, const struct gpu_device *d)
{
	const struct gpu_busy *b = &d->busy;

	json_open(j, NULL);
	put_identity(j, d);
	if (d->clock)
		json_u64(j, "trace", d->trace);
	json_u64(j, "executions", d->executions);
	report_json_ts(g->r, j, "first_ts", b->first);
	json_u64(j, "span_ns", gpu_device__span(d));
	json_u64(j, "busy_ns", b->parts[GPU_ANY].total);
	json_u64(j, "compute_ns", b->parts[GPU_COMPUTE].total);
	json_u64(j, "copy_ns", b->parts[GPU_COPYING].total);
	json_u64(j, "overlap_ns", gpu_busy__overlap(b));
	json_u64(j, "communicating_ns", b->parts[GPU_COMMUNICATING].total);
	json_u64(j, "alone_ns", gpu_busy__alone(b));
	json_u64(j, "idle_ns", gpu_device__idle(d));
	json_u64(j, "late", b->late_cnt);
	put_gaps(g, j, b);
	json_close(j);
}

static const char *dir_name(unsigned dir)
{
	return dir == COPY_NONE ? "unknown" : copy_dir_name(dir);
}

static void put_copies(const struct gpu *g, struct json *j)
{
	json_open_array(j, "copies");
	for (unsigned i = 0; i < GPU_DIR_CNT; i++) {
		const struct gpu_sum *s = &g->copies[i];

		if (!s->cnt)
			continue;
		json_open(j, NULL);
		json_sym(j, "direction", dir_name(i));
		put_sum(j, s);
		json_u64(j, "bytes", s->bytes);
		json_f64(j, "gbps", ratio_of(s->bytes, s->ns));
		json_close(j);
	}
	json_close_array(j);
}

static void put_one(struct json *j, const char *name, const struct gpu_sum *s)
{
	if (!s->cnt)
		return;
	json_open(j, name);
	put_sum(j, s);
	json_close(j);
}

/* Why nothing is known of iterations. */
static void coarse_words(const struct gpu_result *res, char text[WORDS_SZ])
{
	char piece[CELL_SZ];

	human_time(piece, res->iter_coarse_ns);
	snprintf(
		text, WORDS_SZ,
		"the trace is too long for iterations as short as these: the GPU's time is kept in "
		"pieces of %s, and an iteration has fewer than %d of them; trace for a shorter "
		"time (--duration)",
		piece, ITER_PIECES);
}

void gpu_json(const void *a, struct json *j)
{
	const struct gpu *g = a;
	const struct gpu_result *res = &g->res;
	char text[WORDS_SZ];

	json_open(j, gpu_ops.name);
	json_u64(j, "executions", res->executions);
	json_u64(j, "rejected", g->lost_cnt);
	json_open_array(j, "devices");
	for (unsigned i = 0; i < g->devices.cnt; i++)
		put_device(g, j, g->devices.of[i]);
	json_close_array(j);
	json_open_array(j, "kernels");
	for (unsigned i = 0; i < g->sorted_cnt && i < g->r->opts.top; i++) {
		json_open(j, NULL);
		json_str(j, "name", g->sorted[i]->name);
		put_sum(j, g->sorted[i]);
		json_f64(j, "share", ratio_of(g->sorted[i]->ns, g->all.ns));
		json_close(j);
	}
	json_close_array(j);
	put_copies(g, j);
	put_one(j, "memset", &g->memset);
	put_one(j, "graphs", &g->graphs);
	if (g->all.queue_cnt) {
		json_open(j, "queue");
		json_u64(j, "count", g->all.queue_cnt);
		json_u64(j, "p50_ns", res->queue_p50_ns);
		json_u64(j, "p99_ns", res->queue_p99_ns);
		json_close(j);
	}
	if (res->gpu_bound || res->host_bound) {
		json_open(j, "iterations");
		json_u64(j, "gpu_bound", res->gpu_bound);
		json_u64(j, "host_bound", res->host_bound);
		json_f64(j, "busy_share_median", res->iter_busy_median);
		json_f64(j, "communicating_share_median", res->iter_comm_median);
		json_f64(j, "alone_share_median", res->iter_alone_median);
		json_close(j);
	}
	if (res->iter_coarse_ns) {
		coarse_words(res, text);
		json_str(j, "iterations_unknown", text);
	}
	json_close(j);
}

/* --- text --- */

#define GPU_NAME_SZ (DEVICE_LABEL_SZ + 24)

static void put_name(char buf[GPU_NAME_SZ], const struct gpu_device *d)
{
	size_t n;

	device_label(buf, &d->is, d->number);
	n = strlen(buf);
	/* Another machine has other devices. */
	if (d->clock)
		snprintf(buf + n, GPU_NAME_SZ - n, " of trace %" PRIu32, d->trace);
}

static void print_devices(const struct gpu *g, const struct term *term)
{
	char name[GPU_DEVICES_MAX][GPU_NAME_SZ];
	struct table tab;

	table__init(&tab, "count|span|compute|copy|both|idle|of span|device");
	for (unsigned i = 0; i < g->devices.cnt; i++) {
		const struct gpu_busy *b = &g->devices.of[i]->busy;
		uint64_t span = gpu_device__span(g->devices.of[i]);
		uint64_t idle = gpu_device__idle(g->devices.of[i]);
		struct table_row *r;

		put_name(name[i], g->devices.of[i]);
		r = table__row(&tab, name[i]);
		if (!r)
			break;
		human_count(r->cell[0], g->devices.of[i]->executions);
		human_time(r->cell[1], span);
		human_time(r->cell[2], b->parts[GPU_COMPUTE].total);
		human_time(r->cell[3], b->parts[GPU_COPYING].total);
		human_time(r->cell[4], gpu_busy__overlap(b));
		human_time(r->cell[5], idle);
		human_share(r->cell[6], idle, span);
	}
	table__print(&tab, term);
}

/* How much of the communication has other work beside it. */
static void print_communication(const struct gpu *g, const struct term *term)
{
	char name[GPU_DEVICES_MAX][GPU_NAME_SZ];
	struct table tab;

	if (!g->res.comm_ns)
		return;
	table__init(&tab, "communicates|beside other work|alone|of span|device");
	for (unsigned i = 0; i < g->devices.cnt; i++) {
		const struct gpu_device *d = g->devices.of[i];
		uint64_t comm = d->busy.parts[GPU_COMMUNICATING].total;
		uint64_t alone = gpu_busy__alone(&d->busy);
		struct table_row *r;

		if (d->is_shared)
			continue;
		put_name(name[i], d);
		r = table__row(&tab, name[i]);
		if (!r)
			break;
		human_time(r->cell[0], comm);
		human_time(r->cell[1], comm > alone ? comm - alone : 0);
		human_time(r->cell[2], alone);
		human_share(r->cell[3], alone, gpu_device__span(d));
	}
	table__print(&tab, term);
	putc('\n', term->f);
}

static void put_sum_row(struct table_row *r, const struct gpu *g, const struct gpu_sum *s)
{
	human_count(r->cell[0], s->cnt);
	human_time(r->cell[1], s->ns);
	human_share(r->cell[2], s->ns, g->all.ns);
	human_time(r->cell[3], ratio_of(s->ns, s->cnt));
	human_time(r->cell[4], s->max);
}

static void print_sum(struct table *tab, const struct gpu *g, const char *name,
		      const struct gpu_sum *s)
{
	struct table_row *r = s->cnt ? table__row(tab, name) : NULL;

	if (!r)
		return;
	put_sum_row(r, g, s);
	if (s->bytes)
		human_rate(r->cell[5], s->bytes, s->ns);
}

/* All but kernels. */
static void print_others(const struct gpu *g, const struct term *term)
{
	static const char *const copies[GPU_DIR_CNT] = {
		[COPY_NONE] = "copies",		 [COPY_DIR_HTOD] = "copies HtoD",
		[COPY_DIR_DTOH] = "copies DtoH", [COPY_DIR_DTOD] = "copies DtoD",
		[COPY_DIR_HTOH] = "copies HtoH", [COPY_DIR_PEER] = "copies between GPUs",
	};
	struct table tab;

	table__init(&tab, "count|GPU time|share|mean|longest|bandwidth|executed");
	print_sum(&tab, g, "graphs", &g->graphs);
	for (unsigned i = 0; i < GPU_DIR_CNT; i++)
		print_sum(&tab, g, copies[i], &g->copies[i]);
	print_sum(&tab, g, "memsets", &g->memset);
	if (!tab.row_cnt)
		return;
	table__print(&tab, term);
	putc('\n', term->f);
}

#define NAME_SZ 256
static void print_kernels(const struct gpu *g, const struct term *term)
{
	unsigned rows = report_rows(term, g->r->opts.top);
	char names[TABLE_ROWS][NAME_SZ];
	struct table tab;

	table__init(&tab, "count|GPU time|share|mean|longest|queued|kernel");
	for (unsigned i = 0; i < g->sorted_cnt && i < rows && i < TABLE_ROWS; i++) {
		const struct gpu_sum *s = g->sorted[i];
		struct table_row *r = table__row(&tab, names[i]);
		size_t len = 0;
		const char *name = s->name ? kernel_short_name(s->name, &len) : "";

		snprintf(names[i], NAME_SZ, "%.*s", (int)len, name);
		if (!s->name)
			snprintf(names[i], NAME_SZ, "without a name");
		if (!r)
			break;
		put_sum_row(r, g, s);
		if (s->queue_cnt)
			human_time(r->cell[5], ratio_of(s->queue_ns, s->queue_cnt));
	}
	if (!tab.row_cnt)
		return;
	table__print(&tab, term);
	if (g->sorted_cnt > rows)
		fprintf(term->f, "  and %u more kernel%s\n", g->sorted_cnt - rows,
			plural(g->sorted_cnt - rows));
}

static void print_line(const struct term *term, const char *text)
{
	fputs("  ", term->f);
	term_text(term, text, 2);
}

static void print_words(const struct gpu *g, const struct term *term)
{
	const struct gpu_result *res = &g->res;
	const struct trace_end *end = g->r->end;
	char a[CELL_SZ], b[CELL_SZ], text[WORDS_SZ + 96], why[WORDS_SZ];

	if (g->all.queue_cnt) {
		human_time(a, res->queue_p50_ns);
		human_time(b, res->queue_p99_ns);
		snprintf(text, sizeof(text),
			 "From a call to its start on the GPU: median %s, 99 %% below %s", a, b);
		print_line(term, text);
	}
	if (res->gpu_bound || res->host_bound) {
		human_count(a, res->gpu_bound);
		human_count(b, res->host_bound);
		snprintf(
			text, sizeof(text),
			"Iterations: %s bound by the GPU, %s by the host; the GPU is busy for %.0f %% "
			"of the median one",
			a, b, 100 * res->iter_busy_median);
		print_line(term, text);
	}
	if (res->iter_coarse_ns) {
		coarse_words(res, why);
		snprintf(text, sizeof(text),
			 "Iterations: whether the GPU or the host binds them is not known: %s",
			 why);
		print_line(term, text);
	}
	if (res->iter_comm_median > 0) {
		snprintf(
			text, sizeof(text),
			"NCCL's kernels run for %.1f %% of the median iteration, for %.1f %% with nothing "
			"beside them",
			100 * res->iter_comm_median, 100 * res->iter_alone_median);
		print_line(term, text);
	}
	if (!end || !end->gpu.on)
		return;
	human_count(a, end->gpu.launches_untimed);
	human_count(b, end->gpu.launches_timed + end->gpu.launches_untimed);
	snprintf(
		text, sizeof(text),
		"Without a time: %s of %s launches; %llu records dropped by CUPTI, %llu without times, %llu "
		"not read in time, %llu without their call; times are accurate to %llu ns",
		a, b, (unsigned long long)end->gpu.dropped, (unsigned long long)end->gpu.untimed,
		(unsigned long long)end->gpu.lost, (unsigned long long)end->gpu.no_call,
		(unsigned long long)end->gpu.clock_error_ns);
	print_line(term, text);
}

void gpu_print(const void *a, const struct term *term)
{
	const struct gpu *g = a;

	if (!g->all.cnt)
		return;
	putc('\n', term->f);
	term_bold(term, "On the GPU\n");
	print_devices(g, term);
	if (g->res.shared)
		term_para(term, GPU_SHARED_WORDS);
	putc('\n', term->f);
	print_communication(g, term);
	print_others(g, term);
	print_kernels(g, term);
	print_words(g, term);
}
