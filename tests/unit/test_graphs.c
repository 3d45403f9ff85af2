/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The report's analysis of CUDA graphs. */
#include "memory_check.h"

static void launch_on(uint64_t stream, bool capturing)
{
	struct trace_event ev = factory_launch(&f, "k", stream);

	ev.capturing = capturing;
	send(&ev);
}

static void transfer_on(const char *symbol, uint64_t stream)
{
	struct trace_event ev = factory_copy(&f, symbol, COPY_DIR_DTOD, 100, 1000);

	ev.has |= HAS_STREAM;
	ev.stream = stream;
	send(&ev);
}

static void ask(const char *symbol, const char *args)
{
	struct trace_event ev = begin(symbol);

	call_args(&ev, "%s", args);
}

/* A capture that spreads to a second stream; a third stream runs meanwhile. */
static void capture(const char *graph)
{
	char args[64];

	on("cuStreamBeginCapture_v2", 0x1, "");
	launch_on(0x1, true);
	with_event("cuEventRecord", 0x1, 0xe1);
	with_event("cuStreamWaitEvent", 0x2, 0xe1);
	launch_on(0x2, true);
	transfer_on("cuMemcpyDtoDAsync_v2", 0x2);
	transfer_on("cuMemsetD8Async", 0x1);
	transfer_on("cuMemcpyDtoDAsync_v2", 0x3);
	launch_on(0x3, false);
	on("cuLaunchHostFunc", 0x1, "");
	with_event("cuEventRecord", 0x2, 0xe2);
	with_event("cuStreamWaitEvent", 0x1, 0xe2);
	snprintf(args, sizeof(args), "'phGraph':'%s'", graph);
	on("cuStreamEndCapture", 0x1, args);
}

static void test_captured(void **state)
{
	capture("0xa0");
	ask("cuGraphInstantiateWithFlags", "'phGraphExec':'0xb0','hGraph':'0xa0'");
	ask("cuGraphDestroy", "'hGraph':'0xa0'");
	on("cuGraphLaunch", 0x1, "'hGraphExec':'0xb0','hStream':'0x1'");
	on("cuGraphLaunch", 0x1, "'hGraphExec':'0xb0','hStream':'0x1'");
	ask("cuGraphExecUpdate_v2", "'hGraphExec':'0xb0','hGraph':'0xa0'");
	ask("cuGraphExecKernelNodeSetParams_v2", "'hGraphExec':'0xb0','hNode':'0x5'");
	ask("cuGraphExecDestroy", "'hGraphExec':'0xb0'");
	finish();
	check_json("'graphs':{'captures':1,'capture_failures':0,'built':0,'clones':0,"
		   "'instantiations':1,'updates':2,'launches':2,'launch_ns':2000,'kernels_run':4,");
	check_json("'exec':'0xb0','graph':'0xa0','pid':100,'how':'captured','nodes':5,'kernels':2,"
		   "'memcpys':1,'memsets':1,'others':1,'launches':2,'launch_ns':2000,"
		   "'instantiate_ns':2000,'updates':2,");
	check_json("'destroyed':true");
}

/* A graph that is built, with a child, then cloned; later nodes are not in the clone. */
static void test_built(void **state)
{
	ask("cuGraphCreate", "'phGraph':'0xa0','flags':0");
	ask("cuGraphAddKernelNode_v2",
	    "'phGraphNode':'0x1','hGraph':'0xa0','nodeParams':{'func':'0x5555'}");
	ask("cuGraphAddMemcpyNode", "'phGraphNode':'0x2','hGraph':'0xa0'");
	ask("cuGraphAddNode_v2", "'phGraphNode':'0x3','hGraph':'0xa0','nodeParams':{'type':"
				 "'CU_GRAPH_NODE_TYPE_MEMSET'}");
	ask("cuGraphAddDependencies", "'hGraph':'0xa0'");
	ask("cuGraphCreate", "'phGraph':'0xa1','flags':0");
	ask("cuGraphAddChildGraphNode", "'phGraphNode':'0x4','hGraph':'0xa1','childGraph':'0xa0'");
	ask("cuGraphAddKernelNode_v2", "'phGraphNode':'0x5','hGraph':'0xa1'");
	ask("cuGraphAddKernelNode_v2", "'phGraphNode':'0x6','hGraph':'0xa1'");
	ask("cuGraphDestroyNode", "'hNode':'0x6'");
	ask("cuGraphClone", "'phGraphClone':'0xa2','originalGraph':'0xa1'");
	ask("cuGraphAddKernelNode_v2", "'phGraphNode':'0x7','hGraph':'0xa1'");
	ask("cuGraphInstantiate_v2", "'phGraphExec':'0xb2','hGraph':'0xa2'");
	on("cuGraphLaunch", 0, "'hGraphExec':'0xb2'");
	finish();
	check_json("'captures':0,'capture_failures':0,'built':2,'clones':1,'instantiations':1,"
		   "'updates':0,'launches':1,'launch_ns':1000,'kernels_run':2,");
	check_json("'exec':'0xb2','graph':'0xa2','pid':100,'how':'cloned','nodes':5,'kernels':2,"
		   "'memcpys':1,'memsets':1,'others':1,'launches':1,");
	check_json("'destroyed':false");
	check_json("'name':null,'function':'0x5555','count':0,'nodes':1,");
}

static void unknown(void)
{
	on("cuGraphLaunch", 0, "'hGraphExec':'0xb0'");
	finish();
	check_json("'launches':1,'launch_ns':1000,'kernels_run':null,");
	check_json("'nodes':null,'kernels':null,'memcpys':null,'memsets':null,'others':null,");
}

static void test_made_before_the_trace(void **state)
{
	unknown();
	check_json("'how':'unknown'");
}

static void test_capture_began_before(void **state)
{
	launch_on(0x1, true);
	on("cuStreamEndCapture", 0x1, "'phGraph':'0xa0'");
	ask("cuGraphInstantiateWithFlags", "'phGraphExec':'0xb0','hGraph':'0xa0'");
	unknown();
	check_json("'how':'captured'");
}

static void test_conditional(void **state)
{
	ask("cuGraphCreate", "'phGraph':'0xa0','flags':0");
	ask("cuGraphAddNode_v2", "'phGraphNode':'0x3','hGraph':'0xa0','nodeParams':{'type':"
				 "'CU_GRAPH_NODE_TYPE_CONDITIONAL'}");
	ask("cuGraphInstantiateWithFlags", "'phGraphExec':'0xb0','hGraph':'0xa0'");
	unknown();
}

static void test_node_switched_off(void **state)
{
	capture("0xa0");
	ask("cuGraphInstantiateWithFlags", "'phGraphExec':'0xb0','hGraph':'0xa0'");
	ask("cuGraphNodeSetEnabled", "'hGraphExec':'0xb0','hNode':'0x1','isEnabled':0");
	unknown();
}

/* Nodes added by hand to the graph of an active capture. */
static void test_mixed_capture(void **state)
{
	capture("0xa0");
	ask("cuGraphInstantiateWithFlags", "'phGraphExec':'0xb0','hGraph':'0xa0'");
	on("cuStreamBeginCapture_v2", 0x1, "");
	ask("cuGraphAddKernelNode_v2", "'phGraphNode':'0x1','hGraph':'0xa1'");
	launch_on(0x1, true);
	on("cuStreamEndCapture", 0x1, "'phGraph':'0xa1'");
	ask("cuGraphInstantiateWithFlags", "'phGraphExec':'0xb1','hGraph':'0xa1'");
	on("cuGraphLaunch", 0x1, "'hGraphExec':'0xb1','hStream':'0x1'");
	finish();
	check_json("'captures':2,'capture_failures':0,'built':0,'clones':0,'instantiations':2,"
		   "'updates':0,'launches':1,'launch_ns':1000,'kernels_run':2,");
	check_json("'exec':'0xb1','graph':'0xa1','pid':100,'how':'captured','nodes':2,'kernels':2,"
		   "'memcpys':0,'memsets':0,'others':0,'launches':1,");
	check_json("'exec':'0xb0','graph':'0xa0','pid':100,'how':'captured','nodes':5,'kernels':2,"
		   "'memcpys':1,'memsets':1,'others':1,'launches':0,");
}

/* Invalidated: its launches are in no graph, and the stream executes again. */
static void test_failed_capture(void **state)
{
	struct trace_event ev;

	on("cuStreamBeginCapture_v2", 0x1, "");
	launch_on(0x1, true);
	ev = factory_on_stream(&f, "cuStreamEndCapture", 0x1, 1000);
	ev.is_error = true;
	ev.result = 901;
	call_args(&ev, "'phGraph':null");
	transfer_on("cuMemcpyDtoDAsync_v2", 0x1);
	on("cuStreamBeginCapture_v2", 0x1, "");
	on("cuStreamEndCapture", 0x1, "'phGraph':'0xa0'");
	ask("cuGraphInstantiateWithFlags", "'phGraphExec':'0xb0','hGraph':'0xa0'");
	process("exit");
	finish();
	check_json("'captures':1,'capture_failures':1,");
	check_json("'nodes':0,'kernels':0,'memcpys':0,'memsets':0,'others':0,'launches':0,");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_captured),
		TEST(test_built),
		TEST(test_made_before_the_trace),
		TEST(test_capture_began_before),
		TEST(test_conditional),
		TEST(test_node_switched_off),
		TEST(test_mixed_capture),
		TEST(test_failed_capture),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
