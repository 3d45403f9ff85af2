/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A graph captured over two streams and launched five times, beside plain launches. */
#include "work_calls.h"

#define LAUNCHES 5

int main(void)
{
	static const char ptx[] = PTX_HEAD PTX_KERNEL("_Z4stepv");
	handle f, s, side, forked, joined, graph = NULL, exec = NULL;
	dptr a, b;

	case_open();
	case_context();
	f = case_function(case_module(ptx), "_Z4stepv", "step()");
	a = case_alloc(4096);
	b = case_alloc(4096);
	s = case_stream(1);
	side = case_stream(1);
	forked = work_event();
	joined = work_event();
	WORK("graph", cuStreamBeginCapture_v2, s, 2);
	case_launch_on(f, s, "step()", true);
	work_wait_for(side, s, forked);
	case_launch_on(f, side, "step()", true);
	WORK("transfer", cuMemcpyDtoDAsync_v2, a, b, (size_t)4096, side);
	WORK("transfer", cuMemsetD8Async, b, 0, (size_t)4096, s);
	case_launch_on(f, s, "step()", true);
	work_wait_for(s, side, joined);
	WORK("graph", cuStreamEndCapture, s, &graph);
	WORK("graph", cuGraphInstantiateWithFlags, &exec, graph, 0ull);
	WORK("graph", cuGraphDestroy, graph);
	case_launch(f, side, "step()");
	for (int i = 0; i < LAUNCHES; i++)
		WORK("graph", cuGraphLaunch, exec, s);
	case_stream_sync(s);
	case_report("{'overview':{'launches':1,'graph_launches':%d},"
		    "'kernels':{'launches':1,'nodes':3,'unnamed':0,'threads':1536,'blocks':24,"
		    "'list':[{'name':'step()','count':1,'nodes':3,'grid_min':[4,3,2],"
		    "'grid_max':[4,3,2],'block':[32,2,1],'shared_mem':512,'threads':1536,"
		    "'blocks':24,'streams':1,'errors':0}]},"
		    "'graphs':{'captures':1,'capture_failures':0,'built':0,'clones':0,"
		    "'instantiations':1,'updates':0,'launches':%d,'kernels_run':%d,'list':["
		    "{'exec':" HEX ",'graph':" HEX ",'pid':%d,'how':'captured','nodes':5,"
		    "'kernels':3,'memcpys':1,'memsets':1,'others':0,'launches':%d,'updates':0,"
		    "'destroyed':false}]},"
		    "'streams':{'count':2,'list':["
		    "{'stream':" HEX ",'default':false,'flags':1,'launches':%d,'transfers':0,"
		    "'syncs':1,'max_depth':%d,'events_recorded':0,'events_waited':0},"
		    "{'stream':" HEX ",'launches':1,'transfers':0,'syncs':0,'max_depth':1}],"
		    "'edges':[],'default_stream':{'launches':0,'serialising':false}}}",
		    LAUNCHES, LAUNCHES, 3 * LAUNCHES, H(exec), H(graph), getpid(), LAUNCHES, H(s),
		    LAUNCHES, LAUNCHES, H(side));
	return 0;
}
