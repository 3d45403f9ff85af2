/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Mock libcuda: contexts. Each thread has a stack of them, as in the driver. */
#include "libcuda.h"

#include <string.h>

#define CTX_STACK_MAX 32

static struct ctx *primary[DEVICE_CNT];
static unsigned primary_refs[DEVICE_CNT];
static unsigned primary_flags[DEVICE_CNT];
static __thread struct ctx *ctx_stack[CTX_STACK_MAX];
static __thread unsigned ctx_depth;

void ctx_after_fork(void)
{
	ctx_depth = 0;
	memset(primary, 0, sizeof(primary));
	memset(primary_refs, 0, sizeof(primary_refs));
}

struct ctx *ctx_current(void)
{
	return ctx_depth ? ctx_stack[ctx_depth - 1] : NULL;
}

static int run_primary_retain(struct call *c)
{
	uint32_t dev = c->w[1];

	if (bad_dev(dev))
		return E_NO_DEVICE;
	if (!primary[dev]) {
		primary[dev] = obj_new(OBJ_CTX, sizeof(*primary[dev]));
		primary[dev]->dev = dev;
		primary[dev]->primary = true;
		primary[dev]->flags = primary_flags[dev];
		tools_context(primary[dev], dev, true);
	}
	if (put64(c->w[0], (uintptr_t)primary[dev]))
		return E_VALUE;
	primary_refs[dev]++;
	return OK;
}

static int run_primary_release(struct call *c)
{
	uint32_t dev = c->w[0];

	if (bad_dev(dev))
		return E_NO_DEVICE;
	if (!primary_refs[dev])
		return E_CONTEXT;
	primary_refs[dev]--;
	return OK;
}

static int run_primary_state(struct call *c)
{
	uint32_t dev = c->w[0];

	if (bad_dev(dev))
		return E_NO_DEVICE;
	if (put32(c->w[1], primary_flags[dev]))
		return E_VALUE;
	return put32(c->w[2], primary_refs[dev] > 0);
}

static int run_primary_flags(struct call *c)
{
	if (bad_dev(c->w[0]))
		return E_NO_DEVICE;
	primary_flags[(uint32_t)c->w[0]] = c->w[1];
	return OK;
}

static int ctx_push(struct ctx *ctx)
{
	if (ctx_depth == CTX_STACK_MAX)
		return E_OOM;
	ctx_stack[ctx_depth++] = ctx;
	return OK;
}

/* The device is the last argument, preceded by the flags; the forms differ in the arguments between
 * them and the out-pointer. */
static int run_ctx_create(struct call *c)
{
	unsigned n = c->fn->arg_cnt;
	struct ctx *ctx;

	if (n < 3 || bad_dev(c->w[n - 1]))
		return E_NO_DEVICE;
	ctx = obj_new(OBJ_CTX, sizeof(*ctx));
	ctx->dev = c->w[n - 1];
	ctx->flags = c->w[n - 2];
	if (put64(c->w[0], (uintptr_t)ctx)) {
		obj_free(ctx);
		return E_VALUE;
	}
	tools_context(ctx, ctx->dev, true);
	return ctx_push(ctx);
}

static int run_ctx_destroy(struct call *c)
{
	struct ctx *ctx = obj_get(c->w[0], OBJ_CTX);

	if (!ctx || ctx->primary)
		return E_CONTEXT;
	tools_context(ctx, ctx->dev, false);
	if (ctx_current() == ctx)
		ctx_depth--;
	/* It may still be current in another thread: it is no longer a handle, but is not freed. */
	ctx->obj.kind = 0;
	return OK;
}

static int run_ctx_get_current(struct call *c)
{
	return put64(c->w[0], (uintptr_t)ctx_current());
}

static int run_ctx_set_current(struct call *c)
{
	struct ctx *ctx = obj_get(c->w[0], OBJ_CTX);

	if (c->w[0] && !ctx)
		return E_CONTEXT;
	if (ctx_depth)
		ctx_depth--;
	return ctx ? ctx_push(ctx) : OK;
}

static int run_ctx_push(struct call *c)
{
	struct ctx *ctx = obj_get(c->w[0], OBJ_CTX);

	return ctx ? ctx_push(ctx) : E_CONTEXT;
}

static int run_ctx_pop(struct call *c)
{
	if (!ctx_depth)
		return E_CONTEXT;
	if (put64_opt(c->w[0], (uintptr_t)ctx_current()))
		return E_VALUE;
	ctx_depth--;
	return OK;
}

static int run_ctx_device(struct call *c)
{
	return put32(c->w[0], ctx_current()->dev);
}

static int run_ctx_flags(struct call *c)
{
	return put32(c->w[0], ctx_current()->flags);
}

static int run_ctx_version(struct call *c)
{
	return put32(c->w[1], 13000);
}

static int run_ctx_limit(struct call *c)
{
	return put64(c->w[0], 1024);
}

static int run_priority_range(struct call *c)
{
	return put32_opt(c->w[0], 0) || put32_opt(c->w[1], (uint32_t)-5) ? E_VALUE : OK;
}

const struct impl impl_ctx[] = {
	{"cuDevicePrimaryCtxRetain", run_primary_retain, 0},
	{"cuDevicePrimaryCtxRelease", run_primary_release, 0},
	{"cuDevicePrimaryCtxRelease_v2", run_primary_release, 0},
	{"cuDevicePrimaryCtxGetState", run_primary_state, 0},
	{"cuDevicePrimaryCtxSetFlags", run_primary_flags, 0},
	{"cuDevicePrimaryCtxSetFlags_v2", run_primary_flags, 0},
	{"cuCtxCreate", run_ctx_create, 0},
	{"cuCtxCreate_v2", run_ctx_create, 0},
	{"cuCtxCreate_v3", run_ctx_create, 0},
	{"cuCtxCreate_v4", run_ctx_create, 0},
	{"cuCtxDestroy", run_ctx_destroy, 0},
	{"cuCtxDestroy_v2", run_ctx_destroy, 0},
	{"cuCtxGetCurrent", run_ctx_get_current, 0},
	{"cuCtxSetCurrent", run_ctx_set_current, 0},
	{"cuCtxPushCurrent", run_ctx_push, 0},
	{"cuCtxPushCurrent_v2", run_ctx_push, 0},
	{"cuCtxPopCurrent", run_ctx_pop, 0},
	{"cuCtxPopCurrent_v2", run_ctx_pop, 0},
	{"cuCtxGetDevice", run_ctx_device, IMPL_CONTEXT},
	{"cuCtxGetFlags", run_ctx_flags, IMPL_CONTEXT},
	{"cuCtxGetApiVersion", run_ctx_version, 0},
	{"cuCtxGetLimit", run_ctx_limit, IMPL_CONTEXT},
	{"cuCtxGetStreamPriorityRange", run_priority_range, IMPL_CONTEXT},
	{NULL, NULL, 0},
};
