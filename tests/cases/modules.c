/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Modules and libraries as sources of kernel names. */
#include "case.h"

#define A50  "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define A350 A50 A50 A50 A50 A50 A50 A50
#define LONG "kernel_" A350

static const char ptx[] = PTX_HEAD PTX_KERNEL("plain_c_name")
	PTX_KERNEL("_ZN4nano9attentionILi64EEEvPKfS2_Pfi") PTX_KERNEL(LONG);
static const char library_ptx[] = PTX_HEAD PTX_KERNEL("_Z4geluPKfPfi")
	PTX_KERNEL("_ZN7cutlass6KernelINS_4gemm6kernel8GemmUnivEEEvNT_6ParamsE");

/* cudatrace reads names behind handles, whose position it derives from other names. All must exist
 * until then, which may take a second while little happens. */
#define UNTIL_READ 1200

static void module(void)
{
	handle m = case_module(ptx), f, none = NULL, functions[3] = {0};
	const char *name = NULL;
	unsigned cnt = 0;
	int r;

	f = case_function(m, "plain_c_name", "plain_c_name");
	case_launch(f, NULL, "plain_c_name");
	f = case_function(m, "_ZN4nano9attentionILi64EEEvPKfS2_Pfi",
			  "void nano::attention<64>(float const*, float const*, float*, int)");
	case_launch(f, NULL, "void nano::attention<64>(float const*, float const*, float*, int)");
	f = case_function(m, LONG, LONG);
	case_launch(f, NULL, LONG);
	r = F(cuModuleGetFunction)(&none, m, "no_such_kernel");
	expect("cuModuleGetFunction", r,
	       "'type':'module','op':'lookup','args':{'hmod':" HEX ",'name':'no_such_kernel'}",
	       H(m));
	must("no such kernel", r, NOT_FOUND);
	r = F(cuFuncGetName)(&name, f);
	expect("cuFuncGetName", r,
	       "'type':'module','op':'lookup','args':{'hfunc':" HEX ",'name':'" LONG "'}", H(f));
	r = F(cuModuleGetFunctionCount)(&cnt, m);
	expect("cuModuleGetFunctionCount", r, "'op':'query','args':{'count':3}");
	r = F(cuModuleEnumerateFunctions)(functions, 3, m);
	expect("cuModuleEnumerateFunctions", r,
	       "'type':'module','op':'lookup','args':{'functions':[" HEX "," HEX "," HEX
	       "],'numFunctions':3}",
	       H(functions[0]), H(functions[1]), H(functions[2]));
	case_sleep_ms(UNTIL_READ);
	r = F(cuModuleUnload)(m);
	expect("cuModuleUnload", r, "'type':'module','op':'unload','args':{'hmod':" HEX "}", H(m));
}

/* Kernels that are only listed: no function gets them by name. */
static void enumerated(void)
{
	static const char image[] = PTX_HEAD PTX_KERNEL("_Z10enumeratedv");
	handle m = case_module(image), f = NULL;
	int r = F(cuModuleEnumerateFunctions)(&f, 1, m);

	expect("cuModuleEnumerateFunctions", r,
	       "'type':'module','op':'lookup','args':{'functions':[" HEX "]}", H(f));
	case_launch(f, NULL, "enumerated()");
	case_sleep_ms(UNTIL_READ);
	r = F(cuModuleUnload)(m);
	expect("cuModuleUnload", r, "'type':'module','op':'unload'");
}

static void library(void)
{
	handle l = NULL, k = NULL, f = NULL, kernels[2] = {0};
	const char *name = NULL;
	unsigned cnt = 0;
	int r;

	r = F(cuLibraryLoadData)(&l, library_ptx, NULL, NULL, 0, NULL, NULL, 0);
	expect("cuLibraryLoadData", r,
	       "'type':'module','op':'load','args':{'library':" HEX ",'code':" HEX
	       ",'numJitOptions':0,'numLibraryOptions':0}",
	       H(l), H(library_ptx));
	must("cuLibraryLoadData", r, 0);
	r = F(cuLibraryGetKernel)(&k, l, "_Z4geluPKfPfi");
	expect("cuLibraryGetKernel", r,
	       "'type':'module','op':'lookup','kernel':'gelu(float const*, float*, int)','args':{"
	       "'pKernel':" HEX ",'library':" HEX ",'name':'_Z4geluPKfPfi'}",
	       H(k), H(l));
	/* A CUkernel can be launched directly. */
	case_launch(k, NULL, "gelu(float const*, float*, int)");
	r = F(cuKernelGetFunction)(&f, k);
	expect("cuKernelGetFunction", r,
	       "'type':'module','op':'lookup','args':{'pFunc':" HEX ",'kernel':" HEX "}", H(f),
	       H(k));
	case_launch(f, NULL, "gelu(float const*, float*, int)");
	r = F(cuKernelGetName)(&name, k);
	expect("cuKernelGetName", r,
	       "'type':'module','op':'lookup','args':{'name':'_Z4geluPKfPfi','hfunc':" HEX "}",
	       H(k));
	r = F(cuLibraryGetKernelCount)(&cnt, l);
	expect("cuLibraryGetKernelCount", r, "'op':'query','args':{'count':2}");
	r = F(cuLibraryEnumerateKernels)(kernels, 2, l);
	expect("cuLibraryEnumerateKernels", r,
	       "'type':'module','op':'lookup','args':{'kernels':[" HEX "," HEX "],'numKernels':2}",
	       H(kernels[0]), H(kernels[1]));
	case_launch(kernels[0] == k ? kernels[1] : kernels[0], NULL,
		    "void cutlass::Kernel<cutlass::gemm::kernel::GemmUniv>(cutlass::gemm::kernel::"
		    "GemmUniv::Params)");
	r = F(cuCtxSynchronize)();
	expect("cuCtxSynchronize", r, "'type':'sync'");
	case_sleep_ms(UNTIL_READ);
	r = F(cuLibraryUnload)(l);
	expect("cuLibraryUnload", r, "'type':'module','op':'unload','args':{'library':" HEX "}",
	       H(l));
}

int main(void)
{
	handle m = NULL;
	int r;

	case_open();
	case_context();
	module();
	enumerated();
	library();
	r = F(cuModuleLoad)(&m, "/no/such/file.cubin");
	expect("cuModuleLoad", r,
	       "'type':'module','op':'load','args':{'fname':'/no/such/file.cubin'}");
	return 0;
}
