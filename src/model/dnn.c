/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "dnn.h"

#include <stdlib.h>
#include <string.h>

struct dnn *dnn__new(struct quota *quota)
{
	struct dnn *ds = calloc(1, sizeof(*ds));

	if (ds)
		ds->quota = quota;
	return ds;
}

struct dnn_desc *dnn__find(const struct dnn *ds, uint64_t handle)
{
	return dnn_desc_table__find(&ds->by_handle, &handle);
}

struct dnn_desc *dnn__made(struct dnn *ds, uint64_t handle, uint32_t type)
{
	struct dnn_desc *d = dnn__find(ds, handle);

	if (!d) {
		if (!quota__take(ds->quota, &ds->share, 1))
			return NULL;
		d = dnn_desc_table__new(&ds->by_handle, &handle);
		if (!d) {
			quota__give(ds->quota, &ds->share, 1);
			return NULL;
		}
	}
	d->type = type;
	d->done = false;
	memset(&d->work, 0, sizeof(d->work));
	if (type == DNN_TENSOR || type == DNN_TENSOR_CLASSIC)
		d->tensor.type = UINT32_MAX;
	else if (type == DNN_CONVOLUTION || type == DNN_MATMUL || type == DNN_CONVOLUTION_CLASSIC)
		d->compute = UINT32_MAX;
	return d;
}

/* Returns 0 on overflow. */
static uint64_t times(uint64_t a, uint64_t b)
{
	uint64_t x;

	return __builtin_mul_overflow(a, b, &x) ? 0 : x;
}

static uint64_t product(const struct dnn_tensor *t, unsigned from, unsigned to)
{
	uint64_t x = 1;

	for (unsigned i = from; i < to; i++)
		x = times(x, t->dims[i]);
	return x;
}

/* A convolution as the product of the image's patches and the filter: x is N C .., w is K C/groups
 * .., y is N K .. All three directions have the same number of operations. */
static bool convolution(enum dnn_form form, const struct dnn_tensor *x, const struct dnn_tensor *w,
			const struct dnn_tensor *y, struct gemm_info *g)
{
	unsigned cnt = y->cnt;
	uint64_t patches, filters, patch;

	if (cnt < 3 || x->cnt != cnt || w->cnt != cnt || x->dims[0] != y->dims[0] ||
	    w->dims[0] != y->dims[1] || x->dims[1] % w->dims[1])
		return false;
	g->batch = x->dims[1] / w->dims[1];
	if (w->dims[0] % g->batch)
		return false;
	patches = times(y->dims[0], product(y, 2, cnt));
	filters = w->dims[0] / g->batch;
	patch = product(w, 1, cnt);
	g->m = form == DNN_BACKWARD_FILTER ? filters : patches;
	g->n = form == DNN_FORWARD ? filters : patch;
	g->k = form == DNN_FORWARD ? patch : form == DNN_BACKWARD_DATA ? filters : patches;
	return true;
}

/* The last two dimensions are rows and columns. A batch of 1 is broadcast to the other's batch. */
static bool matmul(const struct dnn_tensor *a, const struct dnn_tensor *b,
		   const struct dnn_tensor *c, struct gemm_info *g)
{
	unsigned cnt = c->cnt;

	if (cnt < 2 || a->cnt != cnt || b->cnt != cnt)
		return false;
	g->m = c->dims[cnt - 2];
	g->n = c->dims[cnt - 1];
	g->k = a->dims[cnt - 1];
	g->batch = product(c, 0, cnt - 2);
	return a->dims[cnt - 2] == g->m && b->dims[cnt - 2] == g->k && b->dims[cnt - 1] == g->n;
}

/* q is B H S D, k and v may have fewer heads; m n k are those of q k. Masking is ignored. */
static bool attention(enum dnn_form form, const struct dnn_tensor *q, const struct dnn_tensor *k,
		      const struct dnn_tensor *v, struct gemm_info *g, uint64_t *terms)
{
	uint64_t d, dv;

	if (q->cnt != 4 || k->cnt != 4 || v->cnt != 4)
		return false;
	d = q->dims[3];
	dv = v->dims[3];
	g->m = q->dims[2];
	g->n = k->dims[2];
	g->k = d;
	g->batch = times(q->dims[0], q->dims[1]);
	if (k->dims[3] != d || v->dims[2] != g->n || (d | dv) >> 32)
		return false;
	*terms = form == DNN_ATTENTION ? d + dv : 3 * d + 2 * dv;
	return true;
}

/* Elements that an operation reads or writes of operand i. A convolution whose stride exceeds its
 * filter skips elements of the image. */
static uint64_t elements(enum dnn_form form, const struct dnn_tensor *const t[3], int i,
			 const struct gemm_info *g)
{
	uint64_t all = product(t[i], 0, t[i]->cnt), patches = 0;

	if (form == DNN_FORWARD && i == DNN_A)
		patches = times(times(g->m, g->k), g->batch);
	else if (form == DNN_BACKWARD_FILTER && i == DNN_B)
		patches = times(times(g->n, g->k), g->batch);
	return patches && patches < all ? patches : all;
}

/* Bytes of all operands, each counted once. Attention has a result with the rows of Q and the
 * columns of V; its backward pass reads the result and its gradient, and writes three more. 0: not
 * known. */
static uint64_t operand_bytes(enum dnn_form form, const struct dnn_tensor *const t[3],
			      const struct gemm_info *g)
{
	bool is_attention = form == DNN_ATTENTION || form == DNN_ATTENTION_BACKWARD;
	uint64_t all = 0, bits;

	for (int i = 0; i < 3; i++) {
		bits = times(elements(form, t, i, g), cuda_type_bits(dnn_data_type(t[i]->type)));
		if (!bits || __builtin_add_overflow(all, bits, &all))
			return 0;
	}
	if (!is_attention)
		return all / 8;
	bits = times(product(t[DNN_A], 0, 3), t[DNN_C]->dims[3]);
	bits = times(bits, cuda_type_bits(dnn_data_type(t[DNN_A]->type)));
	if (!bits || __builtin_add_overflow(all, bits, &all) || all >> 62)
		return 0;
	return all * (form == DNN_ATTENTION ? 1 : 2) / 8;
}

static bool sizes(enum dnn_form form, const struct dnn_tensor *const t[3], struct gemm_info *g)
{
	uint64_t terms = 0;
	bool ok = false;

	for (int i = 0; i < 3; i++)
		if (!t[i] || !t[i]->cnt || t[i]->vectors)
			return false;
	switch (form) {
	case DNN_FORWARD:
		ok = convolution(form, t[DNN_A], t[DNN_B], t[DNN_C], g);
		break;
	case DNN_BACKWARD_DATA:
		ok = convolution(form, t[DNN_C], t[DNN_B], t[DNN_A], g);
		break;
	case DNN_BACKWARD_FILTER:
		ok = convolution(form, t[DNN_B], t[DNN_C], t[DNN_A], g);
		break;
	case DNN_PRODUCT:
		ok = matmul(t[DNN_A], t[DNN_B], t[DNN_C], g);
		break;
	case DNN_ATTENTION:
	case DNN_ATTENTION_BACKWARD:
		ok = attention(form, t[DNN_A], t[DNN_B], t[DNN_C], g, &terms);
		break;
	case DNN_NO_PRODUCT:
		break;
	}
	if (!ok)
		return false;
	g->flops = times(times(2 * g->batch, times(g->m, g->n)), terms ?: g->k);
	g->bytes = operand_bytes(form, t, g);
	g->a_type = dnn_data_type(t[DNN_A]->type);
	g->b_type = dnn_data_type(t[DNN_B]->type);
	g->c_type = dnn_data_type(t[DNN_C]->type);
	if (g->c_type && g->c_type[5] == 'C') /* four multiplications, four additions */
		g->flops = times(g->flops, 4);
	return g->flops && g->flops >> 63 == 0 && g->batch >> 62 == 0;
}

bool dnn_sizes(enum dnn_form form, const struct dnn_tensor *const t[3], struct gemm_info *g)
{
	bool ok = sizes(form, t, g);

	if (!ok)
		memset(g, 0, sizeof(*g));
	return ok;
}

void dnn__finalize(const struct dnn *ds, struct dnn_desc *d)
{
	const struct dnn_operation *op = dnn_operation(d->type);
	const struct dnn_tensor *t[3];
	const struct dnn_desc *how;
	struct dnn_work work;

	if (!op || d->done)
		return;
	work = (struct dnn_work){.op = op->op,
				 .rank = op->rank,
				 .products = op->form != DNN_NO_PRODUCT,
				 .reduces = !strcmp(op->op, "reduction")};
	for (int i = 0; i < 3; i++) {
		const struct dnn_desc *x = dnn__find(ds, d->operands[i]);

		t[i] = x && x->type == DNN_TENSOR ? &x->tensor : NULL;
	}
	dnn_sizes(op->form, t, &work.g);
	for (int i = 0; i < 3 && op->form == DNN_PRODUCT && work.g.flops; i++)
		work.bytes[i] = times(product(t[i], 0, t[i]->cnt),
				      cuda_type_bits(dnn_data_type(t[i]->type))) /
				8;
	how = dnn__find(ds, d->operands[DNN_HOW]);
	if (how && (how->type == DNN_CONVOLUTION || how->type == DNN_MATMUL))
		work.g.compute_type = dnn_compute_type(how->compute);
	d->work = work;
	d->done = true;
}

void dnn_tensor__set_dims(struct dnn_tensor *t, const uint64_t *dims, uint64_t cnt)
{
	t->cnt = 0;
	for (unsigned i = 0; cnt <= DNN_DIMS && i < cnt; i++) {
		t->dims[i] = dims[i];
		if ((int64_t)dims[i] <= 0)
			return;
	}
	t->cnt = cnt <= DNN_DIMS ? cnt : 0;
}

static void set_tensor(struct dnn_tensor *t, uint64_t attr, uint64_t type,
		       const struct dnn_elements *e)
{
	if (attr == DNN_TENSOR_DATA_TYPE && type == DNN_DATA_TYPE)
		t->type = e->v[0];
	else if (attr == DNN_TENSOR_DIMENSIONS && type == DNN_INT64)
		dnn_tensor__set_dims(t, e->v, e->cnt == e->wants ? e->cnt : 0);
	else if (attr == DNN_TENSOR_VECTOR_COUNT && type == DNN_INT64)
		t->vectors = e->v[0] != 1;
}

/* Bytes of Q, K, V and the result, from the operands of the two products; what lies between them
 * stays on the chip. The operations have no order, so the smaller of both sums. */
static uint64_t attention_bytes(const uint64_t a[3], const uint64_t b[3])
{
	uint64_t x = a[0] + a[1] + b[1] + b[2], y = b[0] + b[1] + a[1] + a[2];

	for (int i = 0; i < 3; i++)
		if (!a[i] || !b[i] || a[i] >> 61 || b[i] >> 61)
			return 0;
	return x < y ? x : y;
}

/* If the operations are set twice, the count starts anew. */
static void set_graph(const struct dnn *ds, struct dnn_desc *graph, const struct dnn_elements *e)
{
	struct dnn_work sum = {0}, last = {0};
	bool known = e->cnt == e->wants;

	for (unsigned i = 0; i < e->cnt; i++) {
		const struct dnn_desc *d = dnn__find(ds, e->v[i]);

		if (!d || !d->done) {
			known = false;
			continue;
		}
		if (!sum.op || d->work.rank > sum.rank) {
			sum.op = d->work.op;
			sum.rank = d->work.rank;
		}
		sum.reduces |= d->work.reduces;
		if (!d->work.products)
			continue;
		known &= d->work.g.flops != 0;
		if (sum.products == 1)
			last = d->work;
		if (!sum.products++) {
			sum.g = d->work.g;
			memcpy(sum.bytes, d->work.bytes, sizeof(sum.bytes));
		} else if (__builtin_add_overflow(sum.g.flops, d->work.g.flops, &sum.g.flops)) {
			known = false;
		}
	}
	if (!known)
		sum.g.flops = 0;
	/* Further products share operands with the first, or have their own. */
	if (!known || sum.products > 1)
		sum.g.bytes = 0;
	/* Matrix products around a softmax. */
	if (sum.products > 1 && sum.reduces && !strcmp(sum.op, "gemm"))
		sum.op = sum.products == 2 ? "attention_forward" : "attention_backward";
	if (known && sum.products == 2 && !strcmp(sum.op, "attention_forward"))
		sum.g.bytes = attention_bytes(sum.bytes, last.bytes);
	graph->work = sum;
}

static bool is_like_plan(const struct dnn_desc *d)
{
	return d->type == DNN_GRAPH || d->type == DNN_ENGINE || d->type == DNN_ENGINECFG ||
	       d->type == DNN_ENGINEHEUR || d->type == DNN_PLAN;
}

static void set_operand(struct dnn_desc *d, const struct dnn_operation *op, uint64_t attr,
			uint64_t handle)
{
	for (int i = 0; !d->done && i < DNN_OPERANDS; i++)
		if (op->attr[i] && op->attr[i] == attr)
			d->operands[i] = handle;
}

static void set_descriptor(struct dnn *ds, struct dnn_desc *d, uint64_t attr,
			   const struct dnn_elements *e)
{
	const struct dnn_operation *op = dnn_operation(d->type);
	const struct dnn_desc *of;

	if (op) {
		set_operand(d, op, attr, e->v[0]);
	} else if (d->type == DNN_GRAPH && attr == DNN_GRAPH_OPS) {
		set_graph(ds, d, e);
	} else if (dnn_is_of_graph(d->type, attr)) {
		of = dnn__find(ds, e->v[0]);
		d->work = of && is_like_plan(of) ? of->work : (struct dnn_work){0};
	}
}

void dnn__set(struct dnn *ds, struct dnn_desc *d, uint64_t attr, uint64_t type,
	      const struct dnn_elements *e)
{
	if (!e->cnt)
		return;
	if (type == DNN_DESCRIPTOR)
		set_descriptor(ds, d, attr, e);
	else if (d->type == DNN_TENSOR)
		set_tensor(&d->tensor, attr, type, e);
	else if ((d->type == DNN_CONVOLUTION && attr == DNN_CONVOLUTION_COMP_TYPE) ||
		 (d->type == DNN_MATMUL && attr == DNN_MATMUL_COMP_TYPE))
		d->compute = e->v[0];
	else if (d->type == DNN_VARIANT_PACK && attr == DNN_VARIANT_PACK_OVERRIDE_SHAPES)
		d->overridden = true;
}

void dnn__got(struct dnn *ds, const struct dnn_desc *d, uint64_t attr, const struct dnn_elements *e)
{
	if (!dnn_is_of_graph(d->type, attr))
		return;
	for (unsigned i = 0; i < e->cnt; i++) {
		struct dnn_desc *to = dnn__find(ds, e->v[i]);

		if (to && to != d && is_like_plan(to))
			to->work = d->work;
	}
}

static void drop(struct dnn *ds, struct dnn_desc *d)
{
	dnn_desc_table__del(&ds->by_handle, d);
	free(d);
	quota__give(ds->quota, &ds->share, 1);
}

void dnn__drop(struct dnn *ds, uint64_t handle)
{
	struct dnn_desc *d = dnn__find(ds, handle);

	if (d)
		drop(ds, d);
}

void dnn__clear(struct dnn *ds)
{
	if (!ds)
		return;
	hash_each (d, &ds->by_handle)
		drop(ds, d);
}

void dnn__free(struct dnn *ds)
{
	dnn__clear(ds);
	free(ds);
}
