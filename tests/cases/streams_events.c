/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Streams and events, and calls that wait. */
#include "case.h"

static handle event(unsigned flags, const char *name)
{
	handle e = NULL;
	int r = F(cuEventCreate)(&e, flags);

	expect("cuEventCreate", r,
	       "'type':'event','op':'create','args':{'phEvent':" HEX ",'Flags':'%s'}", H(e), name);
	must("cuEventCreate", r, 0);
	return e;
}

static void record(handle e, handle s)
{
	int r = F(cuEventRecord)(e, s);

	expect("cuEventRecord", r,
	       "'type':'event','op':'record','stream':" HEX ",'args':{'hEvent':" HEX
	       ",'hStream':" HEX "}",
	       H(s), H(e), H(s));
	must("cuEventRecord", r, 0);
}

static void destroy(handle e)
{
	int r = F(cuEventDestroy_v2)(e);

	expect("cuEventDestroy_v2", r, "'type':'event','op':'destroy','args':{'hEvent':" HEX "}",
	       H(e));
}

static void callback(handle s, int status, void *arg)
{
	(void)s;
	*(int *)arg = status + 1;
}

int main(void)
{
	static const char ptx[] = PTX_HEAD PTX_KERNEL("_Z4workv");
	handle m, f, s, t = NULL, begin, end, quick;
	int r, called = 0;
	float ms = -1;

	case_open();
	case_context();
	m = case_module(ptx);
	f = case_function(m, "_Z4workv", "work()");
	s = case_stream(0);
	r = F(cuStreamCreateWithPriority)(&t, 1, -1);
	expect("cuStreamCreateWithPriority", r,
	       "'type':'stream','op':'create','args':{'phStream':" HEX
	       ",'flags':'CU_STREAM_NON_BLOCKING','priority':-1}",
	       H(t));
	begin = event(0, "CU_EVENT_DEFAULT");
	end = event(1, "CU_EVENT_BLOCKING_SYNC");
	quick = event(3, "CU_EVENT_BLOCKING_SYNC|CU_EVENT_DISABLE_TIMING");
	record(begin, s);
	case_launch(f, s, "work()");
	case_launch(f, s, "work()");
	record(end, s);
	r = F(cuStreamWaitEvent)(t, end, 0);
	expect("cuStreamWaitEvent", r,
	       "'type':'stream','op':'wait','stream':" HEX ",'args':{'hStream':" HEX
	       ",'hEvent':" HEX "}",
	       H(t), H(t), H(end));
	case_launch(f, t, "work()");
	record(quick, t);
	/* Not ready is not an error, so it has no name. */
	r = F(cuEventQuery)(quick);
	expect("cuEventQuery", r,
	       "'type':'event','op':'query','error':null,'args':{'hEvent':" HEX "}", H(quick));
	r = F(cuStreamQuery)(t);
	expect("cuStreamQuery", r, "'type':'stream','op':'query','error':null");
	r = F(cuEventSynchronize)(end);
	expect("cuEventSynchronize", r,
	       "'type':'sync','op':'sync','duration_us':{'$ge':0},'args':{'hEvent':" HEX "}",
	       H(end));
	must("cuEventSynchronize", r, 0);
	r = F(cuEventElapsedTime)(&ms, begin, end);
	expect("cuEventElapsedTime", r,
	       "'op':'query','args':{'pMilliseconds':{'$ge':0},'hStart':" HEX ",'hEnd':" HEX "}",
	       H(begin), H(end));
	if (ms < 0)
		die("the kernels took %f ms", (double)ms);
	case_stream_sync(t);
	r = F(cuEventQuery)(quick);
	expect("cuEventQuery", r, "'op':'query'");
	must("cuEventQuery", r, 0);
	r = F(cuStreamAddCallback)(s, callback, &called, 0);
	expect("cuStreamAddCallback", r, "'type':'stream','stream':" HEX, H(s));
	case_stream_sync(s);
	must("callback", called, 1);
	if (dlsym(case_lib, "cuFakeNest")) { /* a real driver crashes */
		r = F(cuStreamSynchronize)((handle)0x12345000);
		must("waiting for no stream", r, INVALID_HANDLE);
		expect("cuStreamSynchronize", r, "'type':'sync','stream':'0x12345000'");
	}
	destroy(quick);
	destroy(end);
	destroy(begin);
	r = F(cuStreamDestroy_v2)(t);
	expect("cuStreamDestroy_v2", r, "'type':'stream','op':'destroy','args':{'hStream':" HEX "}",
	       H(t));
	r = F(cuStreamDestroy_v2)(s);
	expect("cuStreamDestroy_v2", r, "'type':'stream','op':'destroy','args':{'hStream':" HEX "}",
	       H(s));
	return 0;
}
