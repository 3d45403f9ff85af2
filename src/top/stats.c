/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "stats.h"

#include "text/losses_text.h"
#include "util/clock.h"

#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Limits of processes, and of series of their functions. */
#define PROCS_MAX  4096
#define SERIES_MAX 400000

static void on_cause(void *ctx, struct dproc *p, enum cause why, uint64_t ns)
{
}

static unsigned long long ticks_now(void)
{
	return clock_ns(CLOCK_BOOTTIME) / (SEC_NS / sysconf(_SC_CLK_TCK));
}

int stats__open(struct top_stats *r, struct session *s)
{
	struct tracer *t = &s->t;
	struct quota *q = &t->quotas.of[QUOTA_LABELS];

	r->session = s;
	r->began = ticks_now();
	r->cfg = config__new();
	r->metrics = metrics__new(SERIES_MAX);
	if (!r->cfg || !r->metrics)
		return -ENOMEM;
	r->cfg->level = LEVEL_METRICS;
	q->max = q->share = PROCS_MAX;
	r->procs = (struct dprocs){
		.sources = &t->sources,
		.fns = t->fns,
		.metrics = r->metrics,
		.cfg = r->cfg,
		.root = "",
		.by_process = true,
		.quota = q,
		.caused = on_cause,
	};
	sources__set_default(&t->sources, dproc_kernel_level(r->cfg->level));
	for (unsigned id = 0; id < fnset__cnt(t->fns); id++)
		if (dprocs__is_always(&r->procs, t->o.attach.redact, fnset__fn(t->fns, id)))
			sources__set_always(&t->sources, id, true);
	return 0;
}

static void free_row(struct top_stats *r, struct top_row *row)
{
	top_row_table__del(&r->all, row);
	free(row->command);
	free(row->fns);
	free(row);
}

void stats__close(struct top_stats *r)
{
	hash_each (row, &r->all)
		free_row(r, row);
	thread_overhead__clear(&r->overhead);
	if (r->metrics)
		dprocs__free(&r->procs);
	metrics__free(r->metrics);
	config__free(r->cfg);
}

/* Identity */

/* NSS would be needed before the sandbox starts. */
static void user_name(uid_t uid, char *name, size_t size)
{
	FILE *f = fopen("/etc/passwd", "re");
	const struct passwd *pw;

	snprintf(name, size, "%u", uid);
	while (f && (pw = fgetpwent(f))) {
		if (pw->pw_uid != uid)
			continue;
		snprintf(name, size, "%s", pw->pw_name);
		break;
	}
	if (f)
		fclose(f);
}

static void name_row(struct top_row *row, const struct dproc *p)
{
	const struct labels *l = &p->labels;
	const char *in = l->pod[0]		? l->pod
			 : l->container_name[0] ? l->container_name
						: l->container;

	free(row->command);
	row->command = strdup(p->command ?: p->comm);
	if (*in)
		snprintf(row->owner, sizeof(row->owner), "%s", in);
	else
		user_name(p->uid, row->owner, sizeof(row->owner));
}

static struct top_row *get_row(struct top_stats *r, const struct dproc *p)
{
	const struct metrics_target *target = p->target;
	unsigned long long start;
	struct top_row *row;
	pid_t parent;

	row = top_row_table__find(&r->all, &target);
	if (!row) {
		row = top_row_table__new(&r->all, &target);
		if (!row)
			return NULL;
		row->pid = p->pid;
		row->is_late = target_stat(p->pid, &parent, &start) && start < r->began;
	}
	if (!row->command || strcmp(row->command, p->command ?: p->comm))
		name_row(row, p);
	return row;
}

/* Counts */

struct take_ctx {
	struct top_row *row;
	unsigned at;
};

static struct top_fn *get_fn(struct top_row *row, const struct api_fn *fn, unsigned hint)
{
	struct top_fn *grown;

	/* They come in the same order each time. */
	if (hint < row->fn_cnt && row->fns[hint].fn == fn)
		return &row->fns[hint];
	for (unsigned i = 0; i < row->fn_cnt; i++)
		if (row->fns[i].fn == fn)
			return &row->fns[i];
	grown = reallocarray(row->fns, row->fn_cnt + 1, sizeof(*grown));
	if (!grown)
		return NULL;
	row->fns = grown;
	grown[row->fn_cnt] = (struct top_fn){.fn = fn};
	return &grown[row->fn_cnt++];
}

/* A counted copy without a size argument adds nothing to the copied bytes. */
static bool is_unsized(const struct api_fn *fn)
{
	struct ct_spec spec;

	if (!op_does(fn->op, DOES_COPY))
		return false;
	api_fn_spec(fn, &spec);
	return !spec.bytes_word;
}

static void take_fn(void *ctx, const struct api_fn *fn, const struct metrics_fn *sums)
{
	struct take_ctx *t = ctx;
	struct top_row *row = t->row;
	struct top_fn *f = get_fn(row, fn, t->at++);

	row->now.calls += sums->calls;
	row->now.errors += sums->errors;
	if (op_does(fn->op, DOES_WAIT))
		row->now.wait_ns += sums->total_ns;
	if (f)
		f->now = *sums;
}

static void take_numbers(struct top_row *row)
{
	struct take_ctx t = {.row = row};
	uint64_t waited = row->now.wait_ns, cost = row->now.cost_ns;

	row->now = (struct top_sums){
		.launches = metrics__launches(row->target),
		.copied = metrics__copied(row->target),
		.cost_ns = cost,
	};
	metrics__each_fn(row->target, take_fn, &t);
	row->now.wait_ns += row->in_flight_ns;
	/* A call that returned between the two readings is counted once. */
	if (row->now.wait_ns < waited)
		row->now.wait_ns = waited;
}

/* Events */

static void on_end(struct top_stats *r, struct dproc *p, const struct trace_event *ev)
{
	struct top_row *row = get_row(r, p);

	dprocs__remove(&r->procs, p, ev->generation);
	if (!row)
		return;
	row->in_flight_ns = 0;
	take_numbers(row);
	memset(&row->mem, 0, sizeof(row->mem));
	row->ended = true;
}

static void on_exec(struct top_stats *r, struct dproc *p, const struct trace_event *ev)
{
	struct top_row *row;

	dprocs__exec(&r->procs, p, ev->generation);
	row = get_row(r, p);
	if (row)
		row->is_late = false;
}

void stats__event(struct top_stats *r, const struct trace_event *ev)
{
	struct dproc *p = dprocs__of(&r->procs, ev);
	bool is_exit = ev->kind == EVENT_PROCESS && !strcmp(ev->op, "exit");

	metrics__event(r->metrics, p ? p->target : metrics__others(r->metrics), ev);
	if (is_exit && (!p || p->pid != ev->pid))
		dprocs__take_unknown(&r->procs, ev->pid, ev->generation);
	if (!p || p->pid != ev->pid)
		return;
	if (ev->kind == EVENT_CALL && ev->has_mem)
		dproc__set_memory(p, &ev->mem);
	if (is_exit)
		on_end(r, p, ev);
	else if (ev->kind == EVENT_PROCESS && !strcmp(ev->op, "exec"))
		on_exec(r, p, ev);
}

void stats__use(struct top_stats *r, uint32_t pid, const char comm[16])
{
	dprocs__get(&r->procs, pid, comm);
}

void stats__expect(struct top_stats *r, uint32_t pid)
{
	const struct dproc *p = target_exists(pid) ? dprocs__get(&r->procs, pid, NULL) : NULL;
	struct top_row *row = p ? get_row(r, p) : NULL;

	if (row)
		row->is_expected = true;
}

void stats__forget_fn(struct top_stats *r, unsigned func_id)
{
	const struct api_fn *fn = fnset__fn(r->procs.fns, func_id);

	hash_each (row, &r->all)
		for (unsigned i = 0; i < row->fn_cnt; i++)
			if (row->fns[i].fn == fn)
				row->fns[i] = row->fns[--row->fn_cnt];
	metrics__forget_fn(r->metrics, fn);
}

/* Intervals */

static void on_thread(void *ctx, const struct seen_thread *t, uint64_t since_ns)
{
	struct top_stats *r = ctx;
	const struct dproc *p = dprocs__find(&r->procs, t->pid);
	struct top_row *row = p ? get_row(r, p) : NULL;

	if (!row)
		return;
	row->now.cost_ns += since_ns;
	for (unsigned i = 0; i < t->depth; i++) {
		const struct api_fn *fn = fnset__fn(r->procs.fns, t->frames[i].func_id);
		uint64_t start = t->frames[i].start_ns;

		if (!fn || !op_does(fn->op, DOES_WAIT))
			continue;
		row->in_flight_ns += r->to_ns > start ? r->to_ns - start : 0;
		return;
	}
}

static void read_totals(struct top_stats *r)
{
	struct tracer *t = &r->session->t;
	struct trace_end end = {0};
	struct ct_totals sum;

	sources__totals(&t->sources, &sum);
	r->cost_diff_ns = sum.cost_ns > r->cost_ns ? sum.cost_ns - r->cost_ns : 0;
	r->cost_ns = sum.cost_ns;
	memcpy(end.drops, sum.drops, sizeof(end.drops));
	end.bad_record_cnt = sources__bad_records(&t->sources) + model__bad_records(t->model);
	r->lost = trace_lost(&end) + end.drops[CT_DROP_CTXSW] + end.bad_record_cnt;
	for (unsigned i = 0; i < QUOTA_CNT; i++)
		end.full[i] = t->quotas.of[i].full_cnt;
	r->losses = r->session->lost;
	losses__end(&r->losses, &end);
	losses_line(&r->losses, r->lost_what, sizeof(r->lost_what));
	r->unlisted = t->quotas.of[QUOTA_LABELS].full_cnt + metrics__rejected(r->metrics);
}

/* Counters vanish when series are dropped to make space. */
static uint64_t less(uint64_t now, uint64_t was)
{
	return now > was ? now - was : 0;
}

static void end_fn(struct top_row *row, struct top_fn *f)
{
	const struct metrics_fn *now = &f->now, *was = &f->was;

	f->diff = (struct metrics_fn){
		.calls = less(now->calls, was->calls),
		.timed = less(now->timed, was->timed),
		.total_ns = less(now->total_ns, was->total_ns),
		.errors = less(now->errors, was->errors),
	};
	f->was = *now;
	row->unsized |= f->diff.calls && is_unsized(f->fn);
}

static void end_row(struct top_row *row)
{
	const struct top_sums *now = &row->now, *was = &row->was;

	row->diff = (struct top_sums){
		.calls = less(now->calls, was->calls),
		.errors = less(now->errors, was->errors),
		.launches = less(now->launches, was->launches),
		.copied = less(now->copied, was->copied),
		.wait_ns = less(now->wait_ns, was->wait_ns),
		.cost_ns = less(now->cost_ns, was->cost_ns),
	};
	row->was = *now;
	row->unsized = false;
	for (unsigned i = 0; i < row->fn_cnt; i++)
		end_fn(row, &row->fns[i]);
	row->was_shown = row->ended;
	row->is_shown = now->calls || row->is_expected;
}

static void begin(struct top_stats *r, uint64_t now)
{
	r->from_ns = r->to_ns;
	r->to_ns = now;
	hash_each (row, &r->all) {
		row->in_flight_ns = 0;
		if (row->was_shown)
			free_row(r, row);
	}
}

void stats__read(struct top_stats *r, uint64_t now)
{
	struct top_row *row;

	begin(r, now);
	/* Records first: they precede the counts read now. */
	tracer__drain(&r->session->t);
	thread_overhead__update(&r->overhead, &r->session->t.sources, on_thread, r);
	dprocs__read_counts(&r->procs);
	hash_each (p, &r->procs.by_pid) {
		row = get_row(r, p);
		if (!row)
			continue;
		row->mem = p->mem;
		take_numbers(row);
	}
	r->shown_cnt = 0;
	hash_each (row, &r->all) {
		end_row(row);
		r->shown_cnt += row->is_shown;
	}
	read_totals(r);
}

struct top_sums stats__sums(const struct top_stats *r, uint64_t *device_bytes)
{
	struct top_sums sum = {.cost_ns = r->cost_diff_ns};

	*device_bytes = 0;
	hash_each (row, &r->all) {
		*device_bytes += row->mem.bytes[MEM_DEVICE];
		sum.calls += row->diff.calls;
		sum.errors += row->diff.errors;
		sum.launches += row->diff.launches;
		sum.copied += row->diff.copied;
		sum.wait_ns += row->diff.wait_ns;
	}
	return sum;
}
