/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Memory of three kinds that is never freed, and some that is. */
#include "mem_calls.h"

int main(void)
{
	dptr a, b, managed;
	void *host;

	case_open();
	case_context();
	a = case_alloc(4096);
	b = case_alloc(MIB);
	case_free(a);
	host = mem_alloc_host(8192);
	managed = mem_alloc_managed(65536);
	MEM_FREE(cuMemFreeHost, mem_alloc_host(100), 0);
	case_report("{'memory':{'kinds':["
		    "{'kind':'device','allocs':2,'frees':1,'alloc_bytes':1052672,"
		    "'live_bytes':1048576,'peak_bytes':1052672},"
		    "{'kind':'host','allocs':2,'frees':1,'alloc_bytes':8292,'live_bytes':8192,"
		    "'peak_bytes':8292},"
		    "{'kind':'managed','allocs':1,'frees':0,'live_bytes':65536}],"
		    "'devices':[{'device':0,'pid':%d,'live_bytes':1048576,'peak_bytes':1052672}],"
		    "'peak_bytes':1052672,'leak_count':3,'leak_bytes':1122304,"
		    "'leak_ends':{'exit':{'count':3,'bytes':1122304}},'leaks':["
		    "{'ptr':" HEX ",'size':1048576,'kind':'device','call':'cuMemAlloc','pid':%d,"
		    "'device':0,'end':'exit'},"
		    "{'ptr':" HEX ",'size':65536,'kind':'managed','call':'cuMemAllocManaged'},"
		    "{'ptr':" HEX ",'size':8192,'kind':'host','call':'cuMemAllocHost'}],"
		    "'bad_frees':[],'unmatched_frees':0,'unseen_frees':0}}",
		    getpid(), H(b), getpid(), H(managed), H(host));
	return 0;
}
