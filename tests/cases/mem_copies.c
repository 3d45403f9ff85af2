/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Copies from and to pageable, pinned, registered and managed memory. */
#include "mem_calls.h"

#define SIZE 100000

#define COPY(sym, dir, size, ...)                                                                  \
	do {                                                                                       \
		int r_ = F(sym)(__VA_ARGS__);                                                      \
		expect(#sym, r_, "'type':'transfer','size':%d,'direction':'" dir "'", size);       \
		must(#sym, r_, 0);                                                                 \
	} while (0)

int main(void)
{
	static char pageable[SIZE], registered[SIZE];
	size_t sizes[] = {30, 40}, idx[] = {0}, failed = 0;
	uint32_t attrs[6] = {1}; /* CUmemcpyAttributes: in stream order */
	dptr dsts[2], srcs[2];
	handle s;
	char *pinned;
	dptr d;
	int r;

	case_open();
	case_context();
	s = case_stream(1);
	d = case_alloc(SIZE);
	pinned = mem_alloc_host(SIZE);
	COPY(cuMemcpyHtoD_v2, "HtoD", SIZE, d, pageable, (size_t)SIZE);
	COPY(cuMemcpyHtoD_v2, "HtoD", 100, d, pinned + 500, (size_t)100);
	COPY(cuMemcpyHtoDAsync_v2, "HtoD", 200, d, registered, (size_t)200, s);
	r = F(cuMemHostRegister_v2)(registered, (size_t)SIZE, 0);
	expect("cuMemHostRegister_v2", r, "'op':'register'");
	must("cuMemHostRegister_v2", r, 0);
	COPY(cuMemcpyHtoDAsync_v2, "HtoD", 200, d, registered, (size_t)200, s);
	COPY(cuMemcpyDtoHAsync_v2, "DtoH", 300, registered + SIZE - 300, d, (size_t)300, s);
	COPY(cuMemcpyDtoH_v2, "DtoH", 400, pageable, d, (size_t)400);
	COPY(cuMemcpyDtoDAsync_v2, "DtoD", 50, d, d + 1000, (size_t)50, s);
	dsts[0] = d;
	dsts[1] = d + 1000;
	srcs[0] = (dptr)(uintptr_t)pinned;
	srcs[1] = (dptr)(uintptr_t)pinned + 2000;
	COPY(cuMemcpyBatchAsync, "HtoD", 70, dsts, srcs, sizes, (size_t)2, attrs, idx, (size_t)1,
	     &failed, s);
	r = F(cuMemsetD32Async)(d, 0, (size_t)10, s);
	expect("cuMemsetD32Async", r, "'op':'memset','size':40");
	case_stream_sync(s);
	MEM_FREE(cuMemFreeHost, pinned, 0);
	r = F(cuMemHostUnregister)(registered);
	expect("cuMemHostUnregister", r, "'op':'unregister'");
	case_free(d);
	case_report("{'transfers':{'directions':["
		    "{'direction':'HtoD','count':5,'bytes':100570,'async':3,'sync':2,'pinned':3,"
		    "'pageable':2,'managed':0,'unknown':0,'mean_size':20114,'small':4,"
		    "'gbps':{'$gt':0},'max_gbps':{'$gt':0}},"
		    "{'direction':'DtoH','count':2,'bytes':700,'async':1,'sync':1,'pinned':1,"
		    "'pageable':1,'small':2},"
		    "{'direction':'DtoD','count':1,'bytes':50,'async':1,'pinned':0,'pageable':0,"
		    "'unknown':0}],"
		    "'memset':{'count':1,'bytes':40,'async':1,'sync':0},"
		    "'pageable':{'count':3,'bytes':100600},'batches':{'calls':1,'copies':2},"
		    "'sizes':[{'direction':'HtoD','below':128,'count':2,'bytes':170},"
		    "{'direction':'HtoD','below':256,'count':2,'bytes':400},"
		    "{'direction':'HtoD','below':131072,'count':1,'bytes':100000},"
		    "{'direction':'DtoH','below':512,'count':2,'bytes':700},"
		    "{'direction':'DtoD','below':64,'count':1,'bytes':50}]},"
		    "'memory':{'leak_count':0,'bad_free_count':0}}");
	return 0;
}
