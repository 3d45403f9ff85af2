/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Raw records to events: outcome, processes and threads, bad records, names of kernels. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include "model/kernel.h"
#include "test_model.h"
#include "util/clock.h"

static struct rig r;

static int setup(void **state)
{
	rig_open(&r, false, 0);
	return 0;
}

static int setup_live(void **state)
{
	rig_open(&r, true, 0);
	return 0;
}

static int teardown(void **state)
{
	rig_close(&r);
	return 0;
}

static void test_common(void **state)
{
	const struct trace_event *ev;

	r.pid = 10;
	r.tid = 11;
	r.dur_ns = 4321;
	ev = CALL(&r, "cuMemAlloc_v2", {"dptr", 0x7f00}, {"bytesize", 512});
	assert_int_equal(r.cnt, 1);
	assert_int_equal(ev->kind, EVENT_CALL);
	assert_int_equal(ev->type, TYPE_MEMORY);
	assert_string_equal(ev->op, "alloc");
	assert_string_equal(ev->name, "cuMemAlloc");
	assert_string_equal(ev->fn->symbol, "cuMemAlloc_v2");
	assert_int_equal(ev->pid, 10);
	assert_int_equal(ev->tid, 11);
	assert_int_equal(event_duration_ns(ev), 4321);
	assert_int_equal(ev->id, 1);
	assert_int_equal(ev->parent_id, 0);
	assert_int_equal(ev->lib_id, 1);
	assert_int_equal(ev->result, 0);
	assert_false(ev->is_error || ev->unfinished || ev->abandoned);
}

static void test_outcome(void **state)
{
	const struct trace_event *ev;

	r.result = 1;
	ev = CALL0(&r, "cuInit");
	assert_int_equal(ev->result, 1);
	assert_true(ev->is_error);
	r.result = -7;
	assert_true(CALL0(&r, "cuInit")->is_error);
	/* The result of a query, not an error. */
	r.result = 600;
	ev = CALL0(&r, "cuStreamQuery");
	assert_int_equal(ev->result, 600);
	assert_false(ev->is_error);
	r.result = 600;
	assert_false(CALL0(&r, "cuEventQuery")->is_error);
	/* Never returned: the number in place of the result has no meaning. */
	r.flags = CT_CALL_F_UNFINISHED;
	r.result = 999;
	ev = CALL0(&r, "cuCtxSynchronize");
	assert_true(ev->unfinished);
	assert_false(ev->abandoned || ev->is_error);
	assert_int_equal(ev->result, 0);
	r.flags = CT_CALL_F_ABANDONED;
	r.result = 2;
	ev = CALL0(&r, "cuCtxSynchronize");
	assert_true(ev->abandoned);
	assert_false(ev->unfinished || ev->is_error);
	assert_int_equal(ev->result, 0);
}

/* Calls that never returned, or whose return was not traced, change nothing. */
static void test_unfinished(void **state)
{
	const struct trace_event *ev;

	CALL(&r, "cuMemAlloc_v2", {"dptr", 0x1000}, {"bytesize", 100});
	for (int flags = CT_CALL_F_UNFINISHED; flags <= CT_CALL_F_ENTRY_ONLY; flags *= 2) {
		r.flags = flags;
		ev = CALL(&r, "cuMemFree_v2", {"dptr", 0x1000});
		assert_false(ev->has_mem || ev->has & HAS_SIZE);
		assert_int_equal(ev->ptr, 0x1000);
		r.flags = flags;
		ev = CALL(&r, "cuMemAlloc_v2", {"dptr", 0x2000}, {"bytesize", 100});
		assert_false(ev->has_mem || ev->has & HAS_PTR);
		assert_int_equal(ev->size, 100);
		r.flags = flags;
		ev = CALL(&r, "cuMemcpyDtoH_v2", {"dstHost", 1}, {"srcDevice", 2},
			  {"ByteCount", 4096});
		assert_int_equal(ev->dir, COPY_DIR_DTOH);
		assert_false(ev->has & HAS_BANDWIDTH);
		r.flags = flags;
		CALL(&r, "cuStreamBeginCapture_v2", {"hStream", 0x5});
		ev = CALL(&r, "cuLaunchKernel", {"f", 0xf}, {"hStream", 0x5});
		assert_false(ev->capturing);
	}
	ev = CALL(&r, "cuMemFree_v2", {"dptr", 0x1000});
	assert_int_equal(ev->size, 100);
	assert_int_equal(ev->mem.bytes[MEM_DEVICE], 0);
}

static void test_nested(void **state)
{
	struct ct_call c = {
		.rec = {.size = CT_CALL_FIXED_SZ, .kind = CT_REC_CALL, .pid = 5, .tid = 6}};
	int id = fnset__id(r.fns, "cuInit");

	c.func_id = id;
	c.call_id = 8;
	c.parent_id = 7;
	c.depth = c.api_depth = 3;
	c.lib_id = 2;
	/* The clock stood still, or went back. */
	c.rec.ts_ns = 100;
	c.end_ns = 50;
	rig_record(&r, &c, CT_CALL_FIXED_SZ);
	assert_int_equal(r.cnt, 1);
	assert_int_equal(r.ev.parent_id, 7);
	assert_int_equal(r.ev.depth, 3);
	assert_int_equal(r.ev.lib_id, 2);
	assert_int_equal(event_duration_ns(&r.ev), 0);
	/* The argument is missing in the record. */
	assert_int_equal(r.ev.word_cnt, 0);
}

static void test_bad(void **state)
{
	struct ct_call c = {.rec = {.size = CT_CALL_FIXED_SZ, .kind = CT_REC_CALL}};
	struct ct_lib_map lib = {.rec = {.size = sizeof(lib), .kind = CT_REC_LIB}};
	struct ct_nv nv = {.rec = {.size = sizeof(nv), .kind = CT_REC_NV}, .op = CT_NV_OPEN};
	static const uint32_t ids[] = {CT_MAX_FUNCS, CT_MAX_FUNCS - 2, UINT32_MAX, 1u << 31};

	for (unsigned i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
		c.func_id = ids[i];
		rig_record(&r, &c, CT_CALL_FIXED_SZ);
		assert_int_equal(model__bad_records(r.m), i + 1);
	}
	/* These records were not enabled. */
	rig_record(&r, &nv, sizeof(nv));
	assert_int_equal(model__bad_records(r.m), 5);
	/* The caller handles these. */
	rig_record(&r, &lib, sizeof(lib));
	assert_int_equal(model__bad_records(r.m), 5);
	assert_int_equal(r.cnt, 0);
	/* The tracer's own calls. */
	c = (struct ct_call){.rec = {.size = CT_CALL_FIXED_SZ, .kind = CT_REC_CALL},
			     .func_id = CT_MAX_FUNCS - 1};
	rig_record(&r, &c, CT_CALL_FIXED_SZ);
	assert_int_equal(model__bad_records(r.m), 5);
	assert_int_equal(r.cnt, 0);
}

/* A symbol that is not in the table. */
static void test_unknown_symbol(void **state)
{
	struct rig_layout l = {.words = {1, 2, 3, 4, 5, 6}};
	const struct trace_event *ev = rig_send(&r, "cuBrandNewThing_v3", &l);

	assert_string_equal(ev->name, "cuBrandNewThing");
	assert_int_equal(ev->type, TYPE_OTHER);
	assert_int_equal(ev->has, 0);
	assert_int_equal(ev->word_cnt, 6);
}

static void test_threads(void **state)
{
	r.tid = 7;
	rig_task(&r, CT_REC_THREAD, 0, 0, "worker");
	assert_int_equal(r.cnt, 0);
	r.tid = 8;
	rig_task(&r, CT_REC_THREAD, 0, 0, "sixteen bytes!!!"); /* no NUL */
	r.tid = 7;
	assert_string_equal(CALL0(&r, "cuInit")->comm, "worker");
	r.tid = 8;
	assert_string_equal(CALL0(&r, "cuInit")->comm, "sixteen bytes!!!");
	r.tid = 7;
	rig_task(&r, CT_REC_THREAD, 0, 0, "renamed");
	r.tid = 7;
	assert_string_equal(CALL0(&r, "cuInit")->comm, "renamed");
	/* A thread without a name, and the same id in another process. */
	r.tid = 9;
	assert_string_equal(CALL0(&r, "cuInit")->comm, "");
	r.pid = RIG_PID + 1;
	r.tid = 7;
	assert_string_equal(CALL0(&r, "cuInit")->comm, "");
}

static void test_processes(void **state)
{
	r.pid = r.tid = 50;
	rig_task(&r, CT_REC_FORK, 49, 0, "sh");
	assert_int_equal(r.ev.kind, EVENT_PROCESS);
	assert_int_equal(r.ev.type, TYPE_PROCESS);
	assert_string_equal(r.ev.op, "fork");
	assert_string_equal(r.ev.name, "fork");
	assert_int_equal(r.ev.pid, 50);
	assert_int_equal(r.ev.process.parent_pid, 49);
	assert_string_equal(r.comm, "sh");
	r.pid = r.tid = 50;
	rig_task(&r, CT_REC_EXEC, 0, 0, "sixteen bytes!!!");
	assert_string_equal(r.ev.op, "exec");
	assert_string_equal(r.comm, "sixteen bytes!!!");
	r.pid = r.tid = 50;
	rig_task(&r, CT_REC_EXIT, 0, 0x100, "python3");
	assert_string_equal(r.ev.op, "exit");
	assert_int_equal(r.ev.process.exit_code, 1);
	assert_int_equal(r.ev.process.signal, 0);
	/* with a core dump */
	rig_task(&r, CT_REC_EXIT, 0, 11 | 0x80, "python3");
	assert_int_equal(r.ev.process.signal, 11);
	assert_int_equal(r.cnt, 4);
}

/* Memory, names, captures and threads of a process, and what remains of them after its end. */
static void learn(uint32_t pid)
{
	r.pid = pid;
	rig_task(&r, CT_REC_THREAD, 0, 0, "named");
	r.pid = pid;
	CALL(&r, "cuMemAlloc_v2", {"dptr", 0x1000}, {"bytesize", 64});
	r.pid = pid;
	CALL(&r, "cuModuleGetFunction", {"hfunc", 0xf0}, {"name", .str = "k"});
	r.pid = pid;
	CALL(&r, "cuStreamBeginCapture_v2", {"hStream", 0x5});
}

static void check_knows(uint32_t pid, bool knows)
{
	const struct trace_event *ev;

	r.pid = pid;
	ev = CALL(&r, "cuLaunchKernel", {"f", 0xf0}, {"hStream", 0x5});
	assert_int_equal(ev->launch.kernel != NULL, knows);
	assert_int_equal(ev->capturing, knows);
	assert_string_equal(ev->comm, knows ? "named" : "");
	r.pid = pid;
	ev = CALL(&r, "cuMemcpy", {"dst", 0x1000}, {"src", 0x1020}, {"ByteCount", 8});
	assert_int_equal(ev->dir, knows ? COPY_DIR_DTOD : COPY_NONE);
	r.pid = pid;
	ev = CALL(&r, "cuMemAlloc_v2", {"dptr", 0x2000}, {"bytesize", 8});
	assert_int_equal(ev->mem.bytes[MEM_DEVICE], knows ? 72 : 8);
	r.pid = pid;
	CALL(&r, "cuMemFree_v2", {"dptr", 0x2000});
}

static void ends(uint32_t pid)
{
	r.pid = pid;
	rig_task(&r, CT_REC_EXIT, 0, 0, "x");
}

static void test_forget(void **state)
{
	learn(100);
	learn(101);
	check_knows(100, true);
	check_knows(102, false);
	r.pid = 100;
	rig_task(&r, CT_REC_EXEC, 0, 0, "");
	check_knows(100, false);
	check_knows(101, true);
	learn(100);
	check_knows(100, true);
	ends(101);
	/* Records from another processor may follow the end. */
	check_knows(101, true);
	r.pid = 101;
	rig_task(&r, CT_REC_FORK, 1, 0, "");
	check_knows(101, false);
	learn(101);
	ends(101);
	r.pid = 101;
	rig_task(&r, CT_REC_THREAD, 0, 0, "");
	check_knows(101, false);
	learn(101);
	ends(101);
	for (uint32_t pid = 200; pid < 300; pid++) {
		learn(pid);
		ends(pid);
	}
	check_knows(101, false);
	check_knows(100, true);
}

/* Short calls update the model, too. */
static void test_min_duration(void **state)
{
	const struct trace_event *ev;

	rig_close(&r);
	rig_open(&r, false, 5000);
	r.dur_ns = 4999;
	CALL(&r, "cuMemAlloc_v2", {"dptr", 0x1000}, {"bytesize", 64});
	r.dur_ns = 10;
	CALL(&r, "cuModuleGetFunction", {"hfunc", 0xf0}, {"name", .str = "k"});
	assert_int_equal(r.cnt, 0);
	r.dur_ns = 5000;
	ev = CALL(&r, "cuMemFree_v2", {"dptr", 0x1000});
	assert_int_equal(r.cnt, 1);
	assert_int_equal(ev->size, 64);
	r.dur_ns = 9000;
	assert_string_equal(CALL(&r, "cuLaunchKernel", {"f", 0xf0})->launch.kernel, "k");
	rig_task(&r, CT_REC_EXIT, 0, 0, "x");
	assert_int_equal(r.cnt, 3);
}

/* The record that the BPF side sends before a call with a handle. */
static void set_name(uint64_t handle, const char *name)
{
	_Alignas(8) char buf[sizeof(struct ct_name) + 64] = {0};
	struct ct_name *n = (struct ct_name *)buf;

	n->rec.kind = CT_REC_NAME;
	n->rec.pid = n->rec.tid = RIG_PID;
	n->handle = handle;
	n->len = name ? strlen(name) + 1 : 0;
	memcpy(n->name, name ?: "", n->len);
	n->rec.size = sizeof(*n) + n->len;
	rig_record(&r, buf, n->rec.size);
}

static const struct trace_event *launch(uint64_t handle)
{
	return CALL(&r, "cuLaunchKernel", {"f", handle});
}

static void test_names_in_messages(void **state)
{
	const struct trace_event *ev;

	assert_null(launch(0xa0)->launch.kernel);
	set_name(0xa0, "_Z1av");
	ev = launch(0xa0);
	assert_string_equal(ev->launch.kernel, "a()");
	assert_string_equal(ev->launch.kernel_mangled, "_Z1av");
	assert_true(ev->launch.kernel_guessed);
	set_name(0xb0, "kernel_b");
	assert_string_equal(launch(0xb0)->launch.kernel, "kernel_b");
	/* The name of a CUfunction from a CUkernel is a guess if the CUkernel's is. */
	ev = CALL(&r, "cuKernelGetFunction", {"pFunc", 0xf00}, {"kernel", 0xa0});
	assert_string_equal(ev->launch.kernel, "a()");
	assert_true(ev->launch.kernel_guessed);
	assert_true(launch(0xf00)->launch.kernel_guessed);
	/* Handles of another process are separate. */
	r.pid = RIG_PID + 1;
	assert_null(launch(0xa0)->launch.kernel);
	/* Modules and contexts take their kernels with them. */
	CALL(&r, "cuModuleUnload", {"hmod", 1});
	assert_null(launch(0xa0)->launch.kernel);
	set_name(0xa0, "_Z1av");
	assert_non_null(launch(0xa0)->launch.kernel);
	CALL(&r, "cuCtxDestroy_v2", {"ctx", 1});
	assert_null(launch(0xa0)->launch.kernel);
	/* The program uses another name: all guesses are dropped, with names derived from them. */
	set_name(0xa0, "_Z1av");
	set_name(0xb0, "kernel_b");
	CALL(&r, "cuModuleGetFunction", {"hfunc", 0xb0}, {"name", .str = "other"});
	assert_null(launch(0xa0)->launch.kernel);
	assert_null(launch(0xf00)->launch.kernel);
	ev = launch(0xb0);
	assert_string_equal(ev->launch.kernel, "other");
	assert_false(ev->launch.kernel_guessed);
}

static void *name_self(void *arg)
{
	pthread_setname_np(pthread_self(), "self-named");
	r.pid = getpid();
	r.tid = gettid();
	CALL0(&r, "cuInit");
	return arg;
}

/* The first record of a thread was lost: its name is read from /proc. */
static void test_live_comm(void **state)
{
	pthread_t t;

	assert_int_equal(pthread_create(&t, NULL, name_self, NULL), 0);
	pthread_join(t, NULL);
	assert_string_equal(r.comm, "self-named");
	assert_string_equal(CALL0(&r, "cuInit")->comm, "");
}

static const struct trace_event *last_ev;

static void peek_comm(const struct trace_event *ev)
{
	last_ev = ev->comm ? ev : NULL;
}

/* Threads that ended while their records were on their way: each still has its name. Unknown ones
 * have the process's name, or none. */
static void test_live_gone(void **state)
{
	enum { CNT = 3000 };
	char name[16];

	r.now_ns = now_ns() - SEC_NS;
	for (unsigned i = 0; i < CNT; i++) {
		r.tid = RIG_PID + 1 + i;
		snprintf(name, sizeof(name), "thread %u", i);
		rig_task(&r, CT_REC_THREAD, 0, 0, name);
	}
	for (unsigned i = 0; i < CNT; i++) {
		r.pid = RIG_PID;
		r.tid = RIG_PID + 1 + i;
		snprintf(name, sizeof(name), "thread %u", i);
		assert_string_equal(CALL0(&r, "cuInit")->comm, name);
	}
	r.pid = r.tid = RIG_PID;
	rig_task(&r, CT_REC_THREAD, 0, 0, "leader");
	r.pid = RIG_PID;
	r.tid = RIG_PID + 1 + CNT;
	assert_string_equal(CALL0(&r, "cuInit")->comm, "leader");
	r.peek = peek_comm;
	r.pid = r.tid = RIG_PID + 2 * CNT;
	CALL0(&r, "cuInit");
	assert_null(last_ev);
	/* A name may be empty. */
	r.pid = r.tid = RIG_PID + 2 * CNT;
	rig_task(&r, CT_REC_THREAD, 0, 0, "");
	r.pid = r.tid = RIG_PID + 2 * CNT;
	CALL0(&r, "cuInit");
	assert_non_null(last_ev);
}

#define TEST(name)	cmocka_unit_test_setup_teardown(name, setup, teardown)
#define TEST_LIVE(name) cmocka_unit_test_setup_teardown(name, setup_live, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_common),
		TEST(test_outcome),
		TEST(test_unfinished),
		TEST(test_nested),
		TEST(test_bad),
		TEST(test_unknown_symbol),
		TEST(test_threads),
		TEST(test_processes),
		TEST(test_forget),
		TEST(test_min_duration),
		TEST(test_names_in_messages),
		TEST_LIVE(test_live_comm),
		TEST_LIVE(test_live_gone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
