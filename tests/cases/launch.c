/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Launches: eleven arguments, a configuration with attributes, cooperative, host functions. */
#include "case.h"

struct attr {
	uint32_t id, pad, value[16];
};

struct config {
	uint32_t grid[3], block[3], shared_mem_sz;
	handle stream;
	struct attr *attrs;
	uint32_t attr_cnt;
};

static int host_calls;

static void host_func(void *arg)
{
	__atomic_add_fetch((int *)arg, 1, __ATOMIC_RELAXED);
}

static void with_config(handle f, handle s)
{
	struct attr attrs[] = {
		{.id = 4, .value = {2, 1, 1}}, /* CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION */
		{.id = 0},
	};
	struct config cfg = {{8, 2, 1}, {64, 1, 1}, 1024, s, attrs, 2};
	dptr a = 0;
	uint32_t n = 0;
	void *params[] = {&a, &n};
	int r;

	r = F(cuLaunchKernelEx)(&cfg, f, params, NULL);
	expect("cuLaunchKernelEx", r,
	       "'type':'kernel','op':'launch','grid':[8,2,1],'block':[64,1,1],'cluster':[2,1,1],"
	       "'shared_mem':1024,'stream':" HEX ",'kernel':'saxpy(float*, int)',"
	       "'args':{'f':" HEX ",'config':{'gridDimX':8,'gridDimY':2,'blockDimX':64,"
	       "'sharedMemBytes':1024,'hStream':" HEX ",'numAttrs':2,'attrs':[{'id':"
	       "'CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION'},{'id':'CU_LAUNCH_ATTRIBUTE_IGNORE'}]}}",
	       H(s), H(f), H(s));
	cfg.attr_cnt = 0;
	cfg.attrs = NULL;
	cfg.stream = NULL;
	r = F(cuLaunchKernelEx)(&cfg, f, params, NULL);
	expect("cuLaunchKernelEx", r,
	       "'type':'kernel','op':'launch','grid':[8,2,1],'block':[64,1,1],'stream':'0x0',"
	       "'kernel_mangled':'_Z5saxpyPfi','args':{'config':{'numAttrs':0}}");
}

int main(void)
{
	static const char ptx[] = PTX_HEAD PTX_KERNEL("_Z5saxpyPfi");
	handle m, f, s;
	dptr a = 0;
	uint32_t n = 0;
	void *params[] = {&a, &n};
	int r;

	case_open();
	case_context();
	m = case_module(ptx);
	f = case_function(m, "_Z5saxpyPfi", "saxpy(float*, int)");
	s = case_stream(1);
	case_launch(f, s, "saxpy(float*, int)");
	case_launch(f, NULL, "saxpy(float*, int)");
	with_config(f, s);
	r = F(cuLaunchCooperativeKernel)(f, 2, 1, 1, 32, 1, 1, 0, s, params);
	expect("cuLaunchCooperativeKernel", r,
	       "'type':'kernel','op':'launch','grid':[2,1,1],'block':[32,1,1],'stream':" HEX
	       ",'kernel':'saxpy(float*, int)'",
	       H(s));
	/* The driver refuses it: a call, but no launch. */
	r = F(cuLaunchKernel)(f, 0, 1, 1, 32, 1, 1, 0, s, params, NULL);
	expect("cuLaunchKernel", r, "'type':'kernel','op':'launch','grid':[0,1,1]");
	must("empty grid", r, INVALID_VALUE);
	r = F(cuLaunchKernel)(f, 1, 1, 1, 2048, 1, 1, 0, s, params, NULL);
	expect("cuLaunchKernel", r, "'type':'kernel','op':'launch','block':[2048,1,1]");
	must("too large a block", r, INVALID_VALUE);
	r = F(cuLaunchHostFunc)(s, host_func, &host_calls);
	expect("cuLaunchHostFunc", r,
	       "'type':'kernel','op':'launch_host','stream':" HEX ",'args':{'hStream':" HEX
	       ",'fn':" HEX ",'userData':" HEX "}",
	       H(s), H(s), H(host_func), H(&host_calls));
	case_stream_sync(s);
	must("host function calls", host_calls, 1);
	r = F(cuCtxSynchronize)();
	expect("cuCtxSynchronize", r, "'type':'sync','op':'sync'");
	r = F(cuModuleUnload)(m);
	expect("cuModuleUnload", r, "'type':'module','op':'unload','args':{'hmod':" HEX "}", H(m));
	return 0;
}
