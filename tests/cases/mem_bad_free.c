/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Frees that the driver refuses: the same twice, never allocated, inside of a range, the wrong
 * function. Also a free of NULL. */
#include "mem_calls.h"

#define NOT_REGISTERED 713

int main(void)
{
	static char buf[4096];
	dptr a, b;
	void *host;
	int r;

	case_open();
	case_context();
	a = case_alloc(4096);
	b = case_alloc(8192);
	host = mem_alloc_host(4096);
	case_free(a);
	MEM_FREE(cuMemFree_v2, a, INVALID_VALUE);
	MEM_FREE(cuMemFree_v2, (dptr)0x7000, INVALID_VALUE);
	MEM_FREE(cuMemFree_v2, b + 256, INVALID_VALUE);
	MEM_FREE(cuMemFree_v2, (dptr)(uintptr_t)host, INVALID_VALUE);
	r = F(cuMemHostUnregister)(buf);
	expect("cuMemHostUnregister", r, "'op':'unregister'");
	must("cuMemHostUnregister", r, NOT_REGISTERED);
	MEM_FREE(cuMemFree_v2, (dptr)0, 0);
	MEM_FREE(cuMemFreeHost, host, 0);
	case_free(b);
	case_report("{'memory':{'bad_free_count':5,'bad_frees':["
		    "{'what':'double free','ptr':" HEX ",'call':'cuMemFree','pid':%d,"
		    "'error':'CUDA_ERROR_INVALID_VALUE','confidence':1},"
		    "{'what':'unknown pointer','ptr':'0x7000','confidence':0.9,'inside':null},"
		    "{'what':'unknown pointer','ptr':" HEX ",'inside':" HEX ",'confidence':1},"
		    "{'what':'wrong function','ptr':" HEX "},"
		    "{'what':'unknown pointer','ptr':" HEX
		    ",'error':'CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED'}],"
		    "'leak_count':0,'unmatched_frees':0,'unseen_frees':0,"
		    "'kinds':[{'kind':'device','allocs':2,'frees':2,'live_bytes':0,"
		    "'peak_bytes':12288},{'kind':'host','allocs':1,'frees':1}]}}",
		    H(a), getpid(), H(b + 256), H(b), H(host), H(buf));
	return 0;
}
