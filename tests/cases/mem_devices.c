/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Memory of two devices, by the thread's context; and memory that is freed with its context. */
#include "mem_calls.h"

static handle second;

static void *worker(void *arg)
{
	case_set_current(second);
	case_alloc(300);
	return arg;
}

int main(void)
{
	handle first, own = NULL;
	pthread_t thread;
	dptr lost;
	int r;

	case_open();
	first = case_context();
	mem_needs_devices(2);
	second = mem_retain(1);
	case_alloc(1000);
	case_set_current(second);
	case_alloc(200);
	r = F(cuCtxPushCurrent_v2)(first);
	expect("cuCtxPushCurrent_v2", r, "'op':'push'");
	case_alloc(2000);
	r = F(cuCtxCreate_v2)(&own, 0, 1);
	expect("cuCtxCreate_v2", r, "'op':'create'");
	must("cuCtxCreate_v2", r, 0);
	lost = case_alloc(5000);
	r = F(cuCtxDestroy_v2)(own);
	expect("cuCtxDestroy_v2", r, "'op':'destroy'");
	must("cuCtxDestroy_v2", r, 0);
	case_alloc(4000);
	own = NULL;
	r = F(cuCtxPopCurrent_v2)(&own);
	expect("cuCtxPopCurrent_v2", r, "'op':'pop'");
	case_alloc(400);
	if (pthread_create(&thread, NULL, worker, NULL) || pthread_join(thread, NULL))
		die("no thread");
	case_report("{'memory':{'devices':["
		    "{'device':0,'pid':%d,'live_bytes':7000,'peak_bytes':7000},"
		    "{'device':1,'pid':%d,'live_bytes':900,'peak_bytes':5200}],"
		    "'peak_bytes':8200,'leak_count':7,'leak_bytes':12900,"
		    "'leak_ends':{'context':{'count':1,'bytes':5000},"
		    "'exit':{'count':6,'bytes':7900}},"
		    "'leaks':[{'ptr':" HEX ",'size':5000,'end':'context','device':1},"
		    "{'size':4000,'device':0},{'size':2000,'device':0},{'size':1000,'device':0},"
		    "{'size':400,'device':1},{'size':300,'device':1},{'size':200,'device':1}],"
		    "'reset_unknown':false}}",
		    getpid(), getpid(), H(lost));
	return 0;
}
