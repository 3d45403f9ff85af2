/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Graphs of cuDNN: what test_dnn.py expects. plans FOLDER GRAPH OPS CNN: the files in FOLDER that
 * have the functions of each, mocks or real ones. Without libcuda there is no handle, and what
 * is executed fails.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Numbers of cuDNN 9.19. */
enum {
	CONV = 1,
	ENGINE,
	CONFIG,
	HEURISTICS,
	PLAN,
	FORWARD = 10,
	FILTER,
	DATA,
	POINTWISE,
	GRAPH = 15,
	PACK,
	TENSOR,
	MATMUL,
	OP_MATMUL,
	OP_REDUCTION = 22,
	SDPA = 41,
};
enum { DATA_TYPE = 1, INT64 = 3, FLOAT, CONV_MODE = 7, CHAR = 24, DESC = 15 };
enum { R_32F, R_16F = 2 };

static int (*create)(int, void **), (*set)(void *, int, int, int64_t, const void *),
	(*get)(void *, int, int, int64_t, int64_t *, void *), (*finalize)(void *),
	(*destroy)(void *), (*execute)(void *, void *, void *);
static void *handle;
static int failed;

static void *sym(const char *folder, const char *lib, const char *name)
{
	char path[4096];
	void *h, *s;

	snprintf(path, sizeof(path), "%s/%s", folder, lib);
	h = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
	s = h ? dlsym(h, name) : NULL;
	if (!s) {
		fprintf(stderr, "%s: %s\n", name, dlerror());
		exit(77);
	}
	return s;
}

static void put(void *d, int attr, int type, int64_t cnt, const void *arr)
{
	failed |= set(d, attr, type, cnt, arr);
}

static void *made(int type)
{
	void *d = NULL;

	failed |= create(type, &d);
	return d;
}

struct attr {
	int attr;
	void *is;
};

/* of: attributes and what they are, 0 at the end */
static void *with(int type, const struct attr *of)
{
	void *d = made(type);

	for (; of->attr; of++)
		put(d, of->attr, DESC, 1, &of->is);
	return d;
}
#define WITH(type, ...) with(type, (const struct attr[]){__VA_ARGS__, {0}})

static void *done(void *d)
{
	failed |= finalize(d);
	return d;
}

static void *tensor(int type, int cnt, const int64_t *dims)
{
	static int64_t uid;
	int64_t strides[8], align = 16;
	void *t = made(TENSOR);

	for (int i = cnt; i-- > 0;)
		strides[i] = i == cnt - 1 ? 1 : strides[i + 1] * dims[i + 1];
	uid++;
	put(t, 901, DATA_TYPE, 1, &type);
	put(t, 902, INT64, cnt, dims);
	put(t, 903, INT64, cnt, strides);
	put(t, 906, INT64, 1, &uid);
	put(t, 900, INT64, 1, &align);
	return done(t);
}
#define TENSOR_OF(type, ...)                                                                       \
	tensor(type, sizeof((int64_t[]){__VA_ARGS__}) / 8, (int64_t[]){__VA_ARGS__})

static void *convolution(void)
{
	int64_t two = 2, pair[] = {1, 1}, strides[] = {2, 2};
	int compute = R_32F, mode = 1;
	void *c = made(CONV);

	put(c, 106, INT64, 1, &two);
	put(c, 100, DATA_TYPE, 1, &compute);
	put(c, 101, CONV_MODE, 1, &mode);
	put(c, 105, INT64, 2, pair);
	put(c, 104, INT64, 2, pair);
	put(c, 102, INT64, 2, pair);
	put(c, 103, INT64, 2, strides);
	return done(c);
}

static void *product(void *a, void *b, void *c)
{
	int compute = R_32F;
	void *how = made(MATMUL);

	put(how, 1500, DATA_TYPE, 1, &compute);
	return done(WITH(OP_MATMUL, {1520, a}, {1521, b}, {1522, c}, {1523, done(how)}));
}

static void *graph(int cnt, void **ops)
{
	void *g = made(GRAPH);

	put(g, 801, DESC, cnt, ops);
	return done(g);
}
#define GRAPH_OF(...)                                                                              \
	graph(sizeof((void *[]){__VA_ARGS__}) / sizeof(void *), (void *[]){__VA_ARGS__})

/* No engine and no configuration is done without a GPU. */
static void *plan_of(void *g)
{
	int64_t index = 0;
	void *engine = WITH(ENGINE, {1300, g}), *config = made(CONFIG);

	put(engine, 1301, INT64, 1, &index);
	finalize(engine);
	put(config, 300, DESC, 1, &engine);
	finalize(config);
	return WITH(PLAN, {401, config});
}

static void convolutions(void)
{
	float one = 1, zero = 0;
	void *x = TENSOR_OF(R_16F, 8, 64, 56, 56), *w = TENSOR_OF(R_16F, 128, 32, 3, 3);
	void *y = TENSOR_OF(R_16F, 8, 128, 28, 28), *how = convolution(), *op[3],
	     *pack = made(PACK);

	op[0] = WITH(FORWARD, {704, x}, {703, w}, {705, y}, {702, how});
	put(op[0], 700, FLOAT, 1, &one);
	put(op[0], 701, FLOAT, 1, &zero);
	op[1] = WITH(DATA, {711, y}, {709, w}, {710, x}, {708, how});
	put(op[1], 706, FLOAT, 1, &one);
	put(op[1], 707, FLOAT, 1, &zero);
	op[2] = WITH(FILTER, {717, y}, {716, x}, {715, w}, {714, how});
	put(op[2], 712, FLOAT, 1, &one);
	put(op[2], 713, FLOAT, 1, &zero);
	for (int i = 0; i < 3; i++)
		execute(handle, plan_of(GRAPH_OF(done(op[i]))), pack);
}

static void products(void)
{
	void *a = TENSOR_OF(R_16F, 12, 128, 64), *b = TENSOR_OF(R_16F, 1, 64, 256);
	void *c = TENSOR_OF(R_32F, 12, 128, 256), *pack = made(PACK);

	execute(handle, plan_of(GRAPH_OF(product(a, b, c))), pack);
}

static void classic(const char *folder, const char *ops, const char *cnn)
{
	int (*tensor4)(void *, int, int, int, int, int, int) =
		sym(folder, ops, "cudnnSetTensor4dDescriptor");
	int (*tensor_n)(void *, int, int, const int *, const int *) =
		sym(folder, ops, "cudnnSetTensorNdDescriptor");
	int (*filter4)(void *, int, int, int, int, int, int) =
		sym(folder, ops, "cudnnSetFilter4dDescriptor");
	int (*conv2)(void *, int, int, int, int, int, int, int, int) =
		sym(folder, cnn, "cudnnSetConvolution2dDescriptor");
	int (*forward)() = sym(folder, cnn, "cudnnConvolutionForward");
	int (*data)() = sym(folder, cnn, "cudnnConvolutionBackwardData");
	int (*filter)() = sym(folder, cnn, "cudnnConvolutionBackwardFilter");
	int (*fused)() = sym(folder, cnn, "cudnnConvolutionBiasActivationForward");
	/* The real ones have 400 bytes at most. */
	void *x = calloc(1, 4096), *w = calloc(1, 4096), *y = calloc(1, 4096), *c = calloc(1, 4096);
	float one = 1;

	tensor4(x, 0, R_32F, 2, 3, 32, 32);
	filter4(w, R_32F, 0, 16, 3, 5, 5);
	tensor_n(y, R_32F, 4, (int[]){2, 16, 28, 28}, (int[]){12544, 784, 28, 1});
	conv2(c, 0, 0, 1, 1, 1, 1, 1, R_32F);
	forward(handle, &one, x, NULL, w, NULL, c, 0, NULL, 0L, &one, y, NULL);
	data(handle, &one, w, NULL, y, NULL, c, 0, NULL, 0L, &one, x, NULL);
	filter(handle, &one, x, NULL, y, NULL, c, 0, NULL, 0L, &one, w, NULL);
	fused(handle, &one, x, NULL, w, NULL, c, 0, NULL, 0L, &one, y, NULL, NULL, NULL, NULL, y,
	      NULL);
}

/* As cudnn-frontend does it: what heuristics found; and all but the plan is gone. */
static void by_heuristics(void)
{
	void *x = TENSOR_OF(R_16F, 8, 64, 56, 56), *w = TENSOR_OF(R_16F, 128, 32, 3, 3);
	void *y = TENSOR_OF(R_16F, 8, 128, 28, 28), *op, *g, *h, *found = made(CONFIG), *plan;
	int64_t cnt;

	op = done(WITH(FORWARD, {704, x}, {703, w}, {705, y}, {702, convolution()}));
	g = GRAPH_OF(op, done(made(POINTWISE)));
	h = done(WITH(HEURISTICS, {201, g}));
	get(h, 202, DESC, 1, &cnt, &found);
	plan = done(WITH(PLAN, {401, found}));
	destroy(x);
	destroy(op);
	destroy(g);
	destroy(h);
	destroy(found);
	execute(handle, plan, made(PACK));
	/* Asks cuBLAS. */
	execute(handle, plan, NULL);
	destroy(plan);
	execute(handle, plan, made(PACK));
}

static void attention(void)
{
	void *q = TENSOR_OF(R_16F, 2, 12, 128, 64), *kt = TENSOR_OF(R_16F, 2, 12, 64, 256);
	void *s = TENSOR_OF(R_32F, 2, 12, 128, 256), *v = TENSOR_OF(R_16F, 2, 12, 256, 32);
	void *o = TENSOR_OF(R_16F, 2, 12, 128, 32), *k = TENSOR_OF(R_16F, 2, 4, 256, 64);
	void *v4 = TENSOR_OF(R_16F, 2, 4, 256, 32);

	execute(handle,
		plan_of(GRAPH_OF(product(q, kt, s), done(made(OP_REDUCTION)), done(made(POINTWISE)),
				 product(s, v, o))),
		made(PACK));
	execute(handle,
		plan_of(GRAPH_OF(done(WITH(SDPA, {2800, q}, {2801, k}, {2802, v4}, {2803, o})))),
		made(PACK));
	/* The first product is the same as that of another plan. */
	execute(handle, plan_of(GRAPH_OF(product(q, kt, s))), made(PACK));
	execute(handle, plan_of(GRAPH_OF(product(q, kt, s), product(q, kt, s))), made(PACK));
}

/* What cannot be known, and what makes no sense. */
static void odd(void)
{
	void *a = TENSOR_OF(R_16F, 12, 128, 64), *b = TENSOR_OF(R_16F, 12, 64, 256);
	void *bad = TENSOR_OF(R_16F, 12, -64, 256), *c = TENSOR_OF(R_16F, 12, 128, 256);
	void *huge = TENSOR_OF(R_16F, 12, 1ull << 62, 1ull << 62), *pack = made(PACK), *plan;
	void *many[200];
	int64_t shapes[3] = {1, 2, 3};

	plan = made(PLAN);
	put(plan, 405, CHAR, 2, "{}      ");
	execute(handle, plan, pack);
	put(plan, 401, DESC, 1, &plan);
	execute(handle, plan, pack);
	execute(handle, (void *)0x1234, pack);
	execute(handle, plan_of(GRAPH_OF(product(a, bad, c))), pack);
	execute(handle, plan_of(GRAPH_OF(product(huge, huge, huge))), pack);
	execute(handle, plan_of(GRAPH_OF(done(made(POINTWISE)), done(made(OP_REDUCTION)))), pack);
	for (int i = 0; i < 200; i++)
		many[i] = product(a, b, c);
	execute(handle, plan_of(graph(200, many)), pack);
	plan = plan_of(GRAPH_OF(many[0]));
	put(pack, 1011, INT64, 3, shapes);
	execute(handle, plan, pack);
	execute(NULL, plan, made(PACK));
}

int main(int argc, char **argv)
{
	const char *dir = argv[1], *lib = argv[2];
	static uint64_t p;
	void *ctx;

	create = sym(dir, lib, "cudnnBackendCreateDescriptor");
	set = sym(dir, lib, "cudnnBackendSetAttribute");
	get = sym(dir, lib, "cudnnBackendGetAttribute");
	finalize = sym(dir, lib, "cudnnBackendFinalize");
	destroy = sym(dir, lib, "cudnnBackendDestroyDescriptor");
	execute = sym(dir, lib, "cudnnBackendExecute");
	if (argc > 5) {
		int (*init)(int) = sym(argv[5], "libcuda.so.1", "cuInit");
		int (*retain)(void **, int) =
			sym(argv[5], "libcuda.so.1", "cuDevicePrimaryCtxRetain");
		int (*current)(void *) = sym(argv[5], "libcuda.so.1", "cuCtxSetCurrent");
		int (*alloc)(uint64_t *, size_t) = sym(argv[5], "libcuda.so.1", "cuMemAlloc_v2");

		if (init(0) || retain(&ctx, 0) || current(ctx) || alloc(&p, 4096))
			return 3;
		handle = &p;
	}
	convolutions();
	products();
	classic(dir, argv[3], argv[4]);
	if (handle) {
		by_heuristics();
		attention();
		odd();
	}
	return failed ? 4 : 0;
}
