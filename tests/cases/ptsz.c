/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Forms for per-thread default streams: stream 0 is the thread's own. */
#include "case.h"

int main(void)
{
	static const char ptx[] = PTX_HEAD PTX_KERNEL("_Z5tokenv");
	static char buf[4096];
	int status = -1, r;
	int (*sync)(handle);
	void *fn = NULL;
	handle m, f;
	dptr p;

	case_open();
	case_context();
	m = case_module(ptx);
	f = case_function(m, "_Z5tokenv", "token()");
	p = case_alloc(sizeof(buf));
	r = F(cuMemcpyHtoD_v2_ptds)(p, buf, sizeof(buf));
	expect("cuMemcpyHtoD_v2_ptds", r,
	       "'type':'transfer','op':'copy','direction':'HtoD','size':4096,'args':{'dstDevice':" HEX
	       "}",
	       H(p));
	r = F(cuMemsetD8_v2_ptds)(p, 1, sizeof(buf));
	expect("cuMemsetD8_v2_ptds", r, "'type':'transfer','op':'memset','size':4096,'ptr':" HEX,
	       H(p));
	r = F(cuMemcpyDtoHAsync_v2_ptsz)(buf, p, sizeof(buf), NULL);
	expect("cuMemcpyDtoHAsync_v2_ptsz", r,
	       "'type':'transfer','op':'copy','direction':'DtoH','size':4096,'stream':'0x0'");
	r = F(cuLaunchKernel_ptsz)(f, 5, 1, 1, 64, 1, 1, 0, NULL, NULL, NULL);
	expect("cuLaunchKernel_ptsz", r,
	       "'type':'kernel','op':'launch','grid':[5,1,1],'block':[64,1,1],'kernel':'token()',"
	       "'stream':'0x0'");
	/* CU_STREAM_LEGACY and CU_STREAM_PER_THREAD are handles of their own. */
	r = F(cuLaunchKernel)(f, 6, 1, 1, 64, 1, 1, 0, (handle)1, NULL, NULL);
	expect("cuLaunchKernel", r, "'grid':[6,1,1],'stream':'0x1'");
	r = F(cuLaunchKernel)(f, 7, 1, 1, 64, 1, 1, 0, (handle)2, NULL, NULL);
	expect("cuLaunchKernel", r, "'grid':[7,1,1],'stream':'0x2'");
	r = F(cuGetProcAddress_v2)("cuStreamSynchronize", &fn, 12000, 2ull, &status);
	expect("cuGetProcAddress_v2", r,
	       "'op':'query','args':{'symbol':'cuStreamSynchronize','pfn':" HEX "}", H(fn));
	if (fn != case_sym("cuStreamSynchronize_ptsz"))
		die("cuGetProcAddress_v2 gives another form than the per-thread one");
	*(void **)&sync = fn;
	r = sync(NULL);
	expect("cuStreamSynchronize_ptsz", r, "'type':'sync','op':'sync','stream':'0x0'");
	must("cuStreamSynchronize_ptsz", r, 0);
	if (buf[100] != 1)
		die("wrong bytes came back");
	case_stream_sync((handle)1);
	case_free(p);
	return 0;
}
