/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Lookups that change nothing: off unless --all. */
#include "case.h"

int main(void)
{
	int version = 0, cnt = 0, dev = -1, value = 0, active = -1, status = -1, r;
	size_t total = 0, mem_free = 0;
	unsigned flags = 0;
	handle ctx, cur = NULL;
	const char *text = NULL;
	char name[64] = "";
	void *fn = NULL;

	case_open();
	r = F(cuDriverGetVersion)(&version);
	expect("cuDriverGetVersion", r, "'type':'init','op':'query','args':{'driverVersion':%d}",
	       version);
	ctx = case_context();
	r = F(cuDeviceGetCount)(&cnt);
	expect("cuDeviceGetCount", r, "'type':'device','op':'query','args':{'count':%d}", cnt);
	r = F(cuDeviceGet)(&dev, 0);
	expect("cuDeviceGet", r, "'op':'query','args':{'device':0,'ordinal':0}");
	r = F(cuDeviceGetName)(name, (int)sizeof(name), 0);
	expect("cuDeviceGetName", r, "'op':'query','args':{'name':'%s','len':64,'dev':0}", name);
	r = F(cuDeviceTotalMem_v2)(&total, 0);
	expect("cuDeviceTotalMem_v2", r, "'op':'query','args':{'bytes':%zu,'dev':0}", total);
	r = F(cuDeviceGetAttribute)(&value, 75, 0);
	expect("cuDeviceGetAttribute", r,
	       "'op':'query','args':{'pi':%d,'attrib':'CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR',"
	       "'dev':0}",
	       value);
	r = F(cuCtxGetCurrent)(&cur);
	expect("cuCtxGetCurrent", r, "'type':'context','op':'query','args':{'pctx':" HEX "}",
	       H(ctx));
	for (int i = 0; i < 5; i++) {
		r = F(cuCtxGetDevice)(&dev);
		expect("cuCtxGetDevice", r, "'type':'context','op':'query','args':{'device':0}");
	}
	r = F(cuDevicePrimaryCtxGetState)(0, &flags, &active);
	expect("cuDevicePrimaryCtxGetState", r, "'op':'query','args':{'dev':0,'active':1}");
	r = F(cuMemGetInfo_v2)(&mem_free, &total);
	expect("cuMemGetInfo_v2", r, "'type':'memory','op':'query','args':{'free':%zu,'total':%zu}",
	       mem_free, total);
	r = F(cuGetErrorName)(2, &text);
	expect("cuGetErrorName", r,
	       "'op':'query','args':{'error':'CUDA_ERROR_OUT_OF_MEMORY','pStr':"
	       "'CUDA_ERROR_OUT_OF_MEMORY'}");
	r = F(cuGetProcAddress_v2)("cuMemAlloc", &fn, version, 0ull, &status);
	expect("cuGetProcAddress_v2", r,
	       "'op':'query','args':{'symbol':'cuMemAlloc','pfn':" HEX ",'cudaVersion':%d}", H(fn),
	       version);
	if (fn != case_sym("cuMemAlloc_v2"))
		die("cuGetProcAddress_v2 gives another address than the export's");
	r = F(cuDeviceGet)(&dev, 99);
	expect("cuDeviceGet", r,
	       "'op':'query','error':'CUDA_ERROR_INVALID_DEVICE','args':{'ordinal':99}");
	return 0;
}
