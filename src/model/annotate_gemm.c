/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Matrix products: sizes, element types, and number of operations. */
#include "annotate_priv.h"

#include <string.h>

/* cublasLtMatrixLayout_t, cublasLtMatmulDesc_t: decode/api/cublas.def. */
struct layout {
	uint32_t type, order;
	uint64_t rows, cols, ld;
	uint32_t batch;
};
struct desc {
	uint32_t reserved[2], compute, more[2], trans_a;
};

static const char *type_name(uint64_t type)
{
	return api_enum_name(api_enum_by_name("cudaDataType"), (int32_t)type);
}

static const char *compute_name(uint64_t type)
{
	return api_enum_name(api_enum_by_name("cublasComputeType_t"), (int32_t)type);
}

/* cublasSgemm, cublasXtZgemm: one type for all matrices, by a letter of the name. */
static const char *type_by_name(const char *name)
{
	const char *letter = name + strlen("cublas");

	if (!strncmp(letter, "Xt", 2))
		letter += 2;
	switch (*letter) {
	case 'S':
		return "CUDA_R_32F";
	case 'D':
		return "CUDA_R_64F";
	case 'C':
		return "CUDA_C_32F";
	case 'Z':
		return "CUDA_C_64F";
	case 'H':
		return "CUDA_R_16F";
	default:
		return NULL;
	}
}

static const char *type_of(const struct annotations *m, const struct trace_event *ev,
			   const char *arg)
{
	uint64_t type;

	return event_arg_by_name(m, ev, arg, &type) ? type_name(type) : NULL;
}

/* Reads a number of rows, columns or products. Returns false if a 32-bit value is negative. */
static bool number_of(const struct annotations *m, const struct trace_event *ev, const char *arg,
		      uint64_t *n)
{
	int i = api_arg_by_name(m->fn, arg);

	if (i < 0 || !event_arg(m, ev, i, n))
		return false;
	return (int64_t)(m->fn->args[i].type->size == 4 ? (int32_t)*n : (int64_t)*n) >= 0;
}

static bool plain(const struct annotations *m, const struct trace_event *ev, struct gemm_info *g)
{
	uint64_t compute;

	if (!number_of(m, ev, "m", &g->m) || !number_of(m, ev, "n", &g->n) ||
	    !number_of(m, ev, "k", &g->k))
		return false;
	g->batch = 1;
	if (api_arg_by_name(m->fn, "batchCount") >= 0 && !number_of(m, ev, "batchCount", &g->batch))
		return false;
	g->a_type = type_of(m, ev, "Atype");
	g->b_type = type_of(m, ev, "Btype");
	g->c_type = type_of(m, ev, "Ctype");
	if (event_arg_by_name(m, ev, "computeType", &compute))
		g->compute_type = compute_name(compute);
	if (api_arg_by_name(m->fn, "Ctype") < 0)
		g->a_type = g->b_type = g->c_type = type_by_name(m->fn->name);
	return true;
}

static bool struct_of(const struct annotations *m, const struct trace_event *ev, const char *arg,
		      void *to, size_t size)
{
	int i = api_arg_by_name(m->fn, arg), cap = i >= 0 ? m->cap[i] : -1;

	if (cap < 0 || (unsigned)cap >= ev->cap_cnt || ev->caps[cap].len < (int)size)
		return false;
	memcpy(to, ev->caps[cap].data, size);
	return true;
}

/* Reads m and n from D, k from A. The layouts are undocumented, so contradictory values are
 * rejected. */
static bool by_descriptors(const struct annotations *m, const struct trace_event *ev,
			   struct gemm_info *g)
{
	struct layout a, b, d;
	struct desc desc;

	if (!struct_of(m, ev, "computeDesc", &desc, sizeof(desc)) ||
	    !struct_of(m, ev, "Adesc", &a, sizeof(a)) ||
	    !struct_of(m, ev, "Bdesc", &b, sizeof(b)) || !struct_of(m, ev, "Ddesc", &d, sizeof(d)))
		return false;
	g->m = d.rows;
	g->n = d.cols;
	g->k = desc.trans_a ? a.rows : a.cols;
	g->batch = d.batch ?: 1;
	g->a_type = type_name(a.type);
	g->b_type = type_name(b.type);
	g->c_type = type_name(d.type);
	g->compute_type = compute_name(desc.compute);
	return g->a_type && g->b_type && g->c_type && g->compute_type && desc.trans_a <= 3 &&
	       (desc.trans_a ? a.cols : a.rows) == g->m && (b.rows == g->k || b.cols == g->k);
}

void annotate_gemm(const struct annotations *m, struct trace_event *ev, struct proc *p)
{
	struct gemm_info g = {0};
	double flops;

	if (!(m->fn->op == OP_GEMM ? plain(m, ev, &g) : by_descriptors(m, ev, &g)))
		return;
	/* One multiplication and one addition; four of each for complex numbers. */
	flops = 2.0 * g.m * g.n * g.k * g.batch;
	if (g.c_type && g.c_type[5] == 'C')
		flops *= 4;
	if (ev->api_depth == 0 && !ev->is_error && flops < 0x1p63)
		g.flops = flops;
	/* An engine of cuDNN called cuBLAS. */
	if (g.flops && ev->depth && p->dnn)
		p->dnn->inner[p->dnn->inner_next++ % DNN_INNER] = ev->parent_id;
	ev->gemm = g;
	ev->has |= HAS_GEMM;
}
