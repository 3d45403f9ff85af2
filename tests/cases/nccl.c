/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Collectives of the stand-in libnccl.so.2 and what they call of the driver: names, arguments,
 * errors of the family's own result type, nesting; and every other function once.
 */
#include "case.h"

#define KERNEL "ncclDevKernel_AllReduce_Sum_f32_RING_LL"
/* Of calls of NCCL; of calls of the driver that NCCL makes. */
#define NCCL   "'api':'nccl','type':'collective','api_depth':null,'depth':null"
#define INSIDE "'api':null,'depth':1,'api_depth':0"

enum { INVALID_ARGUMENT = 4, INVALID_USAGE = 5, IN_PROGRESS = 7, FLOAT32 = 7, BFLOAT16 = 9 };

struct unique_id {
	char internal[128];
};

/* ncclConfig_t of 2.18 */
struct config {
	size_t size;
	unsigned magic, version;
	int blocking, cga_cluster_size, min_ctas, max_ctas;
	const char *net_name;
	int split_share;
};

static void *lib;

static void *sym(const char *name)
{
	void *p = dlsym(lib, name);

	if (!p)
		die("libnccl.so.2 has no %s", name);
	return p;
}

#define N(name) ((int (*)())sym(#name))

/* Without prototype a struct of 128 bytes would be passed by value, too; but then so would the
 * compiler have to know it. */
typedef int (*init_fn)(handle *, int, struct unique_id, int);
typedef int (*init_config_fn)(handle *, int, struct unique_id, int, const struct config *);

/* What making a communicator does in the call that the trace has as parent. */
static void expect_made(const char *parent)
{
	expect("cuMemAlloc_v2", 0, INSIDE ",'$parent':'%s','op':'alloc','size':8192", parent);
	expect("cuModuleLoadData", 0, INSIDE ",'$parent':'%s'", parent);
	expect("cuModuleGetFunction", 0, INSIDE ",'$parent':'%s','args':{'name':'" KERNEL "'}",
	       parent);
}

static void expect_launch(const char *parent, handle stream)
{
	expect("cuLaunchKernel", 0,
	       INSIDE ",'type':'kernel','op':'launch','$parent':'%s','kernel':'" KERNEL
		      "','grid':[2,1,1],"
		      "'block':[512,1,1],'stream':" HEX,
	       parent, H(stream));
}

static handle make_comm(void)
{
	struct unique_id id = {.internal = "x"};
	handle comm = NULL;
	int r = ((init_fn)sym("ncclCommInitRank"))(&comm, 2, id, 1);

	must("ncclCommInitRank", r, 0);
	expect("ncclCommInitRank", r,
	       NCCL ",'op':'init','$id':'init','$parent':null,'args':{'comm':" HEX
		    ",'nranks':2,'rank':1}",
	       H(comm));
	expect_made("init");

	r = ((init_fn)sym("ncclCommInitRank"))(&comm, 2, id, 2);
	must("ncclCommInitRank of rank 2 of 2", r, INVALID_ARGUMENT);
	expect("ncclCommInitRank", r,
	       NCCL ",'error':'ncclInvalidArgument','args':{'nranks':2,'rank':2}");
	return comm;
}

/* Not finished is no error. */
static void pending(void)
{
	struct config config = {.size = sizeof(config), .version = 22809, .cga_cluster_size = 4};
	struct unique_id id = {.internal = "x"};
	handle comm = NULL;
	int error = -1, r;

	r = ((init_config_fn)sym("ncclCommInitRankConfig"))(&comm, 1, id, 0, &config);
	must("ncclCommInitRankConfig", r, IN_PROGRESS);
	expect("ncclCommInitRankConfig", r,
	       NCCL ",'error':null,'$id':'config','args':{'nranks':1,'rank':0,"
		    "'config':{'version':22809,'blocking':0,'cgaClusterSize':4}}");
	expect_made("config");
	r = N(ncclCommGetAsyncError)(comm, &error);
	must("ncclCommGetAsyncError", r, 0);
	expect("ncclCommGetAsyncError", r,
	       NCCL ",'op':'query','args':{'comm':" HEX ",'asyncError':'ncclSuccess'}", H(comm));
	r = N(ncclCommDestroy)(comm);
	must("ncclCommDestroy", r, 0);
	expect("ncclCommDestroy", r, NCCL ",'op':'destroy','$id':'gone'");
	expect("cuModuleUnload", 0, INSIDE ",'$parent':'gone'");
	expect("cuMemFree_v2", 0, INSIDE ",'$parent':'gone'");
}

static void reduce(handle comm, dptr p, handle stream)
{
	int r = N(ncclAllReduce)(p, p, (size_t)1024, FLOAT32, 0, comm, stream);

	must("ncclAllReduce", r, 0);
	expect("ncclAllReduce", r,
	       NCCL ",'op':'all_reduce','$id':'one','stream':" HEX ",'args':{'sendbuff':" HEX
		    ",'recvbuff':" HEX
		    ",'count':1024,'datatype':'ncclFloat32','op':'ncclSum','comm':" HEX
		    ",'stream':" HEX "}",
	       H(stream), H(p), H(p), H(comm), H(stream));
	expect_launch("one", stream);

	/* Three calls, one launch, at the end of the group; one of them by the other name. */
	must("ncclGroupStart", N(ncclGroupStart)(), 0);
	expect("ncclGroupStart", 0, NCCL ",'op':'group_start'");
	for (int i = 0; i < 3; i++) {
		r = (i ? N(ncclAllReduce) : N(pncclAllReduce))(p, p, (size_t)(i + 1), BFLOAT16, 4,
							       comm, stream);
		must("ncclAllReduce in a group", r, 0);
		expect("ncclAllReduce", r,
		       NCCL ",'args':{'count':%d,'datatype':'ncclBfloat16','op':'ncclAvg'}", i + 1);
	}
	must("ncclGroupEnd", N(ncclGroupEnd)(), 0);
	expect("ncclGroupEnd", 0, NCCL ",'op':'group_end','$id':'group'");
	expect_launch("group", stream);

	r = N(ncclAllReduce)(p, p, (size_t)8, FLOAT32, 0, NULL, stream);
	must("ncclAllReduce without communicator", r, INVALID_ARGUMENT);
	expect("ncclAllReduce", r, NCCL ",'error':'ncclInvalidArgument','args':{'comm':'0x0'}");
	r = N(ncclGroupEnd)();
	must("ncclGroupEnd without start", r, INVALID_USAGE);
	expect("ncclGroupEnd", r, NCCL ",'error':'ncclInvalidUsage'");
}

/* Functions that do nothing in the stand-in; N: they return no result. */
static void all_others(void)
{
	static const char *const names[] = {
#define FN(sym, cls, op, since, args)		#sym,
#define FN_NO_RESULT(sym, cls, op, since, args) "N" #sym,
#include "../fake/nccl_functions.def"
	};
	static const char *const done[] = {"ncclCommInitRank", "ncclCommInitRankConfig",
					   "ncclCommDestroy",  "ncclCommGetAsyncError",
					   "ncclAllReduce",    "ncclGroupStart",
					   "ncclGroupEnd",     "ncclGetVersion"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		bool no_result = names[i][0] == 'N', skip = false;
		const char *name = names[i] + no_result;

		for (size_t d = 0; d < sizeof(done) / sizeof(done[0]); d++)
			skip |= !strcmp(name, done[d]);
		if (skip)
			continue;
		((int (*)())sym(name))(NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
				       NULL, NULL);
		if (no_result)
			expect(name, 0, NCCL ",'result':null,'error':null");
		else
			expect(name, 0, NCCL);
	}
}

int main(void)
{
	handle comm, stream;
	int version = 0, r;
	dptr p;

	case_open();
	lib = dlopen("libnccl.so.2", RTLD_NOW);
	if (!lib)
		die("%s", dlerror());
	case_sym("cuFakeNest");
	r = N(ncclGetVersion)(&version);
	must("ncclGetVersion", r, 0);
	expect("ncclGetVersion", r, NCCL ",'op':'query','args':{'version':22809}");
	must("ncclGetVersion(NULL)", N(ncclGetVersion)(NULL), INVALID_ARGUMENT);
	expect("ncclGetVersion", INVALID_ARGUMENT, NCCL ",'error':'ncclInvalidArgument'");
	case_context();
	stream = case_stream(0);
	p = case_alloc(4096);
	comm = make_comm();
	pending();
	reduce(comm, p, stream);
	case_stream_sync(stream);
	all_others();
	return 0;
}
