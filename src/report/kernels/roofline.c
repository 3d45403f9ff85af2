/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Rooflines (docs/ROOFLINE.md). The work of an execution is, in this order: that of the matrix
 * product or cuDNN computation whose call encloses the launch; that of the kernel, by its
 * parameters (kernel_work.def); or the bytes of a copy. The kernels of one product share its work:
 * the first takes it, up to its own time, and leaves the rest for the next.
 */
#include "roofline_priv.h"

#include <stdlib.h>
#include <string.h>

#include "model/call.h"
#include "report/kernels/graphs.h"

#define IN_MAX 8 /* enclosing calls */

static void roofline__free(void *a)
{
	struct roofline *s = a;

	keys__free(&s->work_keys);
	keys__free(&s->row_keys);
	keys__free(&s->operator_keys);
	memlimit_free(s->works);
	memlimit_free(s->rows);
	memlimit_free(s->operators);
	memlimit_free(s->captured);
	memlimit_free(s->executed);
	free(s->calls);
	free(s->early);
	free(s->sorted);
	free(s->sorted_operators);
	free(s);
}

/* --- devices --- */

static bool is_same(const struct device *a, const struct device *b)
{
	if (a->is_known || b->is_known)
		return device_is(a, b);
	return a->key.pid == b->key.pid && a->key.number == b->key.number;
}

static void learn(struct roof_device *to, const struct device *d)
{
	const struct device *x = &to->d;

	if (x->capability == d->capability && x->sm_cnt == d->sm_cnt &&
	    x->clock_khz == d->clock_khz && x->memory_khz == d->memory_khz &&
	    x->bus_bits == d->bus_bits && !strcmp(x->model, d->model))
		return;
	to->d = *d;
	to->gbps = peak_memory(d, &to->is_listed);
}

uint32_t roofline_device(const struct report *r, const struct trace_event *ev)
{
	struct roofline *s = r->an[AN_ROOFLINE];
	const struct device *d = ev->device;
	unsigned i = 0;

	if (!s || !d)
		return ROOF_NONE;
	if (s->last_device < s->device_cnt && is_same(&s->devices[s->last_device].d, d))
		i = s->last_device;
	while (i < s->device_cnt && !is_same(&s->devices[i].d, d))
		i++;
	if (i == s->device_cnt) {
		if (s->device_cnt == ROOF_DEVICES)
			return ROOF_NONE;
		i = s->device_cnt++;
		s->devices[i].d = *d;
		s->devices[i].gbps = peak_memory(d, &s->devices[i].is_listed);
	}
	s->last_device = i;
	learn(&s->devices[i], d);
	return i;
}

static void on_sample(struct roofline *s, const struct trace_event *ev)
{
	const struct event_gpu_stats *x = &ev->gpu_stats;

	if (!x->uuid || !x->sm_clock_mhz.known || !x->util.known || !x->util.v)
		return;
	for (unsigned i = 0; i < s->device_cnt; i++)
		if (s->devices[i].d.is_known && !strcmp(s->devices[i].d.uuid, x->uuid)) {
			s->devices[i].clock_cnt++;
			s->devices[i].clock_sum += x->sm_clock_mhz.v;
		}
}

/* --- works --- */

static uint64_t text_key(uint64_t key, const char *s)
{
	for (; s && *s; s++)
		key = pair_key(key, (uint8_t)*s);
	return pair_key(key, 1);
}

static uint32_t work_of(struct roofline *s, const struct roof_work *w)
{
	const struct gemm_info *g = &w->g;
	uint64_t key = text_key(text_key(w->is_product, w->name), w->op);
	uint64_t bytes = w->w.bytes, ops = w->w.ops;
	uint32_t i;

	key = pair_key(pair_key(pair_key(pair_key(key, g->m), g->n), g->k), g->batch);
	key = text_key(text_key(text_key(text_key(key, g->a_type), g->b_type), g->c_type),
		       g->compute_type);
	key = pair_key(pair_key(pair_key(key, bytes), ops), w->w.type);
	i = keys_row_max(&s->work_keys, key, ROOF_ROWS, MEMLIMIT_KERNELS, s->works, s->work_cap);
	if (i == KEYS_NONE)
		return ROOF_NONE;
	s->works[i] = *w;
	return i;
}

/* Matrices of a strided batch with stride 0 are the same one. */
static uint64_t matrices(const struct trace_event *ev, const char *arg)
{
	uint64_t stride;

	return event_arg_u64(ev, arg, &stride) && !stride ? 1 : ev->gemm.batch;
}

static uint32_t product_of(struct roofline *s, const struct trace_event *ev)
{
	struct roof_work w = {
		.name = ev->name,
		.op = ev->op,
		.g = ev->gemm,
		.w = {.bytes = ev->gemm.bytes, .ops = ev->gemm.flops},
		.is_product = true,
	};
	uint64_t a, b;
	/* A product with itself reads one matrix. */
	bool is_square = event_arg_u64(ev, "A", &a) && event_arg_u64(ev, "B", &b) && a && a == b;

	if (ev->fn->api != API_CUDNN)
		w.w.bytes = product_bytes(&ev->gemm, matrices(ev, "strideA"),
					  is_square ? 0 : matrices(ev, "strideB"));
	return work_of(s, &w);
}

static uint32_t launched(struct roofline *s, const struct trace_event *ev)
{
	struct roof_work w = {.name = ev->launch.kernel};

	return kernel_work_of(&ev->launch, &w.w) ? work_of(s, &w) : ROOF_NONE;
}

/* --- least times --- */

/* What one execution adds. */
struct part {
	bool is_known, is_first;
	enum peak_type type;
	double bytes, ops, mem_ns, ops_ns, roof_ps, peak_ps;
};

/* The whole work on a device. Returns false if a peak is not known. */
static bool measure(const struct roofline *s, const struct roof_work *w, uint32_t device,
		    const char *kernel, struct part *p)
{
	const struct roof_device *d = &s->devices[device];
	struct peak peak;
	bool half = true;

	*p = (struct part){.bytes = w->w.bytes, .ops = w->w.ops, .type = w->w.type};
	if (!d->gbps || !(p->bytes > 0))
		return false;
	p->mem_ns = p->bytes / d->gbps;
	if (p->ops > 0) {
		if (w->is_product) {
			p->type = peak_type_of(&w->g, kernel);
			half = w->g.compute_type ? !strcmp(w->g.compute_type, "CUBLAS_COMPUTE_16F")
						 : true;
		}
		if (!p->type)
			return false;
		peak = peak_of(&d->d, p->type, half);
		if (!(peak.most > 0))
			return false;
		p->ops_ns = p->ops / peak.most / 1e3;
		p->peak_ps = p->ops / peak.tflops;
	}
	p->roof_ps = 1e3 * (p->mem_ns > p->ops_ns ? p->mem_ns : p->ops_ns);
	return true;
}

static void take(struct roofline *s, struct roof_call *c, const struct roof_execution *x,
		 enum roof_user who, struct part *p)
{
	*p = (struct part){0};
	if (x->device == ROOF_NONE || !c || c->work == ROOF_NONE)
		return;
	if (!c->of[who].is_begun) {
		if (!measure(s, &s->works[c->work], x->device, x->kernel, p))
			return;
		p->is_first = c->of[who].is_begun = true;
		c->of[who].type = p->type;
		c->of[who].left_ps = p->roof_ps;
	}
	p->is_known = true;
	p->type = c->of[who].type;
	p->roof_ps = c->of[who].left_ps;
	if (p->roof_ps > 1e3 * x->ns)
		p->roof_ps = 1e3 * x->ns;
	c->of[who].left_ps -= p->roof_ps;
}

/* A copy in the device's memory reads and writes each byte; a memset writes it. The rate of other
 * copies depends on the bus, whose peak is not known. */
static void take_copy(const struct roofline *s, const struct roof_execution *x, struct part *p)
{
	*p = (struct part){0};
	if (x->device == ROOF_NONE || !s->devices[x->device].gbps || !x->bytes || !x->is_local)
		return;
	p->is_known = p->is_first = true;
	p->bytes = (x->what == 'c' ? 2.0 : 1.0) * x->bytes;
	p->mem_ns = p->bytes / s->devices[x->device].gbps;
	p->roof_ps = 1e3 * (p->mem_ns < x->ns ? p->mem_ns : x->ns);
}

static void add_part(struct roof_sums *to, const struct part *p, uint64_t cnt, uint64_t ns)
{
	to->cnt += cnt;
	to->ns += ns;
	if (!p->is_known)
		return;
	to->time.known_ns += ns;
	to->time.roof_ps += p->roof_ps + 0.5;
	if (!p->is_first)
		return;
	to->works += cnt;
	to->bytes += p->bytes;
	to->ops += p->ops;
	to->mem_ns += p->mem_ns;
	to->ops_ns += p->ops_ns;
	to->whole_ns += p->mem_ns > p->ops_ns ? p->mem_ns : p->ops_ns;
	to->time.peak_ps += p->peak_ps + 0.5;
}

/* --- rows --- */

static struct roof_row *row_of(struct roofline *s, const struct roof_row *like)
{
	uint64_t key = pair_key(pair_key((uintptr_t)like->name, (uintptr_t)like->dir),
				(uint64_t)like->work_row << 32 | like->device);
	uint32_t i;

	key = pair_key(pair_key(key, like->what), like->type);
	i = keys_row_max(&s->row_keys, key, ROOF_ROWS, MEMLIMIT_KERNELS, s->rows, s->row_cap);
	if (i == KEYS_NONE)
		return NULL;
	if (!s->rows[i].sums.cnt) {
		struct roof_sums sums = s->rows[i].sums;

		s->rows[i] = *like;
		s->rows[i].sums = sums;
	}
	return &s->rows[i];
}

static void add_operator(struct roofline *s, const char *name, const struct part *p, uint64_t cnt,
			 uint64_t ns)
{
	uint32_t i;

	if (!name)
		return;
	i = keys_row_max(&s->operator_keys, (uintptr_t)name, ROOF_ROWS, MEMLIMIT_KERNELS,
			 s->operators, s->operator_cap);
	if (i == KEYS_NONE)
		return;
	s->operators[i].name = name;
	add_part(&s->operators[i].sums, p, cnt, ns);
}

static void add(struct roofline *s, struct roof_row like, const struct part *p,
		const char *operator, uint64_t cnt, uint64_t ns)
{
	struct roof_row *row = row_of(s, &like);

	if (row)
		add_part(&row->sums, p, cnt, ns);
	add_part(&s->sums, p, cnt, ns);
	add_operator(s, operator, p, cnt, ns);
	if (like.device != ROOF_NONE)
		s->devices[like.device].used += cnt;
}

static struct roof_row row_like(const struct roofline *s, uint32_t work, uint32_t device,
				const char *kernel, const struct part *p)
{
	struct roof_row like = {.work_row = ROOF_NONE, .device = device, .what = 'k'};

	like.name = kernel;
	if (p->is_known && s->works[work].is_product) {
		like.work_row = work;
		like.what = 'p';
		like.name = NULL;
	}
	if (p->is_known)
		like.type = p->type;
	return like;
}

/* --- calls --- */

static uint64_t call_key(uint32_t pid, uint64_t id)
{
	return id ? pair_key(id, pid) : 0;
}

static struct roof_call *call_of(const struct roofline *s, uint64_t key)
{
	return key && s->calls ? recent_find(s->calls, sizeof(*s->calls), key) : NULL;
}

/* Finds the call that has the work of a launch; NULL: none. *wait: a call that has not returned. */
static struct roof_call *find_work(const struct roofline *s, uint64_t key, uint64_t *wait)
{
	struct roof_call *c = call_of(s, key), *first = c;

	*wait = 0;
	for (unsigned n = 0; c && n < IN_MAX; n++) {
		if (c->work != ROOF_NONE && s->works[c->work].is_product)
			return c;
		if (!c->parent)
			break;
		*wait = c->parent;
		c = call_of(s, c->parent);
	}
	if (c)
		*wait = 0;
	return first && first->work != ROOF_NONE ? first : NULL;
}

static void settle(struct roofline *s, const struct roof_execution *x)
{
	const struct roof_call *launch = call_of(s, x->key);
	struct roof_call *c;
	struct part p;
	uint64_t wait;

	c = find_work(s, x->key, &wait);
	take(s, c, x, ROOF_SECTION, &p);
	add(s, row_like(s, c ? c->work : 0, x->device, x->kernel, &p), &p,
	    launch ? launch->operator : NULL, 1, x->ns);
}

/* wait 0: for nothing. */
static void wait_for(struct roofline *s, struct roof_early *e, uint64_t wait)
{
	if (e->wait) {
		s->early_of[e->wait % ROOF_HASHES]--;
		s->early_cnt--;
	}
	e->wait = wait;
	if (wait) {
		s->early_of[wait % ROOF_HASHES]++;
		s->early_cnt++;
	}
}

static void keep(struct roofline *s, const struct roof_execution *x, uint64_t wait)
{
	struct roof_early *e;

	if (!s->early)
		s->early = calloc(ROOF_EARLY, sizeof(*s->early));
	if (!s->early) {
		settle(s, x);
		return;
	}
	e = &s->early[s->early_next];
	s->early_next = (s->early_next + 1) % ROOF_EARLY;
	if (e->wait) {
		wait_for(s, e, 0);
		settle(s, &e->x);
	}
	e->x = *x;
	wait_for(s, e, wait);
}

static void on_early(struct roofline *s, uint64_t key)
{
	for (unsigned i = 0; i < ROOF_EARLY && s->early_of[key % ROOF_HASHES]; i++) {
		struct roof_early *e = &s->early[i];
		uint64_t wait;

		if (e->wait != key)
			continue;
		find_work(s, e->x.key, &wait);
		wait_for(s, e, wait);
		if (!wait)
			settle(s, &e->x);
	}
}

/* --- captures --- */

static struct roof_captured *captured(struct roofline *s, uint32_t row)
{
	unsigned had = s->captured_cap;
	struct roof_captured *list =
		grow(s->captured, &s->captured_cap, row + 1, sizeof(*list), MEMLIMIT_KERNELS);

	if (!list)
		return NULL;
	s->captured = list;
	for (unsigned i = had; i < s->captured_cap; i++)
		list[i].work = ROOF_NONE;
	return &list[row];
}

static void on_captured(struct roofline *s, const struct trace_event *ev, uint32_t work)
{
	uint32_t row = graphs_captured_row(s->r, ev);
	struct roof_captured *c = row == GRAPH_NONE ? NULL : captured(s, row);

	if (!c)
		return;
	*c = (struct roof_captured){.work = work, .first = row};
	if (!ev->parent_id)
		return;
	if (s->open_cnt == ROOF_OPEN)
		memmove(s->open, s->open + 1, --s->open_cnt * sizeof(*s->open));
	s->open[s->open_cnt].key = call_key(ev->pid, ev->parent_id);
	s->open[s->open_cnt++].row = row;
}

/* The call with that key has returned. */
static void close_captured(struct roofline *s, uint64_t key, uint64_t parent, uint32_t product)
{
	uint32_t first = ROOF_NONE;
	unsigned n = 0;

	for (unsigned i = 0; i < s->open_cnt; i++) {
		if (s->open[i].key != key) {
			s->open[n++] = s->open[i];
		} else if (product != ROOF_NONE) {
			first = first == ROOF_NONE ? s->open[i].row : first;
			s->captured[s->open[i].row] =
				(struct roof_captured){.work = product, .first = first};
		} else if (parent) {
			s->open[n] = s->open[i];
			s->open[n++].key = parent;
		}
	}
	s->open_cnt = n;
}

/* --- events --- */

static void on_call(struct roofline *s, const struct trace_event *ev)
{
	uint64_t key = call_key(ev->pid, ev->id), parent = call_key(ev->pid, ev->parent_id);
	uint32_t work = ROOF_NONE, product = ROOF_NONE;
	struct roof_call *c;

	if (!key || !call_was_made(ev) || ev->is_error)
		return;
	if ((ev->has & HAS_GEMM) && ev->gemm.flops)
		work = product = product_of(s, ev);
	else if (call_does(ev, DOES_LAUNCH))
		work = launched(s, ev);
	if (ev->capturing)
		on_captured(s, ev, work);
	if (s->open_cnt)
		close_captured(s, key, parent, product);
	if (work == ROOF_NONE && !parent && !ev->operator&& !s->early_cnt)
		return;
	if (!s->calls)
		s->calls = calloc(RECENT_MAX, sizeof(*s->calls));
	if (!s->calls)
		return;
	c = recent_get(s->calls, sizeof(*c), key);
	*c = (struct roof_call){
		.key = key, .parent = parent, .operator= ev->operator, .work = work };
	if (s->early_cnt)
		on_early(s, key);
}

static void on_replayed(struct roofline *s, uint32_t row, uint32_t device)
{
	uint32_t *list =
		grow(s->executed, &s->executed_cap, row + 1, sizeof(*list), MEMLIMIT_KERNELS);

	if (!list)
		return;
	s->executed = list;
	list[row] = device == ROOF_NONE ? 0 : device + 1;
}

static void on_gpu(struct roofline *s, const struct trace_event *ev)
{
	struct roof_execution x = {
		.key = call_key(ev->pid, ev->gpu.call_id),
		.kernel = ev->gpu.kernel,
		.ns = event_duration_ns(ev),
		.bytes = ev->has & HAS_SIZE ? ev->size : 0,
		.device = roofline_device(s->r, ev),
		.what = ev->op[0],
		.is_local = ev->op[0] == 'm' || ((ev->has & HAS_DIR) && ev->dir == COPY_DIR_DTOD),
	};
	uint32_t row = graphs_executed_row(s->r);
	struct roof_call *launch;
	struct part p = {0};
	uint64_t wait;

	if (x.what != 'k') {
		struct roof_row like = {.work_row = ROOF_NONE,
					.device = x.device,
					.what = x.what,
					.name = x.what == 'c'	? "copy"
						: x.what == 'm' ? "memset"
								: "graph"};

		launch = call_of(s, x.key);
		if (x.what != 'g')
			take_copy(s, &x, &p);
		if (x.what == 'c' && (ev->has & HAS_DIR))
			like.dir = copy_dir_name(ev->dir);
		add(s, like, &p, launch ? launch->operator : NULL, 1, x.ns);
		return;
	}
	if (row != GRAPH_NONE) {
		on_replayed(s, row, x.device);
		return;
	}
	find_work(s, x.key, &wait);
	if (wait)
		keep(s, &x, wait);
	else
		settle(s, &x);
}

static void roofline_event(void *a, const struct trace_event *ev)
{
	if (ev->kind == EVENT_CALL && ev->fn)
		on_call(a, ev);
	else if (ev->kind == EVENT_GPU)
		on_gpu(a, ev);
	else if (ev->kind == EVENT_GPU_STATS)
		on_sample(a, ev);
}

/* --- for the map --- */

void roofline_add(const struct report *r, const struct roof_execution *x, struct roof_time *to)
{
	struct roofline *s = r->an[AN_ROOFLINE];
	struct roof_sums sums = {0};
	struct part p;
	uint64_t wait;

	if (!s)
		return;
	if (x->what == 'k')
		take(s, find_work(s, x->key, &wait), x, ROOF_MAP, &p);
	else
		take_copy(s, x, &p);
	add_part(&sums, &p, 1, x->ns);
	to->known_ns += sums.time.known_ns;
	to->roof_ps += sums.time.roof_ps;
	to->peak_ps += sums.time.peak_ps;
}

/* Executions of a replayed node. */
static uint32_t replayed(const struct roofline *s, uint32_t row, uint64_t cnt, uint64_t ns,
			 struct part *p)
{
	const struct graph_executed *x = graphs_executed(s->r, row);
	uint32_t device =
		row < s->executed_cap && s->executed[row] ? s->executed[row] - 1 : ROOF_NONE;
	const struct roof_captured *c =
		x && x->captured < s->captured_cap ? &s->captured[x->captured] : NULL;
	const struct graph_captured *first;

	*p = (struct part){0};
	if (!c || c->work == ROOF_NONE || device == ROOF_NONE)
		return device;
	first = graphs_captured(s->r, c->first);
	if (!first || !measure(s, &s->works[c->work], device, first->name, p))
		return device;
	if (c->first != x->captured) {
		*p = (struct part){.is_known = true, .type = p->type};
		return device;
	}
	p->is_known = p->is_first = true;
	p->bytes *= cnt;
	p->ops *= cnt;
	p->mem_ns *= cnt;
	p->ops_ns *= cnt;
	p->peak_ps *= cnt;
	p->roof_ps *= cnt;
	if (p->roof_ps > 1e3 * ns)
		p->roof_ps = 1e3 * ns;
	return device;
}

void roofline_add_replayed(const struct report *r, uint32_t row, uint64_t cnt, uint64_t ns,
			   struct roof_time *to)
{
	const struct roofline *s = r->an[AN_ROOFLINE];
	struct roof_sums sums = {0};
	struct part p;

	if (!s)
		return;
	replayed(s, row, cnt, ns, &p);
	add_part(&sums, &p, cnt, ns);
	to->known_ns += sums.time.known_ns;
	to->roof_ps += sums.time.roof_ps;
	to->peak_ps += sums.time.peak_ps;
}

/* --- finish --- */

static int by_ns(const void *a, const void *b)
{
	const struct roof_row *x = *(struct roof_row *const *)a, *y = *(struct roof_row *const *)b;

	if (x->sums.ns != y->sums.ns)
		return x->sums.ns < y->sums.ns ? 1 : -1;
	return x < y ? -1 : x > y;
}

static int operators_by_ns(const void *a, const void *b)
{
	const struct roof_operator *x = *(struct roof_operator *const *)a,
				   *y = *(struct roof_operator *const *)b;

	if (x->sums.ns != y->sums.ns)
		return x->sums.ns < y->sums.ns ? 1 : -1;
	return x < y ? -1 : x > y;
}

static void roofline_finish(void *a)
{
	struct roofline *s = a;
	const struct graph_executed *x;

	for (unsigned i = 0; i < ROOF_EARLY && s->early_cnt; i++)
		if (s->early[i].wait) {
			wait_for(s, &s->early[i], 0);
			settle(s, &s->early[i].x);
		}
	for (uint32_t row = 0; (x = graphs_executed(s->r, row)); row++) {
		const struct graph_captured *c = graphs_captured(s->r, x->captured);
		const struct roof_captured *mine =
			x->captured < s->captured_cap ? &s->captured[x->captured] : NULL;
		uint32_t device;
		struct part p;

		if (!x->node || x->what != 'k')
			continue;
		device = replayed(s, row, x->cnt, x->ns, &p);
		add(s, row_like(s, mine && p.is_known ? mine->work : 0, device, x->name, &p), &p,
		    c ? c->operator : NULL, x->cnt, x->ns);
	}
	s->sorted = calloc(s->row_keys.cnt + 1, sizeof(*s->sorted));
	for (unsigned i = 0; s->sorted && i < s->row_keys.cnt; i++) {
		s->sorted[i] = &s->rows[i];
		if (s->rows[i].work_row != ROOF_NONE)
			s->rows[i].work = &s->works[s->rows[i].work_row];
	}
	if (s->sorted)
		qsort(s->sorted, s->row_keys.cnt, sizeof(*s->sorted), by_ns);
	s->sorted_operators = calloc(s->operator_keys.cnt + 1, sizeof(*s->sorted_operators));
	for (unsigned i = 0; s->sorted_operators && i < s->operator_keys.cnt; i++)
		s->sorted_operators[i] = &s->operators[i];
	if (s->sorted_operators)
		qsort(s->sorted_operators, s->operator_keys.cnt, sizeof(*s->sorted_operators),
		      operators_by_ns);
}

const struct analysis_ops roofline_ops = {
	.name = "roofline",
	.size = STATE_SIZE(struct roofline),
	.event = roofline_event,
	.finish = roofline_finish,
	.section = &roofline_table,
	.print = roofline_print,
	.free = roofline__free,
	.of_args = true,
};
