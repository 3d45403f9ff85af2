/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Collectives of the mock libnccl.so.2 and their driver calls: names, arguments, errors of the
 * family's own result type, nesting; and every other function once.
 */
#include "case.h"

#define KERNEL "ncclDevKernel_AllReduce_Sum_f32_RING_LL"
/* Members of calls of NCCL, and of driver calls that NCCL makes. */
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

/* Without a prototype a struct of 128 bytes would be passed by value, too, but its type must be
 * known. */
typedef int (*init_fn)(handle *, int, struct unique_id, int);
/* A call whose result is not a CUresult. */
static void expect_as(const char *name, int result)
{
	if (result == INVALID_ARGUMENT)
		expect(name, result, NCCL ",'error':'ncclInvalidArgument'");
	else
		expect(name, result, NCCL);
}

typedef int (*init_config_fn)(handle *, int, struct unique_id, int, const struct config *);

/* The mock's hash of a communicator's properties. */
static unsigned long long hash_of(unsigned long long from, const void *data, size_t len)
{
	for (size_t i = 0; i < len; i++)
		from = from * 33 ^ ((const unsigned char *)data)[i];
	return from;
}

static unsigned long long hash_of_id(char first)
{
	struct unique_id id = {{first}};

	return hash_of(5381, &id, sizeof(id));
}

/* The driver calls made while the call named parent makes a communicator. */
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
	       NCCL ",'op':'init','$id':'init','$parent':null,'communicator':" HEX
		    ",'rank':1,'nranks':2,'args':{'comm':" HEX ",'nranks':2,'rank':1}",
	       hash_of_id('x'), H(comm));
	expect_made("init");

	r = ((init_fn)sym("ncclCommInitRank"))(&comm, 2, id, 2);
	must("ncclCommInitRank of rank 2 of 2", r, INVALID_ARGUMENT);
	expect("ncclCommInitRank", r,
	       NCCL ",'error':'ncclInvalidArgument','args':{'nranks':2,'rank':2}");
	return comm;
}

/* A pending call is no error. */
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
	       NCCL
	       ",'op':'all_reduce','$id':'one','count':1024,'datatype':'float32','redop':'sum',"
	       "'bytes':4096,'algorithm':'RING','protocol':'LL','communicator':" HEX
	       ",'rank':1,'nranks':2,'seq':1,'seq_partial':null,"
	       "'root':null,'peer':null,'group':null,'stream':" HEX ",'args':{'sendbuff':" HEX
	       ",'recvbuff':" HEX
	       ",'count':1024,'datatype':'ncclFloat32','op':'ncclSum','comm':" HEX ",'stream':" HEX
	       "}",
	       hash_of_id('x'), H(stream), H(p), H(p), H(comm), H(stream));
	expect_launch("one", stream);

	/* Three calls, one launch at the end of the group; one of them by the alias. */
	must("ncclGroupStart", N(ncclGroupStart)(), 0);
	expect("ncclGroupStart", 0, NCCL ",'op':'group_start'");
	for (int i = 0; i < 3; i++) {
		r = (i ? N(ncclAllReduce) : N(pncclAllReduce))(p, p, (size_t)(i + 1), BFLOAT16, 4,
							       comm, stream);
		must("ncclAllReduce in a group", r, 0);
		expect("ncclAllReduce", r,
		       NCCL
		       ",'bytes':%d,'datatype':'bfloat16','redop':'avg','seq':%d,'grouped':null,"
		       "'args':{'count':%d,'datatype':'ncclBfloat16','op':'ncclAvg'}",
		       2 * (i + 1), i + 2, i + 1);
	}
	must("ncclGroupEnd", N(ncclGroupEnd)(), 0);
	expect("ncclGroupEnd", 0,
	       NCCL ",'op':'group_end','$id':'group','grouped':3,"
		    "'algorithm':'RING','protocol':'LL'");
	expect_launch("group", stream);

	r = N(ncclAllReduce)(p, p, (size_t)8, FLOAT32, 0, NULL, stream);
	must("ncclAllReduce without communicator", r, INVALID_ARGUMENT);
	expect("ncclAllReduce", r,
	       NCCL ",'error':'ncclInvalidArgument','seq':null,'communicator':null,"
		    "'args':{'comm':'0x0'}");
	r = N(ncclGroupEnd)();
	must("ncclGroupEnd without start", r, INVALID_USAGE);
	expect("ncclGroupEnd", r, NCCL ",'error':'ncclInvalidUsage'");
}

/* Every collective with its S: n times the count of one rank, if its count is per rank. */
static void others(handle comm, dptr p, handle stream)
{
	int r = N(ncclAllGather)(p, p, (size_t)10, FLOAT32, comm, stream);

	expect("ncclAllGather", r,
	       NCCL
	       ",'op':'all_gather','algorithm':'RING','protocol':'LL','count':10,'bytes':80,'seq':5,'redop':null,'$id':'ag'");
	expect_launch("ag", stream);
	r = N(ncclReduceScatter)(p, p, (size_t)20000, FLOAT32, 2, comm, stream);
	expect("ncclReduceScatter", r,
	       NCCL
	       ",'op':'reduce_scatter','algorithm':'RING','protocol':'SIMPLE','bytes':160000,'seq':6,'redop':'max','$id':'rs'");
	expect_launch("rs", stream);
	r = N(ncclBroadcast)(p, p, (size_t)3, FLOAT32, 1, comm, stream);
	expect("ncclBroadcast", r,
	       NCCL ",'op':'broadcast','bytes':12,'root':1,'peer':null,'seq':7,'$id':'bc'");
	expect_launch("bc", stream);
	/* Not a collective: it has no number. */
	r = N(ncclSend)(p, (size_t)5, FLOAT32, 0, comm, stream);
	expect("ncclSend", r,
	       NCCL
	       ",'op':'send','algorithm':null,'protocol':null,'bytes':20,'peer':0,'root':null,'seq':null,'communicator':" HEX
	       ",'$id':'send'",
	       hash_of_id('x'));
	expect_launch("send", stream);
	r = N(ncclReduce)(p, p, (size_t)5, FLOAT32, 7, 0, comm, stream);
	expect("ncclReduce", r,
	       NCCL ",'op':'reduce','redop':'premul_sum','root':0,'seq':8,'$id':'reduce'");
	expect_launch("reduce", stream);
}

/* Communicators made in a group exist at its end, and their first collective has number 1. Inner
 * groups end with the outer one; n calls are m launches, one per communicator. */
static void groups(handle parent, dptr p, handle stream)
{
	struct unique_id id = {"y"};
	handle one = NULL, two = NULL;
	int color = 7, r;

	N(ncclGroupStart)();
	expect("ncclGroupStart", 0, NCCL);
	r = ((init_fn)sym("ncclCommInitRank"))(&one, 4, id, 3);
	expect("ncclCommInitRank", r,
	       NCCL ",'op':'init','rank':3,'nranks':4,'communicator':null,'args':{'comm':'0x0'}");
	r = N(ncclCommSplit)(parent, color, 0, &two, NULL);
	expect("ncclCommSplit", r, NCCL ",'op':'init','nranks':null,'args':{'color':7,'key':0}");
	N(ncclGroupEnd)();
	expect("ncclGroupEnd", 0, NCCL ",'$id':'made'");
	expect_made("made");
	expect_made("made");

	N(ncclGroupStart)();
	expect("ncclGroupStart", 0, NCCL);
	r = N(ncclAllReduce)(p, p, (size_t)8, FLOAT32, 0, one, stream);
	expect("ncclAllReduce", r,
	       NCCL ",'seq':1,'seq_partial':null,'rank':3,'nranks':4,'communicator':" HEX,
	       hash_of_id('y'));
	N(ncclGroupStart)();
	expect("ncclGroupStart", 0, NCCL);
	r = N(ncclAllReduce)(p, p, (size_t)8, FLOAT32, 0, two, stream);
	expect("ncclAllReduce", r,
	       NCCL ",'seq':1,'seq_partial':null,'rank':0,'nranks':2,'communicator':" HEX,
	       hash_of(hash_of_id('x'), &color, sizeof(color)));
	N(ncclGroupEnd)();
	expect("ncclGroupEnd", 0, NCCL ",'grouped':null");
	r = N(ncclRecv)(p, (size_t)8, FLOAT32, 1, one, stream);
	expect("ncclRecv", r, NCCL ",'peer':1,'seq':null");
	N(ncclGroupEnd)();
	expect("ncclGroupEnd", 0, NCCL ",'$id':'both','grouped':3");
	expect_launch("both", stream);
	expect_launch("both", stream);
}

/* The same address may belong to another communicator: its numbers begin again. */
static void made_again(handle comm, dptr p, handle stream)
{
	struct unique_id id = {"z"};
	int r = N(ncclCommDestroy)(comm);

	expect("ncclCommDestroy", r, NCCL ",'op':'destroy','$id':'old'");
	expect("cuModuleUnload", 0, INSIDE ",'$parent':'old'");
	expect("cuMemFree_v2", 0, INSIDE ",'$parent':'old'");
	r = ((init_fn)sym("ncclCommInitRank"))(&comm, 1, id, 0);
	expect("ncclCommInitRank", r, NCCL ",'communicator':" HEX ",'$id':'new'", hash_of_id('z'));
	expect_made("new");
	/* With one rank nothing is launched. */
	r = N(ncclAllReduce)(p, p, (size_t)8, FLOAT32, 0, comm, stream);
	expect("ncclAllReduce", r,
	       NCCL ",'seq':1,'seq_partial':null,'rank':0,'nranks':1,'communicator':" HEX,
	       hash_of_id('z'));
}

/* Every function once; those with effects must fail. N: they return no result. */
static void all_functions(void)
{
	static const char *const names[] = {
#define FN(sym, cls, op, since, args)		#sym,
#define FN_NO_RESULT(sym, cls, op, since, args) "N" #sym,
#include "../fake/nccl_functions.def"
	};
	/* On arm64 the id that two of them take by value is the address of a copy. Elsewhere it is
	 * not an address, since two traces must be equal. */
#ifdef __aarch64__
	static struct unique_id id;
	void *third = &id;
#else
	void *third = NULL;
#endif

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		bool no_result = names[i][0] == 'N';
		const char *name = names[i] + no_result;
		int r = ((int (*)())sym(name))(NULL, NULL, third, NULL, NULL, NULL, NULL, NULL,
					       NULL, NULL, NULL, NULL);

		if (no_result)
			expect(name, 0, NCCL ",'result':null,'error':null");
		else
			expect_as(name, r);
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
	others(comm, p, stream);
	groups(comm, p, stream);
	made_again(comm, p, stream);
	case_stream_sync(stream);
	all_functions();
	return 0;
}
