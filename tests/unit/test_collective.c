/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Meaning of NCCL calls: bytes, communicators and the contents of their memory, numbers, groups. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "test_model.h"

#include "decode/api_values.h"
#include "decode/nccl_kernels.h"
#include "model/collective.h"
#include "random.h"

static struct rig r;

static int setup(void **state)
{
	rig_open(&r, false, 0);
	return 0;
}

static int teardown(void **state)
{
	rig_close(&r);
	return 0;
}

static struct ct_comm comm_of(uint64_t handle, uint64_t hash, int rank, int nranks)
{
	return (struct ct_comm){.handle = handle,
				.magic = CT_COMM_MAGIC,
				.hash = hash,
				.rank = rank,
				.nranks = nranks,
				.version = 22809};
}

/* A call on a communicator with this memory; NULL: the memory could not be read. */
static const struct trace_event *on_comm(const char *symbol, uint64_t handle,
					 const struct ct_comm *mem, uint64_t count, uint64_t type)
{
	const struct api_fn *fn = api_fn_by_symbol(symbol);
	struct rig_layout l = {0};
	struct val vals[] = {{"comm", handle}, {"datatype", type}};

	assert_non_null(fn);
	for (size_t i = 0; i < sizeof(vals) / sizeof(vals[0]); i++)
		rig_put(&l, fn, &vals[i]);
	for (int i = 0; i < fn->arg_cnt; i++)
		if (!strcmp(fn->args[i].type->name, "size_t"))
			l.words[api_arg_word(fn, i)] = count;
	if (mem) {
		int cap = api_arg_cap(fn, api_arg_by_name(fn, "comm"));

		assert_true(cap >= 0);
		l.data[cap] = mem;
		l.len[cap] = sizeof(*mem);
	}
	return rig_send(&r, symbol, &l);
}

static const struct trace_event *reduce(uint64_t handle, const struct ct_comm *mem)
{
	return on_comm("ncclAllReduce", handle, mem, 8, ncclFloat32);
}

static void init(uint64_t handle, const struct ct_comm *mem)
{
	if (mem)
		CALL(&r, "ncclCommInitRank", {"comm", handle},
		     {"comm", .data = mem, .len = sizeof(*mem), .next = true}, {"nranks", 4},
		     {"rank", 3});
	else
		CALL(&r, "ncclCommInitRank", {"comm", handle}, {"nranks", 4}, {"rank", 3});
}

/* S as nccl-tests defines it. */
static void test_bytes(void **state)
{
	static const struct {
		const char *symbol;
		unsigned type, size;
		uint64_t times;
	} rows[] = {
		{"ncclAllReduce", ncclFloat32, 4, 1},	{"ncclReduce", ncclInt64, 8, 1},
		{"ncclBroadcast", ncclBfloat16, 2, 1},	{"ncclBcast", ncclInt8, 1, 1},
		{"ncclAllGather", ncclFloat16, 2, 4},	{"ncclReduceScatter", ncclFloat64, 8, 4},
		{"ncclAlltoAll", ncclFloat8e4m3, 1, 4}, {"ncclGather", ncclUint32, 4, 4},
		{"ncclScatter", ncclUint8, 1, 4},	{"ncclSend", ncclInt32, 4, 1},
		{"ncclRecv", ncclUint64, 8, 1},
	};
	struct ct_comm mem = comm_of(0x1000, 0xabc, 3, 4);

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct trace_event *ev =
			on_comm(rows[i].symbol, 0x1000, &mem, 10, rows[i].type);

		assert_int_equal(ev->has & (HAS_COUNT | HAS_BYTES | HAS_COMM),
				 HAS_COUNT | HAS_BYTES | HAS_COMM);
		assert_int_equal(ev->coll.count, 10);
		assert_int_equal(ev->coll.bytes, 10 * rows[i].size * rows[i].times);
		assert_int_equal(ev->coll.hash, 0xabc);
		assert_int_equal(ev->coll.rank, 3);
	}
	/* An unknown type, and a size that overflows. */
	assert_false(on_comm("ncclAllReduce", 0x1000, &mem, 10, 99)->has & HAS_BYTES);
	assert_false(on_comm("ncclAllReduce", 0x1000, &mem, UINT64_MAX / 2, ncclFloat32)->has &
		     HAS_BYTES);
	assert_false(on_comm("ncclAllGather", 0x1000, &mem, UINT64_MAX / 5, ncclFloat32)->has &
		     HAS_BYTES);
	/* Without the number of ranks S is unknown, too. */
	assert_false(on_comm("ncclAllGather", 0x2000, NULL, 10, ncclFloat32)->has & HAS_BYTES);
	assert_true(on_comm("ncclAllReduce", 0x2000, NULL, 10, ncclFloat32)->has & HAS_BYTES);
}

/* From the call that made it: without the communicator's memory the rank and the number of ranks
 * are known, but not the hash. */
static void test_made(void **state)
{
	struct ct_comm mem = comm_of(0x1000, 0xabc, 3, 4);

	init(0x1000, &mem);
	assert_int_equal(r.ev.coll.hash, 0xabc);
	assert_int_equal(r.ev.coll.nranks, 4);
	for (int i = 1; i <= 3; i++) {
		assert_int_equal(reduce(0x1000, &mem)->coll.seq, i);
		assert_false(r.ev.coll.seq_partial);
	}
	init(0x2000, NULL);
	assert_int_equal(r.ev.coll.rank, 3);
	assert_false(r.ev.has & HAS_COMM);
	assert_int_equal(reduce(0x2000, NULL)->coll.seq, 1);
	assert_int_equal(r.ev.coll.nranks, 4);
	assert_false(r.ev.has & HAS_COMM);
	/* A call that did not return has no memory of the communicator: earlier facts remain. */
	r.flags = CT_CALL_F_UNFINISHED;
	assert_int_equal(reduce(0x1000, NULL)->coll.seq, 4);
	assert_int_equal(r.ev.coll.hash, 0xabc);
	/* A failed call has no sequence number; a pending one has. */
	r.result = ncclInvalidArgument;
	assert_int_equal(reduce(0x1000, &mem)->coll.seq, 0);
	r.result = ncclInProgress;
	assert_int_equal(reduce(0x1000, &mem)->coll.seq, 5);
	assert_int_equal(on_comm("ncclSend", 0x1000, &mem, 1, ncclInt8)->coll.seq, 0);
}

static void test_late(void **state)
{
	struct ct_comm mem = comm_of(0x1000, 0xabc, 1, 2), other = comm_of(0x1000, 0xdef, 0, 2);

	assert_int_equal(reduce(0x1000, &mem)->coll.seq, 1);
	assert_true(r.ev.coll.seq_partial);
	assert_int_equal(reduce(0x1000, &mem)->coll.seq, 2);
	/* Another communicator at its address. */
	assert_int_equal(reduce(0x1000, &other)->coll.seq, 1);
	assert_int_equal(r.ev.coll.hash, 0xdef);
	CALL(&r, "ncclCommDestroy", {"comm", 0x1000});
	init(0x1000, &mem);
	assert_int_equal(reduce(0x1000, &mem)->coll.seq, 1);
	assert_false(r.ev.coll.seq_partial);
	/* This call destroys a reduction operator, not the communicator. */
	CALL(&r, "ncclRedOpDestroy", {"op", 5}, {"comm", 0x1000});
	assert_int_equal(reduce(0x1000, &mem)->coll.seq, 2);
}

/* made: NCCL's own count. Checks the call's number, and whether it is partial. */
static void counted(struct ct_comm *mem, uint64_t made, uint64_t seq, bool partial)
{
	mem->made = made;
	assert_int_equal(reduce(mem->handle, mem)->coll.seq, seq);
	assert_int_equal(r.ev.coll.seq_partial, partial);
}

/* NCCL's own count gives the number for communicators older than the trace, and after a loss. */
static void test_counted(void **state)
{
	struct ct_comm mem = comm_of(0x1000, 0xabc, 3, 4);

	counted(&mem, 0, 1, true);
	counted(&mem, 7, 7, false);
	counted(&mem, 8, 8, false);
	/* Captured: no rank counts it. */
	counted(&mem, 8, 9, false);
	counted(&mem, 9, 10, false);
	model__calls_lost(r.m, 0);
	r.result = ncclInProgress;
	counted(&mem, 11, 11, true);
	counted(&mem, 20, 21, false);
	/* Some calls were not traced. */
	counted(&mem, 30, 31, false);
	/* Inconsistent memory is ignored; a communicator made in the trace is counted. */
	mem.nranks = 0;
	counted(&mem, 99, 32, false);
	mem = comm_of(0x2000, 0xdef, 3, 4);
	init(0x2000, &mem);
	counted(&mem, 1, 1, false);
	counted(&mem, 2, 2, false);
}

/* In a group nothing is launched yet: its first call counts earlier calls, if launched. */
static void test_counted_in_groups(void **state)
{
	struct ct_comm mem = comm_of(0x1000, 0xabc, 3, 4);

	for (int i = 0; i < 2; i++) {
		bool first = !i;

		CALL0(&r, "ncclGroupStart");
		counted(&mem, first ? 5 : 7, first ? 1 : 8, first);
		counted(&mem, first ? 5 : 7, first ? 2 : 9, first);
		CALL0(&r, "ncclGroupEnd");
	}
	counted(&mem, 10, 10, false);
	model__calls_lost(r.m, 0);
	CALL0(&r, "ncclGroupStart");
	counted(&mem, 12, 11, true);
	r.result = ncclInProgress;
	CALL0(&r, "ncclGroupEnd");
	CALL0(&r, "ncclGroupStart");
	counted(&mem, 12, 12, true);
	CALL0(&r, "ncclGroupEnd");
}

/* Memory that contradicts itself is ignored. */
static void test_unsound(void **state)
{
	struct ct_comm bad[] = {comm_of(0x1000, 1, 0, 2), comm_of(0x1000, 0, 0, 2),
				comm_of(0x1000, 1, 2, 2), comm_of(0x1000, 1, -1, 2),
				comm_of(0x1000, 1, 0, 0), comm_of(0x1000, 1, 0, -1),
				comm_of(0x1000, 1, 0, 2), comm_of(0x1000, 1, 0, 2)};
	struct ct_comm old = comm_of(0x1000, 7, 0, 2);

	bad[0].magic++;
	bad[6].device = -1;
	bad[7].nvml_device = 1 << 20;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		reduce(0x1000, &bad[i]);
		assert_false(r.ev.has & HAS_COMM);
		assert_int_equal(r.ev.coll.nranks, 0);
	}
	/* Memory of another communicator. */
	reduce(0x2000, &old);
	assert_false(r.ev.has & HAS_COMM);
	/* Before 2.21 the memory began differently. */
	old.magic = 0x7f0012345678;
	reduce(0x1000, &old);
	assert_false(r.ev.has & HAS_COMM);
	old.version = 22005;
	reduce(0x1000, &old);
	assert_true(r.ev.has & HAS_COMM);
}

static void test_groups(void **state)
{
	struct ct_comm mem = comm_of(0x1000, 0xabc, 1, 2);
	uint64_t group;

	CALL0(&r, "ncclGroupEnd");
	assert_int_equal(r.ev.coll.group, 0);
	CALL0(&r, "ncclGroupStart");
	group = r.ev.id;
	assert_int_equal(r.ev.coll.group, group);
	assert_int_equal(reduce(0x1000, &mem)->coll.group, group);
	CALL0(&r, "ncclGroupStart");
	assert_int_equal(r.ev.coll.group, group);
	on_comm("ncclSend", 0x1000, &mem, 1, ncclInt8);
	assert_int_equal(r.ev.coll.group, group);
	CALL0(&r, "ncclGroupEnd");
	assert_int_equal(r.ev.coll.grouped, 0);
	/* Another thread is in no group. */
	r.tid++;
	assert_int_equal(reduce(0x1000, &mem)->coll.group, 0);
	CALL0(&r, "ncclGroupEnd");
	assert_int_equal(r.ev.coll.group, group);
	assert_int_equal(r.ev.coll.grouped, 2);
	assert_int_equal(reduce(0x1000, &mem)->coll.group, 0);
}

/* A communicator made in a group is unknown until the group ends: its first call has the data. */
static void test_made_in_group(void **state)
{
	struct ct_comm mem = comm_of(0x1000, 0xabc, 3, 4);

	CALL0(&r, "ncclGroupStart");
	init(0, NULL);
	assert_int_equal(r.ev.coll.nranks, 4);
	CALL0(&r, "ncclGroupEnd");
	assert_int_equal(reduce(0x1000, &mem)->coll.seq, 1);
	assert_false(r.ev.coll.seq_partial);
	/* Only this communicator. */
	mem.handle = 0x2000;
	reduce(0x2000, &mem);
	assert_true(r.ev.coll.seq_partial);
}

/* A launch in the call with the next id but one, with this function number of NCCL. */
static void launch_of(uint32_t func, bool in_nccl)
{
	const struct api_fn *fn = api_fn_by_symbol("cuLaunchKernelEx");
	int cap = api_arg_cap(fn, api_arg_by_name(fn, "extra"));
	uint32_t batch = func << 17 | 5;
	struct rig_layout l = {0};

	assert_true(cap >= 0);
	l.data[cap] = &batch;
	l.len[cap] = sizeof(batch);
	r.depth = in_nccl;
	r.parent = r.next_id + 1;
	rig_send(&r, "cuLaunchKernelEx", &l);
}

static void runs(const struct trace_event *ev, const char *algorithm, const char *protocol)
{
	if (!algorithm) {
		assert_null(ev->coll.algorithm);
		return;
	}
	assert_string_equal(ev->coll.algorithm, algorithm);
	assert_string_equal(ev->coll.protocol, protocol);
}

/* The number's meaning depends on the communicator's version; numbers of other collectives are
 * ignored. */
static void test_algorithm(void **state)
{
	struct ct_comm mem = comm_of(0x1000, 0xabc, 1, 2);

	launch_of(258, true);
	runs(reduce(0x1000, &mem), "RING", "LL");
	runs(reduce(0x1000, &mem), NULL, NULL);
	launch_of(257, true);
	runs(reduce(0x1000, &mem), "NVLS_TREE", "SIMPLE");
	launch_of(3, true); /* of AllGather */
	runs(reduce(0x1000, &mem), NULL, NULL);
	launch_of(9999, true);
	runs(reduce(0x1000, &mem), NULL, NULL);
	launch_of(258, false); /* the program's own */
	runs(reduce(0x1000, &mem), NULL, NULL);
	/* ncclBcast() calls ncclBroadcast(), which launches. */
	launch_of(342, true);
	r.depth = r.api_depth = 1;
	r.parent = r.next_id + 1;
	on_comm("ncclBroadcast", 0x1000, &mem, 8, ncclFloat32);
	runs(on_comm("ncclBcast", 0x1000, &mem, 8, ncclFloat32), "RING", "LL");
	mem.version = 23100;
	launch_of(258, true);
	runs(reduce(0x1000, &mem), NULL, NULL);
	mem.version = 22809;
	CALL0(&r, "ncclGroupStart");
	reduce(0x1000, &mem);
	launch_of(261, true);
	CALL0(&r, "ncclGroupEnd");
	runs(&r.ev, "TREE", "LL");
}

/* How many numbers each version has, and some of their values. */
static void test_numbers(void **state)
{
	static const struct {
		uint32_t version, cnt;
	} versions[] = {{22100, 0},   {22203, 555}, {22304, 590}, {22400, 670},
			{22809, 670}, {22900, 673}, {23007, 673}, {23100, 0}};
	struct nccl_kernel k;

	for (size_t i = 0; i < sizeof(versions) / sizeof(versions[0]); i++) {
		uint32_t cnt = 0;

		while (nccl_kernel_by_func(versions[i].version, cnt, &k))
			cnt++;
		assert_int_equal(cnt, versions[i].cnt);
	}
	assert_true(nccl_kernel_by_func(22809, 620, &k));
	assert_int_equal(k.op, OP_REDUCE_SCATTER);
	assert_string_equal(k.protocol, "SIMPLE");
	assert_true(nccl_kernel_by_func(23000, 671, &k) && !strcmp(k.algorithm, "RING"));
	assert_true(nccl_kernel_by_func(22809, 669, &k) && !k.algorithm);
	assert_true(nccl_kernel_by_func(22203, 2, &k) && !strcmp(k.algorithm, "RING"));
	assert_true(nccl_kernel_by_func(22304, 2, &k) && !strcmp(k.algorithm, "PAT"));
}

static void test_all_ranks(void **state)
{
	uint64_t handles[2] = {0x1000, 0x2000};

	CALL(&r, "ncclCommInitAll", {"comm", .data = handles, .len = sizeof(handles)}, {"ndev", 2});
	assert_int_equal(reduce(0x2000, NULL)->coll.rank, 1);
	assert_int_equal(r.ev.coll.nranks, 2);
	assert_int_equal(r.ev.coll.seq, 1);
	assert_false(r.ev.coll.seq_partial);
	assert_int_equal(reduce(0x1000, NULL)->coll.rank, 0);
}

static void test_bus_factor(void **state)
{
	assert_true(nccl_bus_factor(OP_ALL_REDUCE, 2) == 1);
	assert_true(nccl_bus_factor(OP_ALL_REDUCE, 8) == 1.75);
	assert_true(nccl_bus_factor(OP_ALL_GATHER, 8) == 0.875);
	assert_true(nccl_bus_factor(OP_REDUCE_SCATTER, 2) == 0.5);
	assert_true(nccl_bus_factor(OP_BROADCAST, 8) == 1);
	assert_true(nccl_bus_factor(OP_ALL_REDUCE, 0) == 0);
}

/* Any bytes as communicators' memory, any calls: only consistent data is shown. */
static void test_random(void **state)
{
	static const char *const symbols[] = {"ncclAllReduce", "ncclAllGather", "ncclSend",
					      "ncclReduce"};

	for (int i = 0; i < 200000; i++) {
		struct ct_comm mem;
		uint64_t handle = rnd() % 4 * 0x1000;

		for (size_t k = 0; k < sizeof(mem); k++)
			((uint8_t *)&mem)[k] = rnd() % 4 ? 0 : rnd();
		if (rnd() % 2)
			mem.handle = handle;
		if (rnd() % 2)
			mem.magic = CT_COMM_MAGIC;
		switch (rnd() % 8) {
		case 0:
			init(handle, &mem);
			break;
		case 1:
			CALL(&r, "ncclCommDestroy", {"comm", handle});
			break;
		case 2:
			CALL0(&r, rnd() % 2 ? "ncclGroupStart" : "ncclGroupEnd");
			break;
		default:
			r.result = rnd() % 8 ? 0 : ncclInvalidArgument;
			on_comm(symbols[rnd() % 4], handle, &mem, rnd(), rnd() % 16);
		}
		if (r.ev.has & HAS_COMM)
			assert_true(r.ev.coll.hash && r.ev.coll.rank < r.ev.coll.nranks);
	}
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_bytes),
		TEST(test_made),
		TEST(test_late),
		TEST(test_unsound),
		TEST(test_groups),
		TEST(test_made_in_group),
		TEST(test_all_ranks),
		TEST(test_algorithm),
		TEST(test_numbers),
		TEST(test_bus_factor),
		TEST(test_random),
		TEST(test_counted),
		TEST(test_counted_in_groups),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
