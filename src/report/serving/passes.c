/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Steps of inference. A step is one pass through the model. It has a thread's launches up to a wait
 * for the GPU (like pieces of iterations: iter.h), with matrix products or a graph.
 *
 * Products with weights are single, not batched as those of attention. Two of their three sizes
 * belong to the model; the third is the number of tokens. Weights never move, so the first weights
 * of a pass mark its start. It is over, even without a wait, when they are used again. It continues
 * after a wait if other weights follow. Products with unknown weight addresses
 * (cublasGemmStridedBatchedEx) are ignored.
 *
 * A replayed graph makes no products: its tokens are those of the products when it was captured.
 */
#include "serving_priv.h"

#include <stdlib.h>
#include <string.h>

#include "model/call.h"
#include "report/kernels/graphs.h"

static uint32_t clamp(uint64_t v)
{
	return v < UINT32_MAX ? v : UINT32_MAX;
}

static struct serving_step *step_room(struct serving *s, struct serving_thread *t)
{
	struct serving_step *steps;

	if (!t->product_cnt && t->cnt >= SERVING_PIECES_MAX)
		return NULL;
	if (!memlimit_has(&s->step_rows, 1, SERVING_STEPS_MAX) ||
	    !memlimit_charge(&s->step_rows, 1, SERVING_STEPS_MAX, MEMLIMIT_SEGMENTS))
		return NULL;
	steps = grow(t->steps, &t->cap, t->cnt + 1, sizeof(*steps), MEMLIMIT_SEGMENTS);
	if (!steps) {
		memlimit_uncharge(&s->step_rows, NULL, 1);
		return NULL;
	}
	t->steps = steps;
	return &steps[t->cnt++];
}

static void note_change(struct serving_thread *t, const struct pass *p)
{
	for (int a = 0; a < AXIS_CNT; a++) {
		uint64_t v = p->graphs ? p->padded[a] : p->products.vote[a].value;

		t->changed[a] += v && t->before[a] && t->before[a] != v;
		t->before[a] = v ?: t->before[a];
	}
}

static void note_size(struct serving_thread *t, const struct products *p)
{
	if (p->cnt > t->pass_cnt)
		t->pass_cnt = p->cnt;
}

/* Stores the pass as a step. */
static void flush(struct serving *s, struct serving_thread *t, const struct pass *p)
{
	struct serving_step *x = step_room(s, t);

	if (x)
		*x = (struct serving_step){
			.begin_ns = p->begin_ns,
			.end_ns = p->end_ns,
			.between_ns = t->ended_ns && p->begin_ns > t->ended_ns
					      ? p->begin_ns - t->ended_ns
					      : 0,
			.call_ns = p->call_ns,
			.launch_ns = p->launch_ns,
			.sync_ns = p->sync_ns,
			.gpu_ns = p->gpu_ns,
			.launches = p->launches,
			.graphs = p->graphs,
			.products = p->products.cnt,
			.head = p->products.last ^ p->products.last >> 32,
			.mark = p->mark,
			.is_setup = p->is_setup,
		};
	else
		s->lost_steps++;
	for (int a = 0; x && a < AXIS_CNT; a++) {
		x->tokens_of[a] = clamp(p->products.vote[a].value);
		x->rows_of[a] = clamp(p->products.rows[a]);
		x->padded_of[a] = clamp(p->padded[a]);
		x->padded_rows_of[a] = clamp(p->padded_rows[a]);
	}
	note_change(t, p);
	t->ended_ns = p->end_ns;
	note_size(t, &p->products);
}

static void flush_pending(struct serving *s, struct serving_thread *t)
{
	if (t->has_pending)
		flush(s, t, &t->pending);
	t->has_pending = false;
}

/* Appends b, the later one. */
static void append(struct pass *a, const struct pass *b)
{
	a->end_ns = b->end_ns > a->end_ns ? b->end_ns : a->end_ns;
	a->call_ns += b->call_ns;
	a->launch_ns += b->launch_ns;
	a->sync_ns += b->sync_ns;
	a->gpu_ns += b->gpu_ns;
	a->launches += b->launches;
	a->mark = a->mark ?: b->mark;
	a->is_setup |= b->is_setup;
}

void serving_end_piece(struct serving *s, struct serving_thread *t)
{
	struct pass *p = &t->cur;

	if (p->graphs) {
		flush_pending(s, t);
		flush(s, t, p);
	} else if (!p->products.cnt && t->has_pending) {
		append(&t->pending, p);
	} else if (!p->products.cnt) {
		/* Without traced products any piece may be a step. */
		if (!t->product_cnt)
			flush(s, t, p);
	} else if (p->products.last == t->tail) {
		flush_pending(s, t);
		flush(s, t, p);
		t->tail = p->products.last;
	} else {
		flush_pending(s, t);
		t->pending = *p;
		t->has_pending = true;
		/* After a late attach, it may be the end of a pass. */
		t->pending_is_cut = !t->cnt && t->is_late;
	}
	*p = (struct pass){0};
}

/* First product after a wait: decides whether the pending pass is over or continues. */
static void begin_products(struct serving *s, struct serving_thread *t, const struct weight_set *w,
			   uint64_t n)
{
	struct pass *h = &t->pending, p;

	if (!t->has_pending)
		return;
	if (w->id == h->products.first) {
		t->tail = h->products.last;
	} else if (!t->pending_is_cut &&
		   (w->id == t->tail || h->products.vote[AXIS_N].value == n)) {
		p = *h;
		append(&p, &t->cur);
		t->cur = p;
		t->has_pending = false;
	}
	flush_pending(s, t);
}

/* Ends the pass: this product uses its first weights again. */
static void split(struct serving *s, struct serving_thread *t, const struct trace_event *ev)
{
	struct pass next = {.begin_ns = ev->start_ns, .end_ns = ev->end_ns};

	/* at least one launch belongs to this product */
	if (t->cur.launches) {
		t->cur.launches--;
		t->cur.launch_ns -= t->cur.last_launch_ns;
		t->cur.call_ns -= t->cur.last_launch_ns;
		next.launches = 1;
		next.launch_ns = next.call_ns = next.last_launch_ns = t->cur.last_launch_ns;
	}
	if (t->cur.end_ns > ev->start_ns)
		t->cur.end_ns = ev->start_ns;
	t->tail = t->cur.products.last;
	flush_pending(s, t);
	flush(s, t, &t->cur);
	t->cur = next;
}

static void add_product(struct products *p, const struct weight_set *w, const uint64_t v[AXIS_CNT])
{
	if (!p->cnt++)
		p->first = w->id;
	p->last = w->id;
	for (int a = 0; a < AXIS_CNT; a++) {
		vote_add(&p->vote[a], v[a]);
		p->rows[a] = v[a];
	}
}

/* Bytes per element of a type such as "CUDA_R_16BF"; 0: not known. */
static double type_size(const char *type)
{
	bool complex = type && !strncmp(type, "CUDA_C_", 7);
	long bits = type && strlen(type) > 7 ? strtol(type + 7, NULL, 10) : 0;

	return bits > 0 && bits <= 64 ? bits / 8.0 * (1 + complex) : 0;
}

/* The weights are A if n is the tokens, and B if m is. */
static bool weights_of(const struct trace_event *ev, bool by_rows, struct weight_set *w)
{
	const struct gemm_info *g = &ev->gemm;
	const char *type = by_rows ? g->b_type : g->a_type;
	uint64_t size = by_rows ? g->n : g->m;
	double bytes = (double)size * g->k * type_size(type);

	w->bytes = bytes < 0x1p48 ? bytes : 0;
	return event_arg_u64(ev, by_rows ? "B" : "A", &w->id) && w->id;
}

static void note_weights(struct serving *s, struct serving_thread *t, const struct weight_set *w)
{
	uint32_t cnt = s->weight_keys.cnt, i;

	i = serving_key(&s->weight_keys, pair_key(w->id, t->pid), SERVING_WEIGHTS_MAX,
			MEMLIMIT_ALLOCATIONS);
	if (i == KEYS_NONE || i < cnt)
		return;
	t->weight_cnt++;
	t->weight_bytes += w->bytes;
	t->is_late = !serving_block_is_weights(s, t->pid, w->id);
}

/* Returns true if this product begins a pass without a wait. */
static bool begins_anew(const struct products *p, const struct weight_set *w)
{
	return p->cnt > 1 && w->id == p->first;
}

/* Compares with the previous product of the pass or capture. */
static void compare(struct serving_thread *t, const struct products *p, const uint64_t v[AXIS_CNT])
{
	for (int a = 0; p->cnt && a < AXIS_CNT; a++)
		t->same[a] += t->prev[a] == v[a];
	t->pairs += p->cnt != 0;
	memcpy(t->prev, v, sizeof(t->prev));
}

void serving_product(struct serving *s, struct serving_thread *t, const struct trace_event *ev)
{
	const uint64_t v[AXIS_CNT] = {ev->gemm.n, ev->gemm.m};
	struct weight_set w;
	struct products *p;

	/* Attention's products are batched; k <= 1 is not a layer (angles of positions). */
	if (ev->gemm.batch != 1 || ev->gemm.k <= 1)
		return;
	if (!weights_of(ev, t->same[AXIS_M] > t->same[AXIS_N], &w))
		return;
	note_weights(s, t, &w);
	if (t->captured_ns >= ev->start_ns) {
		compare(t, &t->capture, v);
		add_product(&t->capture, &w, v);
		return;
	}
	p = &t->cur.products;
	if (!p->cnt)
		begin_products(s, t, &w, v[AXIS_N]);
	else if (begins_anew(p, &w))
		split(s, t, ev);
	compare(t, p, v);
	if (!t->cur.begin_ns)
		t->cur.begin_ns = ev->start_ns;
	if (ev->end_ns > t->cur.end_ns)
		t->cur.end_ns = ev->end_ns;
	add_product(p, &w, v);
	t->product_cnt++;
}

void serving_capture_end(struct serving *s, struct serving_thread *t, const struct trace_event *ev)
{
	struct serving_capture *list;
	uint32_t i;

	if (t->capture.cnt && !ev->is_error) {
		i = keys_get(&s->capture_keys, pair_key(ev->id, ev->pid), SERVING_CAPTURES_MAX,
			     MEMLIMIT_GRAPHS);
		list = i == KEYS_NONE ? NULL
				      : grow(s->captures, &s->capture_cap, i + 1, sizeof(*list),
					     MEMLIMIT_GRAPHS);
		if (list) {
			s->captures = list;
			list[i].p = t->capture;
		} else {
			keys__undo(&s->capture_keys, i);
		}
	}
	note_size(t, &t->capture);
	t->capture = (struct products){0};
}

void serving_graph(struct serving *s, struct serving_thread *t, const struct trace_event *ev)
{
	uint64_t id = graphs_capture_of(s->r, ev), handle = 0;
	uint32_t i = id ? keys__find(&s->capture_keys, pair_key(id, ev->pid)) : KEYS_NONE;
	struct pass *p = &t->cur;

	const struct products *c;

	event_arg_u64(ev, "hGraphExec", &handle);
	c = i < s->capture_keys.cnt && i < s->capture_cap ? &s->captures[i].p : NULL;
	/* Consecutive graphs without a wait: a repetition, or the layers again. */
	if ((p->graphs && handle == p->first_graph) ||
	    (p->products.cnt && c && c->cnt * 2 >= t->pass_cnt)) {
		flush_pending(s, t);
		flush(s, t, p);
		*p = (struct pass){0};
	}
	if (!p->graphs++)
		p->first_graph = handle;
	for (int a = 0; c && a < AXIS_CNT; a++) {
		if (c->vote[a].value <= p->padded[a])
			continue;
		p->padded[a] = c->vote[a].value;
		p->padded_rows[a] = c->rows[a];
	}
}

void serving_end_thread(struct serving *s, struct serving_thread *t)
{
	flush_pending(s, t);
	if (t->cur.products.cnt || t->cur.graphs)
		flush(s, t, &t->cur);
}
