/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A graph built node by node, a clone made before its last node, and a graph that is never
 * launched. */
#include "work_calls.h"

/* CUDA_KERNEL_NODE_PARAMS */
struct kernel_node {
	handle func;
	unsigned grid[3], block[3], shared, pad;
	void *params, *extra, *kern, *ctx;
};

static void host_work(void *arg)
{
	(void)arg;
}

int main(void)
{
	static const char ptx[] = PTX_HEAD PTX_KERNEL("_Z4stepv");
	struct kernel_node kernel = {.grid = {1, 1, 1}, .block = {32, 1, 1}};
	void *host[2] = {(void *)(uintptr_t)host_work, NULL};
	handle graph = NULL, clone = NULL, exec = NULL, cloned = NULL, never = NULL, node = NULL;
	dptr a = 0;
	unsigned n = 0;
	void *params[] = {&a, &n};

	case_open();
	case_context();
	kernel.func = case_function(case_module(ptx), "_Z4stepv", "step()");
	kernel.params = params;
	WORK("graph", cuGraphCreate, &graph, 0);
	WORK("graph", cuGraphAddKernelNode_v2, &node, graph, NULL, (size_t)0, &kernel);
	WORK("graph", cuGraphAddKernelNode_v2, &node, graph, NULL, (size_t)0, &kernel);
	WORK("graph", cuGraphAddEmptyNode, &node, graph, NULL, (size_t)0);
	WORK("graph", cuGraphAddHostNode, &node, graph, NULL, (size_t)0, host);
	WORK("graph", cuGraphClone, &clone, graph);
	WORK("graph", cuGraphAddKernelNode_v2, &node, graph, NULL, (size_t)0, &kernel);
	WORK("graph", cuGraphInstantiateWithFlags, &exec, graph, 0ull);
	WORK("graph", cuGraphInstantiateWithFlags, &cloned, clone, 0ull);
	WORK("graph", cuGraphCreate, &never, 0);
	WORK("graph", cuGraphLaunch, exec, NULL);
	WORK("graph", cuGraphLaunch, exec, NULL);
	WORK("graph", cuGraphLaunch, cloned, NULL);
	case_stream_sync(NULL);
	WORK("graph", cuGraphExecDestroy, cloned);
	case_report("{'overview':{'launches':0,'graph_launches':3},"
		    "'kernels':{'launches':0,'nodes':3,"
		    "'list':[{'name':'step()','count':0,'nodes':3}]},"
		    "'graphs':{'captures':0,'built':2,'clones':1,'instantiations':2,'launches':3,"
		    "'kernels_run':8,'list':["
		    "{'exec':" HEX ",'graph':" HEX ",'how':'built','nodes':5,'kernels':3,"
		    "'memcpys':0,'memsets':0,'others':2,'launches':2,'destroyed':false},"
		    "{'exec':" HEX ",'graph':" HEX ",'how':'cloned','nodes':4,'kernels':2,"
		    "'memcpys':0,'memsets':0,'others':2,'launches':1,'destroyed':true}]}}",
		    H(exec), H(graph), H(cloned), H(clone));
	return 0;
}
