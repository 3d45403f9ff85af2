/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Calls of cuDNN: tracks its descriptors, and derives what a plan or a convolution computes. */
#include "dnn_call.h"

#include "annotate_priv.h"

#include <string.h>

#define ELEMENTS_MAX (CT_CAP_SZ_MAX / 8)

/* Copies the recorded part of an array argument to buf of buf_sz bytes. Returns the number of
 * elements of size. */
static unsigned array_of(const struct annotations *m, const struct trace_event *ev, const char *arg,
			 unsigned size, void *buf, unsigned buf_sz)
{
	int i = api_arg_by_name(m->fn, arg), cap = i >= 0 ? m->cap[i] : -1;
	unsigned len = 0;

	if (cap >= 0 && (unsigned)cap < ev->cap_cnt && ev->caps[cap].len > 0)
		len = ev->caps[cap].len;
	if (len > buf_sz)
		len = buf_sz;
	if (len)
		memcpy(buf, ev->caps[cap].data, len);
	return len / size;
}

/* Only the lower 4 bytes of a 4-byte element are valid. */
static void attribute(const struct annotations *m, const struct trace_event *ev, struct dnn *ds)
{
	uint64_t buf[ELEMENTS_MAX], handle, attr, type;
	struct dnn_elements e = {.v = buf};
	struct dnn_desc *d;

	if (!event_arg_by_name(m, ev, "descriptor", &handle) ||
	    !event_arg_by_name(m, ev, "attributeName", &attr) ||
	    !event_arg_by_name(m, ev, "attributeType", &type) ||
	    !event_arg_by_name(m, ev, "elementCount", &e.wants))
		return;
	d = dnn__find(ds, handle);
	e.cnt = array_of(m, ev, "arrayOfElements", sizeof(*buf), buf, sizeof(buf));
	if (!d)
		return;
	if (e.cnt > e.wants)
		e.cnt = e.wants;
	if (m->fn->op == OP_DESCRIBE)
		dnn__set(ds, d, attr, type, &e);
	else if (type == DNN_DESCRIPTOR)
		dnn__got(ds, d, attr, &e);
}

/* The legacy API: dimensions have 32 bits, and are arguments or an array. */
static unsigned classic_dims(const struct annotations *m, const struct trace_event *ev, bool filter,
			     uint64_t dims[DNN_DIMS])
{
	const char *const names[] = {filter ? "k" : "n", "c", "h", "w"};
	int32_t arr[DNN_DIMS];
	uint64_t cnt;

	if (!event_arg_by_name(m, ev, "nbDims", &cnt)) {
		for (unsigned i = 0; i < 4; i++) {
			if (!event_arg_by_name(m, ev, names[i], &dims[i]))
				return 0;
			dims[i] = (uint64_t)(int64_t)(int32_t)dims[i];
		}
		return 4;
	}
	if (cnt > array_of(m, ev, filter ? "filterDimA" : "dimA", sizeof(*arr), arr, sizeof(arr)))
		return 0;
	for (unsigned i = 0; i < cnt; i++)
		dims[i] = (uint64_t)(int64_t)arr[i];
	return cnt;
}

static void classic(const struct annotations *m, const struct trace_event *ev, struct dnn *ds)
{
	uint64_t dims[DNN_DIMS], handle, type, format;
	bool filter = event_arg_by_name(m, ev, "filterDesc", &handle);
	struct dnn_desc *d;

	if (event_arg_by_name(m, ev, "convDesc", &handle)) {
		d = dnn__made(ds, handle, DNN_CONVOLUTION_CLASSIC);
		if (d && event_arg_by_name(m, ev, "computeType", &type))
			d->compute = type;
		return;
	}
	if (!filter && !event_arg_by_name(m, ev, "tensorDesc", &handle))
		return;
	d = dnn__made(ds, handle, DNN_TENSOR_CLASSIC);
	if (!d)
		return;
	dnn_tensor__set_dims(&d->tensor, dims, classic_dims(m, ev, filter, dims));
	if (event_arg_by_name(m, ev, "dataType", &type))
		d->tensor.type = type;
	/* CUDNN_TENSOR_NCHW_VECT_C */
	d->tensor.vectors = event_arg_by_name(m, ev, "format", &format) && format > 1;
}

static void learn(const struct annotations *m, const struct trace_event *ev, struct dnn *ds)
{
	bool is_set = m->fn->op == OP_DESCRIBE || m->fn->op == OP_DESCRIBED;
	uint64_t handle, type;
	struct dnn_desc *d;

	if (is_set && api_arg_by_name(m->fn, "attributeName") >= 0) {
		attribute(m, ev, ds);
	} else if (is_set) {
		classic(m, ev, ds);
	} else if (m->fn->op == OP_DESTROY && event_arg(m, ev, 0, &handle)) {
		dnn__drop(ds, handle);
	} else if (m->fn->op == OP_CREATE && event_arg_by_name(m, ev, "descriptorType", &type) &&
		   event_arg_by_name(m, ev, "descriptor", &handle)) {
		dnn__made(ds, handle, type);
	} else if (m->fn->op == OP_FINALIZE && event_arg(m, ev, 0, &handle)) {
		d = dnn__find(ds, handle);
		if (d)
			dnn__finalize(ds, d);
	}
}

static const struct dnn_desc *of_arg(const struct annotations *m, const struct trace_event *ev,
				     const struct dnn *ds, const char *arg, uint32_t type)
{
	uint64_t handle;
	const struct dnn_desc *d =
		event_arg_by_name(m, ev, arg, &handle) ? dnn__find(ds, handle) : NULL;

	return d && d->type == type ? d : NULL;
}

static bool plan(const struct annotations *m, struct trace_event *ev, const struct dnn *ds,
		 struct gemm_info *g)
{
	const struct dnn_desc *d = of_arg(m, ev, ds, "executionPlan", DNN_PLAN);
	const struct dnn_desc *pack = of_arg(m, ev, ds, "variantPack", DNN_VARIANT_PACK);

	if (!d || !d->work.op)
		return false;
	ev->op = d->work.op;
	*g = d->work.g;
	return !pack || !pack->overridden;
}

static bool convolution(const struct annotations *m, const struct trace_event *ev,
			const struct dnn *ds, struct gemm_info *g)
{
	static const struct {
		enum api_op op;
		enum dnn_form form;
		const char *args[3];
	} forms[] = {
		{OP_CONV_FORWARD, DNN_FORWARD, {"xDesc", "wDesc", "yDesc"}},
		{OP_CONV_DATA, DNN_BACKWARD_DATA, {"dyDesc", "wDesc", "dxDesc"}},
		{OP_CONV_FILTER, DNN_BACKWARD_FILTER, {"dyDesc", "xDesc", "dwDesc"}},
	};
	const struct dnn_desc *how = of_arg(m, ev, ds, "convDesc", DNN_CONVOLUTION_CLASSIC);
	const struct dnn_tensor *t[3] = {NULL};
	unsigned f = 0;

	while (forms[f].op != m->fn->op)
		f++;
	for (int i = 0; i < 3; i++) {
		const struct dnn_desc *d = of_arg(m, ev, ds, forms[f].args[i], DNN_TENSOR_CLASSIC);

		/* This argument is beyond those recorded; zDesc has the same dimensions. */
		if (!d && i == DNN_C)
			d = of_arg(m, ev, ds, "zDesc", DNN_TENSOR_CLASSIC);
		t[i] = d ? &d->tensor : NULL;
	}
	if (!dnn_sizes(forms[f].form, t, g))
		return false;
	g->compute_type = how ? dnn_compute_type(how->compute) : NULL;
	return true;
}

static bool has_product(const struct dnn *ds, uint64_t id)
{
	for (unsigned i = 0; i < DNN_INNER; i++)
		if (ds->inner[i] == id)
			return true;
	return false;
}

void dnn__call(struct quotas *quotas, const struct annotations *m, struct trace_event *ev,
	       struct proc *p)
{
	struct gemm_info g = {0};
	struct dnn *ds;
	bool sized;

	if (!p->dnn)
		p->dnn = dnn__new(quotas__get(quotas, QUOTA_DESCRIPTORS));
	ds = p->dnn;
	if (!ds)
		return;
	switch (m->fn->op) {
	case OP_EXECUTE:
		sized = plan(m, ev, ds, &g);
		break;
	case OP_CONV_FORWARD:
	case OP_CONV_DATA:
	case OP_CONV_FILTER:
		sized = convolution(m, ev, ds, &g);
		break;
	default:
		if (event_returned(ev) && !ev->is_error)
			learn(m, ev, ds);
		return;
	}
	if (!sized || !g.m)
		return;
	if (ev->api_depth || ev->is_error || has_product(ds, ev->id))
		g.flops = 0;
	ev->gemm = g;
	ev->has |= HAS_GEMM;
}
