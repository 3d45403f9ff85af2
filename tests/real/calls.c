/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Makes calls that work without a GPU, and prints them, like the programs of tests/cases. */
#include "case.h"

static int rounds;
static volatile size_t strlen_of;

static void *work(void *arg)
{
	int version = 0, r = F(cuDriverGetVersion)(&version);

	(void)arg;
	expect("cuDriverGetVersion", r, "'$parent':null,'args':{'driverVersion':%d}", version);
	for (int i = 0; i < rounds; i++) {
		const char *text = "";

		r = F(cuGetErrorString)(2, &text);
		expect("cuGetErrorString", r,
		       "'op':'query','args':{'error':'CUDA_ERROR_OUT_OF_MEMORY','pStr':'%s'}",
		       text);
		r = F(cuGetErrorName)(500, &text);
		expect("cuGetErrorName", r, "'args':{'error':'CUDA_ERROR_NOT_FOUND','pStr':'%s'}",
		       text);
		r = F(cuGetErrorName)(123456, &text);
		expect("cuGetErrorName", r, "'args':{'error':123456}");
	}
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t t[3];
	size_t total = 0;
	int r, cnt = -1, device = -1;
	handle ctx = NULL, stream = NULL;
	const char *text = "";
	dptr p = 0;

	case_open_path(argv[1]);
	/* The kernel side cannot read a page that was never touched: so touch those with these
	 * texts. */
	r = F(cuGetErrorString)(2, &text);
	expect("cuGetErrorString", r, "'args':{'error':'CUDA_ERROR_OUT_OF_MEMORY'}");
	strlen_of += strlen(text);
	r = F(cuGetErrorName)(500, &text);
	expect("cuGetErrorName", r, "'args':{'error':'CUDA_ERROR_NOT_FOUND'}");
	strlen_of += strlen(text);
	rounds = argc > 2 ? atoi(argv[2]) : 50;
	work(NULL);
	/* No GPU: whatever the reason, it is the same number in the trace. */
	r = F(cuInit)(0);
	expect("cuInit", r, "'type':'init','op':'init','args':{'Flags':0}");
	fprintf(stderr, "cuInit %d\n", r);
	r = F(cuDeviceGetCount)(&cnt);
	expect("cuDeviceGetCount", r, "'type':'device','op':'query'");
	r = F(cuDeviceGet)(&device, 0);
	expect("cuDeviceGet", r, "'args':{'ordinal':0}");
	r = F(cuDeviceTotalMem_v2)(&total, 0);
	expect("cuDeviceTotalMem_v2", r, "'args':{'dev':0}");
	r = F(cuCtxGetCurrent)(&ctx);
	expect("cuCtxGetCurrent", r, "'type':'context'");
	r = F(cuMemAlloc_v2)(&p, (size_t)12345);
	expect("cuMemAlloc_v2", r, "'type':'memory','op':'alloc','args':{'bytesize':12345}");
	r = F(cuStreamCreate)(&stream, 1);
	expect("cuStreamCreate", r,
	       "'type':'stream','op':'create','args':{'Flags':'CU_STREAM_NON_BLOCKING'}");
	/* Eleven arguments. Without a context nothing is launched. */
	r = F(cuLaunchKernel)(NULL, 4, 3, 2, 32, 2, 1, 512, NULL, NULL, NULL);
	expect("cuLaunchKernel", r,
	       "'type':'kernel','op':'launch','grid':[4,3,2],'block':[32,2,1],'shared_mem':512,"
	       "'args':{'f':'0x0','gridDimX':4,'blockDimY':2,'sharedMemBytes':512,'hStream':'0x0','kernelParams':null,'extra':null}");
	r = F(cuMemcpyHtoD_v2)((dptr)0x1000, &cnt, (size_t)4);
	expect("cuMemcpyHtoD_v2", r,
	       "'type':'transfer','op':'copy','direction':'HtoD','size':4,'args':{'dstDevice':'0x1000','ByteCount':4}");
	r = F(cuMemFree_v2)((dptr)0);
	expect("cuMemFree_v2", r, "'type':'memory','op':'free'");
	for (int i = 0; i < 3; i++)
		if (pthread_create(&t[i], NULL, work, NULL))
			die("cannot make a thread");
	for (int i = 0; i < 3; i++)
		pthread_join(t[i], NULL);
	return 0;
}
