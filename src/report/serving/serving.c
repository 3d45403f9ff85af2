/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Inference serving: events by thread, from which passes.c makes steps; and things known by name:
 * engines, ranges.
 */
#include "serving_priv.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "model/call.h"
#include "report/iter/iter.h"
#include "util/order.h"

static void *serving__new(struct report *r)
{
	struct serving *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->r = r;
	s->main = KEYS_NONE;
	return s;
}

static void serving__free(void *a)
{
	struct serving *s = a;

	for (unsigned i = 0; i < s->thread_keys.cnt && i < s->thread_cap; i++)
		memlimit_free(s->threads[i].steps);
	memlimit_free(s->threads);
	memlimit_free(s->captures);
	memlimit_free(s->blocks);
	memlimit_free(s->pauses);
	memlimit_share_free(&s->step_rows);
	keys__free(&s->thread_keys);
	keys__free(&s->capture_keys);
	keys__free(&s->weight_keys);
	keys__free(&s->block_keys);
	keys__free(&s->seen_keys);
	keys__free(&s->pause_keys);
	free(s);
}

/* Rows beyond the limit matter only with serving, so the caller counts them. */
uint32_t serving_key(struct keys *k, uint64_t key, uint32_t max, enum limit_table t)
{
	uint32_t i = keys__find(k, key);

	if (i != KEYS_NONE || k->cnt >= max || !memlimit_has(&k->rows, 1, max))
		return i;
	return keys_get(k, key, max, t);
}

static struct serving_thread *thread_get(struct serving *s, const struct trace_event *ev)
{
	uint32_t i = serving_key(&s->thread_keys, thread_key(ev->pid, ev->tid), SERVING_THREADS_MAX,
				 MEMLIMIT_THREADS);
	struct serving_thread *threads;

	if (i == KEYS_NONE) {
		s->lost_calls++;
		return NULL;
	}
	threads = grow(s->threads, &s->thread_cap, i + 1, sizeof(*threads), MEMLIMIT_THREADS);
	if (!threads) {
		keys__undo(&s->thread_keys, i);
		return NULL;
	}
	s->threads = threads;
	threads[i].pid = ev->pid;
	threads[i].tid = ev->tid;
	threads[i].comm = ev->comm;
	return &threads[i];
}

static bool has_word(const char *text, const char *word)
{
	size_t n = strlen(word);

	for (; *text; text++)
		if (!strncasecmp(text, word, n))
			return true;
	return false;
}

static uint8_t mark_of(struct serving_thread *t, const struct trace_event *ev)
{
	if (!ev->range_text)
		return PHASE_UNKNOWN;
	if (ev->range_text != t->range) {
		t->range = ev->range_text;
		t->range_mark = has_word(t->range, "prefill")  ? PHASE_PREFILL
				: has_word(t->range, "decode") ? PHASE_DECODE
							       : PHASE_UNKNOWN;
	}
	return t->range_mark;
}

/* Returns true at the first lookup. */
static bool is_new(struct serving *s, const void *what)
{
	uint32_t cnt = s->seen_keys.cnt;
	uint32_t i =
		serving_key(&s->seen_keys, (uintptr_t)what, SERVING_SEEN_MAX, MEMLIMIT_KERNELS);

	return i != KEYS_NONE && i >= cnt;
}

static const struct {
	const char *file, *kernel;
} engines[ENGINE_CNT] = {
#define ENGINE(ID, name, file, kernel) [ENGINE_##ID] = {file, kernel},
#include "engines.def"
};

static void look_for_engine(struct serving *s, const struct trace_event *ev)
{
	const char *kernel = ev->has & HAS_LAUNCH ? ev->launch.kernel : NULL;
	const struct stack *stack = ev->stack && is_new(s, ev->stack) ? ev->stack : NULL;

	if (kernel && !is_new(s, kernel))
		kernel = NULL;
	for (int e = 0; (kernel || stack) && e < ENGINE_CNT; e++) {
		if (kernel && engines[e].kernel && strstr(kernel, engines[e].kernel))
			s->engines[e] = true;
		for (unsigned i = 0; stack && i < stack->frame_cnt; i++) {
			const struct stack_frame *f = &stack->frames[i];

			if (f->python && f->module && strstr(f->module, engines[e].file))
				s->engines[e] = true;
		}
	}
}

/* Set-up work of the first steps, rare later. */
static bool sets_up(const struct trace_event *ev)
{
	return (ev->fn->class == CLASS_MODULE && ev->fn->op == OP_LOAD) ||
	       ev->fn->op == OP_CAPTURE_BEGIN;
}

static void on_call(struct serving *s, const struct trace_event *ev)
{
	struct serving_thread *t = thread_get(s, ev);
	bool launches = call_launches(ev), graph = call_launches_graph(ev) && !ev->capturing;
	uint64_t ns = event_duration_ns(ev);
	struct pass *p;

	if (!t)
		return;
	p = &t->cur;
	look_for_engine(s, ev);
	if ((t->ended_ns || t->has_pending) && !p->launches && !p->products.cnt)
		serving_pause(s, t, ev);
	if (ev->capturing)
		t->captured_ns = ev->start_ns;
	if (ev->fn->op == OP_CAPTURE_BEGIN)
		t->capture = (struct products){0};
	else if (ev->fn->op == OP_CAPTURE_END)
		serving_capture_end(s, t, ev);
	if (graph)
		serving_graph(s, t, ev);
	if (launches || graph) {
		if (!p->begin_ns)
			p->begin_ns = ev->start_ns;
		p->launches++;
		p->launch_ns += ns;
		p->last_launch_ns = ns;
		p->mark = p->mark ?: mark_of(t, ev);
	}
	if (p->begin_ns) {
		p->call_ns += ns;
		p->end_ns = ev->end_ns > p->end_ns ? ev->end_ns : p->end_ns;
		p->sync_ns += call_blocks(ev) ? ns : 0;
		p->is_setup |= sets_up(ev);
	}
	if (iter_ends_piece(ev, p->launches))
		serving_end_piece(s, t);
	t->call_end_ns = ev->end_ns;
	t->fn = ev->fn;
	t->stack = ev->stack;
}

/* The step at this time; NULL: none. */
static struct serving_step *step_at(struct serving_thread *t, uint64_t ns)
{
	unsigned n = COUNT_LEADING(i, t->cnt, t->steps[i].begin_ns <= ns);

	return n && ns <= t->steps[n - 1].end_ns ? &t->steps[n - 1] : NULL;
}

/* Assigns GPU time by the time of its call. */
static void on_gpu(struct serving *s, const struct trace_event *ev)
{
	uint32_t i = keys__find(&s->thread_keys, thread_key(ev->pid, ev->tid));
	uint64_t ns = event_duration_ns(ev), at;
	struct serving_thread *t;
	struct serving_step *x;

	if (!ev->gpu.call || i >= s->thread_keys.cnt || i >= s->thread_cap)
		return;
	s->gpu_cnt++;
	t = &s->threads[i];
	at = ev->start_ns - ev->gpu.queue_ns;
	x = step_at(t, at);
	if (x)
		x->gpu_ns += ns;
	else if (t->cur.begin_ns && at >= t->cur.begin_ns)
		t->cur.gpu_ns += ns;
	else if (t->has_pending && at >= t->pending.begin_ns)
		t->pending.gpu_ns += ns;
}

static void on_range(struct serving *s, const struct trace_event *ev)
{
	if (!ev->range.text || !has_word(ev->range.text, "request"))
		return;
	s->request_cnt++;
	s->request_ns += event_duration_ns(ev);
}

static void serving_event(void *a, const struct trace_event *ev)
{
	struct serving *s = a;
	struct serving_thread *t;

	if (ev->kind == EVENT_GPU)
		on_gpu(s, ev);
	else if (ev->kind == EVENT_RANGE)
		on_range(s, ev);
	if (!call_was_made(ev))
		return;
	if ((ev->has & HAS_GEMM) && ev->gemm.flops && !ev->is_error) {
		t = thread_get(s, ev);
		if (t)
			serving_product(s, t, ev);
	} else if (call_is_top(ev)) {
		on_call(s, ev);
		serving_memory(s, ev);
	}
}

static void serving_finish(void *a)
{
	struct serving *s = a;

	for (unsigned i = 0; i < s->thread_keys.cnt && i < s->thread_cap; i++)
		serving_end_thread(s, &s->threads[i]);
	serving_find(s);
	serving_sum(s);
	serving_sum_memory(s);
	serving_sort_pauses(s);
}

void serving_result(const struct report *r, struct serving_result *res)
{
	const struct serving *s = r->an[AN_SERVING];

	memset(res, 0, sizeof(*res));
	if (s)
		*res = s->res;
}

bool serving_step_at(const struct report *r, uint64_t i, struct serving_span *span)
{
	const struct serving *s = r->an[AN_SERVING];
	const struct serving_thread *t = s ? serving_main(s) : NULL;
	const struct serving_step *x = t && i < t->cnt ? &t->steps[i] : NULL;

	if (!x)
		return false;
	*span = (struct serving_span){x->begin_ns, x->end_ns,
				      !x->is_setup && x->phase == PHASE_PREFILL,
				      !x->is_setup && x->phase == PHASE_DECODE};
	return true;
}

const struct analysis_ops serving_ops = {
	.name = "serving",
	.new = serving__new,
	.event = serving_event,
	.finish = serving_finish,
	.section = &serving_table,
	.print = serving_print,
	.free = serving__free,
	.of_args = true,
};
