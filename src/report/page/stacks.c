/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The stage of a call is known only at the end of the trace (stage.h). Calls are summed by
 * function, kernel and slice of time. Slices grow when there are too many sums; at the end each
 * gets the stage of its middle.
 */
#include "stacks.h"

#include <stdlib.h>
#include <string.h>

#include "model/call.h"
#include "report/section.h"
#include "report/time/stage.h"
#include "util/hash_table.h"
#include "util/memlimit.h"

/* Beyond the first two limits slices get longer. The others limit one process, also for rows within
 * a slice. Names are kernel names, counted once per row. */
#define SUMS_MAX      (MEMLIMIT_FLAME_MAX / 4)
#define SUM_NAMES_SZ  (16u << 20)
#define NAMES_SZ      (2 * SUM_NAMES_SZ)
#define FIRST_STEP_NS 1000000

struct sum_key {
	const struct api_fn *fn;
	const char *kernel; /* interned */
	uint32_t pid;
	uint32_t slice;
};

struct sum {
	struct hash_link link;
	struct sum_key key;
	uint64_t cnt, ns;
};
HASH_TABLE(sum, key);

/* Name of a process. */
struct name {
	struct hash_link link;
	uint32_t pid;
	char text[20]; /* "process 4711" */
};
HASH_TABLE(name, pid);

#define RECENT 256

struct stacks {
	const struct report *r;
	struct memlimit_share rows, names_sz;
	struct sum_table sums;
	struct sum *recent[RECENT]; /* cache of sums: stacks repeat */
	uint64_t step_ns;
	struct folded_stack *folded;
	struct name_table names;
	unsigned folded_cnt;
};

static void *stacks_new(struct report *r)
{
	struct stacks *s = calloc(1, sizeof(*s));

	if (s) {
		s->r = r;
		s->step_ns = FIRST_STEP_NS;
	}
	return s;
}

static size_t name_sz(const struct sum_key *key)
{
	return key->kernel ? strlen(key->kernel) : 0;
}

static struct sum *sum_new(struct stacks *s, const struct sum_key *key)
{
	struct sum *sum = NULL;

	if (!memlimit_charge(&s->rows, 1, MEMLIMIT_FLAME_MAX, MEMLIMIT_FLAME))
		return NULL;
	if (memlimit_charge(&s->names_sz, name_sz(key), NAMES_SZ, MEMLIMIT_FLAME)) {
		sum = memlimit_new(MEMLIMIT_FLAME, sizeof(*sum));
		if (!sum)
			memlimit_uncharge(&s->names_sz, NULL, name_sz(key));
	}
	if (!sum) {
		memlimit_uncharge(&s->rows, NULL, 1);
		return NULL;
	}
	sum->key = *key;
	return sum;
}

static void sum_free(struct stacks *s, struct sum *sum)
{
	memlimit_uncharge(&s->rows, sum, 1);
	memlimit_uncharge(&s->names_sz, sum, name_sz(&sum->key));
	memlimit_free(sum);
}

/* NULL: limit reached, or no memory. */
static struct sum *sum_get(struct stacks *s, const struct sum_key *key)
{
	struct sum *sum = sum_table__find(&s->sums, key);

	if (sum)
		return sum;
	sum = sum_new(s, key);
	if (!sum || !sum_table__add(&s->sums, sum))
		return sum;
	memlimit_reject(MEMLIMIT_FLAME);
	sum_free(s, sum);
	return NULL;
}

static struct sum *sum_recent(struct stacks *s, const struct sum_key *key)
{
	uintptr_t mix = (uintptr_t)key->fn / 16 + (uintptr_t)key->kernel / 16 * 7 + key->pid;
	struct sum **at = &s->recent[mix % RECENT];

	if (!*at || memcmp(&(*at)->key, key, sizeof(*key)))
		*at = sum_get(s, key);
	return *at;
}

/* Doubles the length of slices by merging pairs. */
static void coarsen(struct stacks *s)
{
	struct sum_table table = {0};
	struct sum *sum;

	s->step_ns *= 2;
	memset(s->recent, 0, sizeof(s->recent));
	while ((sum = sum_table__pop(&s->sums))) {
		struct sum *both;

		sum->key.slice /= 2;
		both = sum_table__find(&table, &sum->key);
		if (!both && !sum_table__add(&table, sum))
			continue;
		if (both) {
			both->cnt += sum->cnt;
			both->ns += sum->ns;
		} else {
			memlimit_reject(MEMLIMIT_FLAME);
		}
		sum_free(s, sum);
	}
	s->sums = table;
}

static void stacks_event(void *a, const struct trace_event *ev)
{
	struct stacks *s = a;
	struct sum_key key;
	struct sum *sum;
	uint64_t at;

	if (ev->kind != EVENT_CALL || !ev->fn || !call_is_top(ev))
		return;
	at = ev->start_ns > s->r->base_ns ? ev->start_ns - s->r->base_ns : 0;
	while (at / s->step_ns > UINT32_MAX)
		coarsen(s);
	memset(&key, 0, sizeof(key));
	key.fn = ev->fn;
	key.kernel = ev->has & HAS_LAUNCH ? ev->launch.kernel : NULL;
	key.pid = ev->pid;
	key.slice = at / s->step_ns;
	sum = sum_recent(s, &key);
	if (sum) {
		sum->cnt++;
		sum->ns += event_returned(ev) ? event_duration_ns(ev) : 0;
	}
	while ((hash_cnt(&s->sums) > SUMS_MAX || s->names_sz.used > SUM_NAMES_SZ) && key.slice) {
		coarsen(s);
		key.slice /= 2;
	}
}

/* Consecutive stages are found by their start; within inference the function decides. */
static enum stage stage_at(const struct stage_result *res, uint64_t ns, const struct api_fn *fn)
{
	static const enum stage phases[] = {STAGE_INIT, STAGE_LOAD, STAGE_WARMUP, STAGE_INFERENCE,
					    STAGE_CLEANUP};
	enum stage at = STAGE_OTHER;

	for (size_t i = 0; i < sizeof(phases) / sizeof(phases[0]); i++) {
		const struct stage_sum *sum = &res->stages[phases[i]];

		if ((sum->call_cnt || sum->wall_ns) && sum->first_ns <= ns)
			at = phases[i];
	}
	if (at != STAGE_INFERENCE)
		return at;
	if (fn->class == CLASS_SYNC)
		return STAGE_SYNC;
	if (op_desc[fn->op].dir == COPY_DIR_HTOD)
		return STAGE_INPUT;
	return op_desc[fn->op].dir == COPY_DIR_DTOH ? STAGE_OUTPUT : at;
}

static const char *process_name(struct stacks *s, uint32_t pid)
{
	struct name *n = name_table__find(&s->names, &pid) ?: name_table__new(&s->names, &pid);

	if (!n)
		return "process";
	snprintf(n->text, sizeof(n->text), "process %u", pid);
	return n->text;
}

static int by_frames(const void *a, const void *b)
{
	const struct folded_stack *x = a, *y = b;

	for (int i = 0; i < STACK_DEPTH; i++) {
		int cmp;

		if (!x->frames[i] || !y->frames[i])
			return !!x->frames[i] - !!y->frames[i];
		cmp = strcmp(x->frames[i], y->frames[i]);
		if (cmp)
			return cmp;
	}
	return 0;
}

static void merge_equal(struct stacks *s)
{
	unsigned n = 0;

	for (unsigned i = 0; i < s->folded_cnt; i++) {
		struct folded_stack *f = &s->folded[i];

		if (n && !by_frames(&s->folded[n - 1], f)) {
			s->folded[n - 1].cnt += f->cnt;
			s->folded[n - 1].total_ns += f->total_ns;
		} else {
			s->folded[n++] = *f;
		}
	}
	s->folded_cnt = n;
}

static void stacks_finish(void *a)
{
	struct stacks *s = a;
	struct stage_result stages;

	stage_result(s->r, &stages);
	s->folded = calloc(hash_cnt(&s->sums) + 1, sizeof(*s->folded));
	hash_each (sum, &s->sums) {
		uint64_t mid = s->r->base_ns + sum->key.slice * s->step_ns + s->step_ns / 2;
		const struct api_fn *fn = sum->key.fn;

		if (s->folded)
			s->folded[s->folded_cnt++] = (struct folded_stack){
				.frames = {process_name(s, sum->key.pid),
					   stage_name(stage_at(&stages, mid, fn)),
					   api_class_name(fn->class), fn->name, sum->key.kernel},
				.cnt = sum->cnt,
				.total_ns = sum->ns,
				.class = fn->class,
			};
		sum_table__del(&s->sums, sum);
		sum_free(s, sum);
	}
	/* events may follow */
	memset(s->recent, 0, sizeof(s->recent));
	if (!s->folded)
		return;
	qsort(s->folded, s->folded_cnt, sizeof(*s->folded), by_frames);
	merge_equal(s);
}

static unsigned depth_of(const struct folded_stack *f)
{
	unsigned n = 0;

	while (n < STACK_DEPTH && f->frames[n])
		n++;
	return n;
}

#define SECTION_STATE struct stacks
#define SECTION_ROWS  "report/page/stacks.section"
#include "report/section_rows.h"

static void stacks_free(void *a)
{
	struct stacks *s = a;

	while (s->sums.first)
		sum_free(s, sum_table__pop(&s->sums));
	memlimit_share_free(&s->rows);
	memlimit_share_free(&s->names_sz);
	name_table__free(&s->names);
	free(s->folded);
	free(s);
}

const struct folded_stack *stacks_folded(const struct report *r, unsigned *cnt)
{
	const struct stacks *s = r->an[AN_STACKS];

	*cnt = s ? s->folded_cnt : 0;
	return s ? s->folded : NULL;
}

const struct analysis_ops stacks_ops = {
	.name = "stacks",
	.new = stacks_new,
	.event = stacks_event,
	.finish = stacks_finish,
	.section = &stacks_table,
	.is_list = true,
	.free = stacks_free,
};
