/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Capture into a graph, replay. A launch or copy on a capturing stream is a node, not a run. */
#include "case.h"

int main(void)
{
	static const char ptx[] = PTX_HEAD PTX_KERNEL("_Z4stepv");
	handle m, f, s, side, graph = NULL, outer = NULL, exec = NULL, fork_event = NULL,
			      join_event = NULL;
	size_t nodes = 0;
	dptr d;
	int r, status = -1;

	case_open();
	case_context();
	m = case_module(ptx);
	f = case_function(m, "_Z4stepv", "step()");
	s = case_stream(1);
	side = case_stream(1);
	d = case_alloc(2000);
	r = F(cuEventCreate)(&fork_event, 2);
	expect("cuEventCreate", r, "'type':'event'");
	r = F(cuEventCreate)(&join_event, 2);
	expect("cuEventCreate", r, "'type':'event'");
	r = F(cuStreamBeginCapture_v2)(s, 2);
	expect("cuStreamBeginCapture_v2", r,
	       "'type':'graph','op':'capture_begin','stream':" HEX ",'args':{'hStream':" HEX
	       ",'mode':'CU_STREAM_CAPTURE_MODE_RELAXED'}",
	       H(s), H(s));
	must("cuStreamBeginCapture_v2", r, 0);
	r = F(cuStreamIsCapturing)(s, &status);
	expect("cuStreamIsCapturing", r,
	       "'op':'query','args':{'captureStatus':'CU_STREAM_CAPTURE_STATUS_ACTIVE'}");
	case_launch_on(f, s, "step()", true);
	/* The event adds the second stream to the capture. */
	r = F(cuEventRecord)(fork_event, s);
	expect("cuEventRecord", r, "'type':'event','op':'record'");
	r = F(cuStreamWaitEvent)(side, fork_event, 0);
	expect("cuStreamWaitEvent", r, "'type':'stream','op':'wait'");
	case_launch_on(f, side, "step()", true);
	r = F(cuMemcpyDtoDAsync_v2)(d, d + 1000, (size_t)500, side);
	expect("cuMemcpyDtoDAsync_v2", r,
	       "'type':'transfer','op':'copy','direction':'DtoD','size':500,'stream':" HEX
	       ",'capturing':true,'bandwidth_gbps':null",
	       H(side));
	must("cuMemcpyDtoDAsync_v2", r, 0);
	r = F(cuMemsetD8Async)(d, 1, (size_t)300, s);
	expect("cuMemsetD8Async", r, "'op':'memset','size':300,'capturing':true");
	must("cuMemsetD8Async", r, 0);
	r = F(cuEventRecord)(join_event, side);
	expect("cuEventRecord", r, "'type':'event','op':'record'");
	r = F(cuStreamWaitEvent)(s, join_event, 0);
	expect("cuStreamWaitEvent", r, "'type':'stream','op':'wait'");
	case_launch_on(f, s, "step()", true);
	r = F(cuStreamEndCapture)(s, &graph);
	expect("cuStreamEndCapture", r,
	       "'type':'graph','op':'capture_end','stream':" HEX ",'args':{'hStream':" HEX
	       ",'phGraph':" HEX "}",
	       H(s), H(s), H(graph));
	must("cuStreamEndCapture", r, 0);
	r = F(cuGraphGetNodes)(graph, NULL, &nodes);
	expect("cuGraphGetNodes", r, "'op':'query','args':{'numNodes':5}");
	must("nodes", nodes, 5);
	r = F(cuGraphInstantiateWithFlags)(&exec, graph, 0ull);
	expect("cuGraphInstantiateWithFlags", r,
	       "'type':'graph','op':'instantiate','args':{'phGraphExec':" HEX ",'hGraph':" HEX "}",
	       H(exec), H(graph));
	must("cuGraphInstantiateWithFlags", r, 0);
	for (int i = 0; i < 3; i++) {
		r = F(cuGraphLaunch)(exec, s);
		expect("cuGraphLaunch", r,
		       "'type':'graph','op':'launch','stream':" HEX ",'args':{'hGraphExec':" HEX
		       ",'hStream':" HEX "}",
		       H(s), H(exec), H(s));
	}
	case_stream_sync(s);
	/* A graph cannot be added to a graph this way. */
	r = F(cuStreamBeginCapture_v2)(s, 2);
	expect("cuStreamBeginCapture_v2", r, "'op':'capture_begin'");
	r = F(cuGraphLaunch)(exec, s);
	expect("cuGraphLaunch", r,
	       "'type':'graph','op':'launch','error':'CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED'");
	must("cuGraphLaunch", r, 900);
	r = F(cuStreamEndCapture)(s, &outer);
	expect("cuStreamEndCapture", r,
	       "'op':'capture_end','error':'CUDA_ERROR_STREAM_CAPTURE_INVALIDATED'");
	must("cuStreamEndCapture", r, 901);
	/* After the capture a launch is a run again. */
	case_launch(f, s, "step()");
	case_stream_sync(s);
	r = F(cuGraphExecDestroy)(exec);
	expect("cuGraphExecDestroy", r,
	       "'type':'graph','op':'destroy','args':{'hGraphExec':" HEX "}", H(exec));
	r = F(cuGraphDestroy)(graph);
	expect("cuGraphDestroy", r, "'type':'graph','op':'destroy','args':{'hGraph':" HEX "}",
	       H(graph));
	case_free(d);
	return 0;
}
