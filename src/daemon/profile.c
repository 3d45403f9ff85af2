/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "profile.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attach/levels.h"
#include "model/call.h"
#include "report/collect.h"
#include "report/page/pprof.h"
#include "util/hash_table.h"
#include "util/out.h"

#define FRAMES_MAX 192
/* The latest sampled calls, and processes with functions. */
#define CALLS_MAX  4096
#define RECENT_FNS 1024

struct text {
	struct hash_link link;
	char bytes[];
};
HASH_TABLE_TYPE(text);
HASH_TABLE_BYTES(text, bytes);

/* Texts are interned; NULL: none. */
struct place {
	const char *process, *container, *pod, *namespace, *thread, *function, *leaf, *stage;
	uint64_t device, stream;       /* 1 + the number; 0: none */
	uint64_t iteration, group_len; /* first of its group, from 1; iterations in a group */
	uint32_t pid, tid;
	uint64_t frame_cnt;
	struct dprofile_frame frames[];
};

struct row {
	struct hash_link link;
	const void *key;   /* at */
	struct row *total; /* its process, stage and function, with exact values; NULL: this is one
			    */
	uint64_t v[PROFILE_VALUE_CNT];
	/* A total: the sum of its rows, and the part that rows have received so far. */
	uint64_t sampled[PROFILE_VALUE_CNT], passed[PROFILE_VALUE_CNT], given[PROFILE_VALUE_CNT];
	uint64_t may_wait_ns; /* host time of counted calls, some of which may have waited */
	struct place at;
};
HASH_TABLE_TYPE(row);
HASH_TABLE_BYTES(row, key);

struct dprofile {
	struct text_table texts;
	struct row_table totals, rows;
	size_t bytes;
	uint64_t rest[PROFILE_VALUE_CNT];
	struct dprofile_sums sums;
	struct {
		const struct dproc *p;
		uint32_t pid;
		ct_generation generation;
		const struct api_fn *fn;
		const char *stage;
		struct row *total;
	} recent[RECENT_FNS];
	struct {
		uint64_t id;
		uint32_t pid;
		struct row *row;
	} calls[CALLS_MAX];
	struct place scratch; /* with FRAMES_MAX frames behind it */
};

struct dprofile *dprofile__new(void)
{
	return calloc(1, sizeof(struct dprofile) + FRAMES_MAX * sizeof(struct dprofile_frame));
}

void dprofile__free(struct dprofile *d)
{
	if (!d)
		return;
	text_table__free(&d->texts);
	row_table__free(&d->rows);
	row_table__free(&d->totals);
	free(d);
}

static bool has_room(struct dprofile *d, size_t n)
{
	if (d->bytes + n > DPROFILE_SZ) {
		d->sums.full++;
		return false;
	}
	d->bytes += n;
	return true;
}

/* NULL: none, or no space. */
static const char *intern(struct dprofile *d, const char *s)
{
	size_t len = s ? strlen(s) : 0;
	struct text *t;

	if (!len)
		return NULL;
	t = text_table__find(&d->texts, s, len);
	if (t)
		return t->bytes;
	if (!has_room(d, sizeof(*t) + len + 1 + HASH_TABLE_ROW_SZ))
		return NULL;
	t = calloc(1, sizeof(*t) + len + 1);
	if (!t)
		return NULL;
	memcpy(t->bytes, s, len);
	if (!text_table__add(&d->texts, t, len))
		return t->bytes;
	free(t);
	return NULL;
}

static size_t place_sz(const struct place *at)
{
	return sizeof(*at) + at->frame_cnt * sizeof(at->frames[0]);
}

/* The row of d->scratch. NULL: no space. */
static struct row *row_get(struct dprofile *d, struct row_table *t, struct row *total)
{
	size_t len = place_sz(&d->scratch), size = sizeof(struct row) - sizeof(struct place) + len;
	struct row *r = row_table__find(t, &d->scratch, len);

	if (r || !has_room(d, size + HASH_TABLE_ROW_SZ))
		return r;
	r = calloc(1, size);
	if (!r)
		return NULL;
	memcpy(&r->at, &d->scratch, len);
	r->key = &r->at;
	r->total = total;
	if (!row_table__add(t, r, len))
		return r;
	free(r);
	return NULL;
}

/* NULL: it is unknown. */
static const char *stage_of(const struct dproc *p)
{
	return p->live.known ? stage_name(p->live.stage) : NULL;
}

/* Sets d->scratch to a function of a process, in its present stage. */
static void place_set(struct dprofile *d, const struct dproc *p, const char *function)
{
	const struct labels *l = &p->labels;

	memset(&d->scratch, 0, sizeof(d->scratch));
	d->scratch.pid = p->pid;
	d->scratch.process = intern(d, p->comm);
	d->scratch.container = intern(d, *l->container_name ? l->container_name : l->container);
	d->scratch.pod = intern(d, l->pod);
	d->scratch.namespace = intern(d, l->namespace);
	d->scratch.function = intern(d, function);
	d->scratch.stage = stage_of(p);
}

/* NULL: no space. */
static struct row *total_of(struct dprofile *d, const struct dproc *p, const struct api_fn *fn)
{
	unsigned i = hash_word((uintptr_t)fn ^ (uint64_t)p->pid << 32) % RECENT_FNS;

	if (d->recent[i].p == p && d->recent[i].pid == p->pid && d->recent[i].fn == fn &&
	    d->recent[i].generation == p->generation && d->recent[i].stage == stage_of(p))
		return d->recent[i].total;
	place_set(d, p, fn->name);
	d->recent[i].p = p;
	d->recent[i].pid = p->pid;
	d->recent[i].generation = p->generation;
	d->recent[i].fn = fn;
	d->recent[i].stage = stage_of(p);
	d->recent[i].total = row_get(d, &d->totals, NULL);
	return d->recent[i].total;
}

static void values_add(uint64_t to[PROFILE_VALUE_CNT], const uint64_t v[PROFILE_VALUE_CNT])
{
	for (unsigned i = 0; i < PROFILE_VALUE_CNT; i++)
		to[i] += v[i];
}

static void add_frame(struct place *at, const char *name, const char *file, uint32_t line)
{
	if (name && at->frame_cnt < FRAMES_MAX)
		at->frames[at->frame_cnt++] =
			(struct dprofile_frame){.name = name, .file = file, .line = line};
}

static void set_frames(struct dprofile *d, const struct stack *stack)
{
	char buf[PROFILE_FRAME_SZ];

	for (unsigned i = 0; stack && i < stack->frame_cnt; i++) {
		const struct stack_frame *f = &stack->frames[i];

		add_frame(&d->scratch, intern(d, profile_frame_name(f, buf, sizeof(buf))),
			  intern(d, f->module), f->line);
	}
}

/* Adds a sampled call to the row of its stack. */
static void add_sample(struct dprofile *d, struct row *total, const struct dproc *p,
		       const struct trace_event *ev, const uint64_t v[PROFILE_VALUE_CNT])
{
	unsigned i = ev->id % CALLS_MAX;
	struct row *r;

	d->sums.sampled++;
	memcpy(&d->scratch, &total->at, sizeof(total->at));
	d->scratch.tid = ev->tid;
	d->scratch.thread = intern(d, ev->comm);
	d->scratch.iteration = live_stage__first(&p->live);
	d->scratch.group_len = p->live.group;
	if (call_does(ev, DOES_LAUNCH))
		d->scratch.leaf = intern(d, ev->launch.kernel);
	if (ev->has & HAS_STREAM)
		d->scratch.stream = 1 + call_stream(ev, ev->stream);
	set_frames(d, ev->stack);
	r = row_get(d, &d->rows, total);
	d->calls[i].id = ev->id;
	d->calls[i].pid = ev->pid;
	d->calls[i].row = r;
	if (!r)
		return;
	values_add(r->v, v);
	values_add(total->sampled, v);
}

static void on_call(struct dprofile *d, const struct dproc *p, const struct trace_event *ev,
		    bool is_sample)
{
	struct row *total = total_of(d, p, ev->fn);
	uint64_t v[PROFILE_VALUE_CNT];

	profile_call_values(ev, v);
	d->sums.calls++;
	values_add(total ? total->v : d->rest, v);
	if (total && is_sample)
		add_sample(d, total, p, ev, v);
}

/* An execution has the stack of its call if that was sampled. */
static void on_execution(struct dprofile *d, const struct dproc *p, const struct trace_event *ev)
{
	const uint64_t v[PROFILE_VALUE_CNT] = {
		[PROFILE_GPU_NS] = event_duration_ns(ev),
		[PROFILE_EXECUTIONS] = 1,
	};
	unsigned i = ev->gpu.call_id % CALLS_MAX;
	bool known = ev->gpu.call_id && d->calls[i].id == ev->gpu.call_id &&
		     d->calls[i].pid == ev->pid && d->calls[i].row;
	struct row *total, *r = NULL;

	d->sums.gpu_ns += v[PROFILE_GPU_NS];
	place_set(d, p, ev->gpu.call ?: PROFILE_NO_CALL);
	if (known)
		d->scratch.stage = d->calls[i].row->at.stage;
	d->scratch.leaf = intern(d, profile_executed(ev));
	d->scratch.device = 1 + (uint64_t)ev->gpu.device;
	total = row_get(d, &d->totals, NULL);
	values_add(total ? total->v : d->rest, v);
	if (!total || !known)
		return;
	memcpy(&d->scratch, &d->calls[i].row->at, place_sz(&d->calls[i].row->at));
	d->scratch.leaf = total->at.leaf;
	d->scratch.device = total->at.device;
	r = row_get(d, &d->rows, total);
	if (!r)
		return;
	values_add(r->v, v);
	values_add(total->sampled, v);
}

void dprofile__event(struct dprofile *d, const struct dproc *p, const struct trace_event *ev,
		     bool is_sample)
{
	if (ev->kind == EVENT_CALL && ev->fn)
		on_call(d, p, ev, is_sample);
	else if (ev->kind == EVENT_GPU)
		on_execution(d, p, ev);
}

void dprofile__counted(struct dprofile *d, const struct dproc *p, const struct api_fn *fn,
		       const struct ct_count *delta)
{
	const struct op_desc *op = &op_desc[fn->op];
	uint64_t calls =
		ct_count_calls(delta) + delta->entered + delta->unfinished + delta->abandoned;
	uint64_t v[PROFILE_VALUE_CNT] = {[PROFILE_CALLS] = calls};
	uint64_t done = calls - (delta->errors < calls ? delta->errors : calls);
	struct row *total = total_of(d, p, fn);

	if (fn->api == API_CUDA)
		v[PROFILE_HOST_NS] = delta->total_ns;
	if (op->does & DOES_WAIT)
		v[PROFILE_WAIT_NS] = v[PROFILE_HOST_NS];
	else if (total && fn->class == CLASS_TRANSFER)
		total->may_wait_ns += v[PROFILE_HOST_NS];
	if (op->does & DOES_LAUNCH)
		v[PROFILE_LAUNCHES] = done;
	else if (op->does & DOES_LAUNCH_GRAPH)
		v[PROFILE_GRAPH_LAUNCHES] = done;
	if (fn->class == CLASS_MEMORY && op->makes == 1 && op->block != BLOCK_RESERVED &&
	    op->block != BLOCK_IPC)
		v[PROFILE_ALLOC_BYTES] = delta->bytes;
	d->sums.calls += calls;
	values_add(total ? total->v : d->rest, v);
}

static uint64_t part(uint64_t whole, uint64_t a, uint64_t of)
{
	return of ? (unsigned __int128)whole * a / of : 0;
}

/* The row's part of its total, so that all parts together are exactly that. */
static bool scale(const struct row *r, uint64_t v[PROFILE_VALUE_CNT])
{
	struct row *t = r->total;
	uint64_t any = 0;

	for (unsigned i = 0; i < PROFILE_VALUE_CNT; i++) {
		uint64_t up_to;

		t->passed[i] += r->v[i];
		up_to = part(t->v[i], t->passed[i], t->sampled[i]);
		v[i] = up_to - t->given[i];
		t->given[i] = up_to;
		any |= v[i];
	}
	return any;
}

static void add_label(struct dprofile_sample *s, const char *key, const char *text)
{
	if (text)
		s->labels[s->label_cnt++] = (struct dprofile_label){.key = key, .text = text};
}

static void add_number(struct dprofile_sample *s, const char *key, uint64_t number)
{
	if (number)
		s->labels[s->label_cnt++] = (struct dprofile_label){.key = key, .number = number};
}

static void give(const struct place *at, struct dprofile_sample *s,
		 void (*fn)(void *ctx, const struct dprofile_sample *s), void *ctx)
{
	struct dprofile_frame frames[FRAMES_MAX + 2];
	char device[24], stream[24];
	unsigned cnt = 0;

	if (at->leaf)
		frames[cnt++] = (struct dprofile_frame){.name = at->leaf};
	frames[cnt++] = (struct dprofile_frame){.name = at->function ?: PROFILE_LIMITED};
	memcpy(frames + cnt, at->frames, at->frame_cnt * sizeof(frames[0]));
	s->frames = frames;
	s->frame_cnt = cnt + at->frame_cnt;
	s->label_cnt = 0;
	add_number(s, "process", at->pid);
	add_label(s, "process_name", at->process);
	add_number(s, "thread", at->tid);
	add_label(s, "thread_name", at->thread);
	add_label(s, "namespace", at->namespace);
	add_label(s, "pod", at->pod);
	add_label(s, "container", at->container);
	/* As texts: readers drop a number that is 0. */
	snprintf(device, sizeof(device), "%" PRIu64, at->device - 1);
	snprintf(stream, sizeof(stream), "0x%" PRIx64, at->stream - 1);
	add_label(s, "device", at->device ? device : NULL);
	add_label(s, "stream", at->stream ? stream : NULL);
	add_label(s, "stage", at->stage);
	add_number(s, "iteration", at->iteration);
	add_number(s, "iterations", at->iteration && at->group_len > 1 ? at->group_len : 0);
	fn(ctx, s);
}

void dprofile__each(struct dprofile *d, void (*fn)(void *ctx, const struct dprofile_sample *s),
		    void *ctx)
{
	const struct place limited = {0};
	struct dprofile_sample s;
	uint64_t any = 0;

	hash_each (t, &d->totals) {
		/* may_wait_ns is 0 the second time. */
		t->v[PROFILE_WAIT_NS] += part(t->may_wait_ns, t->sampled[PROFILE_WAIT_NS],
					      t->sampled[PROFILE_HOST_NS]);
		memset(t->passed, 0, sizeof(t->passed));
		memset(t->given, 0, sizeof(t->given));
		t->may_wait_ns = 0;
	}
	hash_each (r, &d->rows)
		if (scale(r, s.v))
			give(&r->at, &s, fn, ctx);
	hash_each (t, &d->totals) {
		any = 0;
		for (unsigned i = 0; i < PROFILE_VALUE_CNT; i++)
			any |= s.v[i] = t->v[i] - t->given[i];
		if (any)
			give(&t->at, &s, fn, ctx);
	}
	any = 0;
	for (unsigned i = 0; i < PROFILE_VALUE_CNT; i++)
		any |= s.v[i] = d->rest[i];
	if (any)
		give(&limited, &s, fn, ctx);
}

const struct dprofile_sums *dprofile__sums(const struct dprofile *d)
{
	return &d->sums;
}

static void put_sample(void *ctx, const struct dprofile_sample *s)
{
	struct pprof *p = ctx;

	pprof__begin(p);
	for (unsigned i = 0; i < s->frame_cnt; i++)
		pprof__frame(p, s->frames[i].name, s->frames[i].file, s->frames[i].line);
	pprof__values(p, s->v);
	for (unsigned i = 0; i < s->label_cnt; i++)
		pprof__label(p, s->labels[i].key, s->labels[i].text, s->labels[i].number);
	pprof__end(p);
}

int dprofile__write(struct dprofile *d, const struct profile_span *s, const char *redacted,
		    struct out *o)
{
	struct pprof *p = pprof__new(o);
	char text[160];
	int ret;

	if (!p)
		return -ENOMEM;
	dprofile__each(d, put_sample, p);
	snprintf(text, sizeof(text), "%" PRIu64 " of %" PRIu64 " calls; sums are exact",
		 d->sums.sampled, d->sums.calls);
	pprof__comment(p, "sampled: stacks are of ", text);
	if (redacted)
		pprof__comment(p, "redacted: ", redacted);
	ret = pprof__finish(p, s);
	pprof__free(p);
	return ret;
}
