/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Descriptors of cuDNN: invalid sizes, reused handles, random data. Results of real descriptors:
 * tests/e2e/test_dnn.py. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "model/dnn.h"
#include "random.h"
#include "test_model.h"

static struct dnn_tensor tensor(unsigned cnt, const int64_t *dims)
{
	struct dnn_tensor t = {.type = 2};

	dnn_tensor__set_dims(&t, (const uint64_t *)dims, cnt);
	return t;
}
#define TENSOR(...)                                                                                \
	tensor(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t), (int64_t[]){__VA_ARGS__})

static bool sizes(enum dnn_form form, struct dnn_tensor a, struct dnn_tensor b, struct dnn_tensor c,
		  struct gemm_info *g)
{
	const struct dnn_tensor *const t[3] = {&a, &b, &c};

	return dnn_sizes(form, t, g);
}

static void test_sizes(void **state)
{
	struct gemm_info g;
	struct dnn_tensor vectors = TENSOR(1, 8, 5, 5);

	/* One, two and three dimensions, with dilation or not: the sizes include it. */
	assert_true(sizes(DNN_FORWARD, TENSOR(2, 3, 100), TENSOR(7, 3, 9), TENSOR(2, 7, 92), &g));
	assert_int_equal(g.flops, 2ull * 2 * 92 * 7 * 3 * 9);
	assert_int_equal(g.bytes, 2 * (2 * 3 * 100 + 7 * 3 * 9 + 2 * 7 * 92));
	/* A stride of 2 with a filter of 1 skips half of the image. */
	assert_true(sizes(DNN_FORWARD, TENSOR(2, 3, 100), TENSOR(7, 3, 1), TENSOR(2, 7, 50), &g));
	assert_int_equal(g.bytes, 2 * (2 * 3 * 50 + 7 * 3 + 2 * 7 * 50));
	assert_true(sizes(DNN_BACKWARD_FILTER, TENSOR(2, 7, 50), TENSOR(2, 3, 100), TENSOR(7, 3, 1),
			  &g));
	assert_int_equal(g.bytes, 2 * (2 * 3 * 50 + 7 * 3 + 2 * 7 * 50));
	assert_true(sizes(DNN_FORWARD, TENSOR(1, 8, 4, 5, 6), TENSOR(8, 1, 3, 3, 3),
			  TENSOR(1, 8, 2, 3, 4), &g));
	assert_int_equal(g.batch, 8);
	assert_int_equal(g.flops, 2ull * 24 * 8 * 27);
	assert_string_equal(g.a_type, "CUDA_R_16F");
	/* Backward the same. */
	assert_true(
		sizes(DNN_BACKWARD_DATA, TENSOR(2, 7, 92), TENSOR(7, 3, 9), TENSOR(2, 3, 100), &g));
	assert_int_equal(g.flops, 2ull * 2 * 92 * 7 * 3 * 9);
	assert_true(sizes(DNN_ATTENTION_BACKWARD, TENSOR(1, 2, 10, 4), TENSOR(1, 2, 20, 4),
			  TENSOR(1, 2, 20, 4), &g));
	assert_int_equal(g.flops, 2ull * 2 * 10 * 20 * 4 * 5);
	assert_int_equal(g.bytes, 2 * 2 * (2 * 10 * 4 + 2 * 20 * 4 + 2 * 20 * 4 + 2 * 10 * 4));
	/* Fewer heads of K and V, and more columns of V. */
	assert_true(sizes(DNN_ATTENTION, TENSOR(1, 4, 10, 4), TENSOR(1, 2, 20, 4),
			  TENSOR(1, 2, 20, 6), &g));
	assert_int_equal(g.bytes, 2 * (4 * 10 * 4 + 2 * 20 * 4 + 2 * 20 * 6 + 4 * 10 * 6));

	/* Channels that differ from the filter's, other images, no number, too large, vectors. */
	assert_false(sizes(DNN_FORWARD, TENSOR(2, 4, 100), TENSOR(7, 3, 9), TENSOR(2, 7, 92), &g));
	assert_false(sizes(DNN_FORWARD, TENSOR(2, 3, 100), TENSOR(7, 3, 9), TENSOR(3, 7, 92), &g));
	assert_false(sizes(DNN_FORWARD, TENSOR(2, 3, 100), TENSOR(6, 3, 9), TENSOR(2, 7, 92), &g));
	assert_false(sizes(DNN_FORWARD, TENSOR(2, 3, 0), TENSOR(7, 3, 9), TENSOR(2, 7, 92), &g));
	assert_false(sizes(DNN_PRODUCT, TENSOR(INT64_MAX, INT64_MAX), TENSOR(INT64_MAX, INT64_MAX),
			   TENSOR(INT64_MAX, INT64_MAX), &g));
	assert_false(sizes(DNN_PRODUCT, TENSOR(2, 3), TENSOR(4, 5), TENSOR(2, 5), &g));
	assert_false(sizes(DNN_PRODUCT, TENSOR(7), TENSOR(7), TENSOR(7), &g));
	assert_int_equal(g.m | g.n | g.k | g.batch | g.flops, 0);
	vectors.vectors = true;
	assert_false(sizes(DNN_FORWARD, vectors, TENSOR(7, 8, 1, 1), TENSOR(1, 7, 5, 5), &g));
}

static void set(struct dnn *ds, uint64_t handle, uint64_t attr, uint64_t type, uint64_t cnt,
		const uint64_t *v)
{
	dnn__set(ds, dnn__find(ds, handle), attr, type,
		 &(struct dnn_elements){.v = v, .cnt = cnt, .wants = cnt});
}

static void product_of(struct dnn *ds, uint64_t op, uint64_t a, uint64_t b, uint64_t c)
{
	uint64_t how = 90;

	dnn__made(ds, how, DNN_MATMUL);
	dnn__made(ds, op, 19);
	set(ds, op, 1520, DNN_DESCRIPTOR, 1, &a);
	set(ds, op, 1521, DNN_DESCRIPTOR, 1, &b);
	set(ds, op, 1522, DNN_DESCRIPTOR, 1, &c);
	set(ds, op, 1523, DNN_DESCRIPTOR, 1, &how);
	dnn__finalize(ds, dnn__find(ds, op));
}

/* Two products around a softmax read Q, K and V and write the result, in any order. */
static void test_attention_bytes(void **state)
{
	uint64_t dims[][4] = {{1, 2, 100, 8}, {1, 2, 8, 200}, {1, 2, 100, 200}, {1, 2, 200, 8}};
	uint64_t half = 2, orders[][3] = {{20, 22, 21}, {21, 22, 20}}, graph = 30;
	struct dnn ds = {0};

	ds.quota = NULL;
	for (unsigned i = 0; i < 4; i++) {
		dnn__made(&ds, 10 + i, DNN_TENSOR);
		set(&ds, 10 + i, DNN_TENSOR_DIMENSIONS, DNN_INT64, 4, dims[i]);
		dnn__find(&ds, 10 + i)->tensor.type = half;
	}
	product_of(&ds, 20, 10, 11, 12);
	product_of(&ds, 21, 12, 13, 10);
	dnn__made(&ds, 22, 22); /* reduction */
	dnn__finalize(&ds, dnn__find(&ds, 22));
	for (unsigned i = 0; i < 2; i++) {
		dnn__made(&ds, graph + i, DNN_GRAPH);
		set(&ds, graph + i, DNN_GRAPH_OPS, DNN_DESCRIPTOR, 3, orders[i]);
		assert_string_equal(dnn__find(&ds, graph + i)->work.op, "attention_forward");
		assert_int_equal(dnn__find(&ds, graph + i)->work.g.bytes,
				 2 * 2 * (2 * 100 * 8 + 2 * 200 * 8));
	}
	/* Without the reduction it is no attention. */
	dnn__made(&ds, graph, DNN_GRAPH);
	set(&ds, graph, DNN_GRAPH_OPS, DNN_DESCRIPTOR, 2, (uint64_t[]){20, 21});
	assert_int_equal(dnn__find(&ds, graph)->work.g.bytes, 0);
	dnn__clear(&ds);
}

static void test_made_anew(void **state)
{
	struct dnn ds = {0};
	uint64_t dims[] = {4, 4}, tensor = 1, op = 2, graph = 3;

	dnn__made(&ds, tensor, DNN_TENSOR);
	set(&ds, tensor, DNN_TENSOR_DIMENSIONS, DNN_INT64, 2, dims);
	dnn__made(&ds, op, 19);
	for (uint64_t a = 1520; a <= 1522; a++)
		set(&ds, op, a, DNN_DESCRIPTOR, 1, &tensor);
	dnn__finalize(&ds, dnn__find(&ds, op));
	dnn__made(&ds, graph, DNN_GRAPH);
	set(&ds, graph, DNN_GRAPH_OPS, DNN_DESCRIPTOR, 1, &op);
	assert_int_equal(dnn__find(&ds, graph)->work.g.flops, 128);
	assert_null(dnn__find(&ds, graph)->work.g.a_type);
	dnn__made(&ds, graph, DNN_GRAPH);
	assert_null(dnn__find(&ds, graph)->work.op);
	dnn__made(&ds, tensor, DNN_TENSOR);
	assert_int_equal(dnn__find(&ds, tensor)->tensor.cnt, 0);
	dnn__drop(&ds, op);
	set(&ds, graph, DNN_GRAPH_OPS, DNN_DESCRIPTOR, 1, &op);
	assert_null(dnn__find(&ds, graph)->work.op);
	dnn__clear(&ds);
	assert_null(ds.by_handle.first);
}

/* The sanitizers check it. */
static void test_anything(void **state)
{
	static const uint64_t attrs[] = {100, 201, 202, 300, 401,  703,	 704,  705,  702,  711,
					 801, 901, 902, 904, 1011, 1300, 1500, 1520, 1521, 1522};
	static const uint64_t types[] = {DNN_DATA_TYPE, DNN_INT64, DNN_DESCRIPTOR, 24};
	struct dnn ds = {0};
	uint64_t v[128];

	for (unsigned i = 0; i < 300000; i++) {
		struct dnn_elements e = {.v = v, .cnt = rnd() % 9};
		uint64_t handle = rnd() % 24;
		uint64_t attr = attrs[rnd() % (sizeof(attrs) / sizeof(attrs[0]))];
		struct dnn_desc *d = dnn__find(&ds, handle);

		e.wants = e.cnt + (rnd() % 9 == 0);
		for (unsigned k = 0; k < e.cnt; k++)
			v[k] = rnd() % 8 ? rnd() % 24 : 1ull << rnd() % 64;
		switch (rnd() % 8) {
		case 0:
			dnn__made(&ds, handle, rnd() % 46);
			break;
		case 1:
			dnn__drop(&ds, handle);
			break;
		case 2:
			if (d)
				dnn__finalize(&ds, d);
			break;
		case 3:
			if (d)
				dnn__got(&ds, d, attr, &e);
			break;
		default:
			if (d)
				dnn__set(&ds, d, attr, types[rnd() % 4], &e);
		}
	}
	assert_true(hash_cnt(&ds.by_handle) <= 24);
	dnn__clear(&ds);
}

/* X, W and Y of a convolution, by handles that are the same in each process. */
static void describe(struct rig *r, uint32_t pid)
{
	for (uint64_t handle = 1; handle <= 3; handle += 2) {
		r->pid = r->tid = pid;
		CALL(r, "cudnnSetTensor4dDescriptor", {"tensorDesc", handle}, {"n", 1}, {"c", 1},
		     {"h", 1}, {"w", 1});
	}
	r->pid = r->tid = pid;
	CALL(r, "cudnnSetFilter4dDescriptor", {"filterDesc", 2}, {"k", 1}, {"c", 1}, {"h", 1},
	     {"w", 1});
}

static bool is_described(struct rig *r, uint32_t pid)
{
	r->pid = r->tid = pid;
	CALL(r, "cudnnConvolutionForward", {"xDesc", 1}, {"wDesc", 2}, {"yDesc", 3});
	return r->ev.gemm.flops != 0;
}

/* After a loss only the affected process's descriptors are dropped. */
static void test_lost(void **state)
{
	struct rig r;

	rig_open(&r, false, 0);
	describe(&r, RIG_PID);
	describe(&r, RIG_PID + 1);
	assert_true(is_described(&r, RIG_PID) && is_described(&r, RIG_PID + 1));
	model__handles_lost(r.m, RIG_PID);
	assert_false(is_described(&r, RIG_PID));
	assert_true(is_described(&r, RIG_PID + 1));
	/* The process is unknown: all are dropped. */
	describe(&r, RIG_PID);
	model__handles_lost(r.m, 0);
	assert_false(is_described(&r, RIG_PID) || is_described(&r, RIG_PID + 1));
	rig_close(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sizes),
		cmocka_unit_test(test_made_anew),
		cmocka_unit_test(test_attention_bytes),
		cmocka_unit_test(test_anything),
		cmocka_unit_test(test_lost),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
