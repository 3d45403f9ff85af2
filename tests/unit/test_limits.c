/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Limits of memory that traced programs can fill: reached, counted, shared, released. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <malloc.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "model/kernel.h"
#include "model/mem.h"
#include "model/proc.h"
#include "model/samples.h"
#include "util/clock.h"
#include "util/log.h"
#include "util/limits.h"

static struct quotas q;
static struct kernel_names *names;
static struct procs procs;

static int setup(void **state)
{
	quotas__init(&q, true, true);
	quotas__with(&q, QUOTA_DESCRIPTORS);
	quotas__with(&q, QUOTA_SAMPLES);
	names = kernel_names__new(&q);
	procs = (struct procs){.quotas = &q, .names = names};
	return !names;
}

/* After the processes end, nothing is charged. */
static int teardown(void **state)
{
	procs__free(&procs);
	for (int i = 0; i < QUOTA_CNT; i++)
		assert_int_equal(q.of[i].used, 0);
	kernel_names__free(names);
	return 0;
}

/* Owners take rows one by one from tables of all small sizes, in turn and one after the other. */
static void test_rule(void **state)
{
	for (unsigned max = 0; max < 40; max++) {
		for (int in_turn = 0; in_turn < 2; in_turn++) {
			unsigned has[8] = {0}, used = 0;

			for (unsigned i = 0; i < 8 * 40; i++) {
				unsigned o = in_turn ? i % 8 : i / 40;
				uint64_t left = ct_limit_left(max, used);

				/* Whoever has nothing gets a row while there is one. */
				if (!ct_limit_fits(has[o], 1, CT_LIMIT_NO_SHARE, left)) {
					assert_true(has[o] || !left);
					continue;
				}
				has[o]++;
				used++;
				assert_in_range(used, 1, max);
				assert_true(has[o] <= max - used + 1);
			}
			if (!in_turn)
				assert_int_equal(has[0], (max + 1) / 2);
		}
	}
	/* Several at once, and sums that would overflow. */
	assert_true(ct_limit_fits(0, 50, 100, 100));
	assert_false(ct_limit_fits(0, 51, 100, 100));
	assert_false(ct_limit_fits(0, 50, 49, 100));
	assert_false(ct_limit_fits(10, UINT64_MAX - 5, CT_LIMIT_NO_SHARE, UINT64_MAX));
	assert_false(ct_limit_fits(UINT64_MAX, 1, CT_LIMIT_NO_SHARE, UINT64_MAX));
	assert_int_equal(ct_limit_left(5, 7), 0);
	/* The second rule. */
	assert_true(ct_limit_more(3, 1, 4, 99, 100));
	assert_false(ct_limit_more(4, 1, 4, 50, 100));
	assert_true(ct_limit_more(4, 1, 4, 49, 100));
}

static void test_share(void **state)
{
	struct quota t = {.max = 100, .share = 40};
	struct quota_share a = {0}, b = {0}, c = {0}, d = {0};
	unsigned n = 0;

	assert_true(quota__take(&t, &a, 40));
	assert_false(quota__take(&t, &a, 1));
	assert_true(quota__take(&t, &b, 30));
	/* 30 are left: a process may take half of them, rounded up. */
	while (quota__take(&t, &c, 1))
		n++;
	assert_int_equal(n, 15);
	assert_int_equal(c.used, 15);
	n = 0;
	while (quota__take(&t, &d, 1))
		n++;
	assert_int_equal(n, 8);
	assert_int_equal(t.full_cnt, 3);
	quota__give(&t, &a, 40);
	assert_true(quota__take(&t, &d, 20));
	quota__give(&t, &d, 28);
	quota__give(&t, &c, 15);
	quota__give(&t, &b, 30);
	assert_int_equal(t.used + a.used + b.used + c.used + d.used, 0);
	/* Also not in one step. */
	t.share = 100;
	assert_false(quota__take(&t, &a, 51));
	assert_true(quota__take(&t, &a, 50));
	quota__give(&t, &a, 50);
	assert_false(quota__take(&t, NULL, 101));
	assert_true(quota__take(&t, NULL, 100));
	assert_true(quota__take(NULL, &a, 1000));
	assert_int_equal(a.used, 0);
}

static void test_owners(void **state)
{
	struct quota t = {.max = 100, .share = 40};
	struct quota_owners o = {0};

	assert_true(quota_owners__take(&o, &t, 7, 40));
	assert_false(quota_owners__take(&o, &t, 7, 1));
	assert_true(quota_owners__take(&o, &t, 8, 30));
	assert_false(quota_owners__take(&o, &t, 9, 31));
	assert_int_equal(quota_owners__used(&o, 7), 40);
	assert_int_equal(quota_owners__used(&o, 9), 0);
	quota_owners__give(&o, &t, 7, 40);
	quota_owners__give(&o, &t, 8, 30);
	assert_null(o.by_id.first);
	assert_int_equal(t.used, 0);
	assert_int_equal(t.full_cnt, 2);
}

/* Does what a lookup does; returns the handle's name, demangled or not, or NULL. */
static const char *look_up(struct proc *p, uint64_t handle, const char *name)
{
	const struct kernel_name *n;
	const struct handle *h;

	kernel_names__collect(names);
	n = kernel_name__intern(&p->handles, name, strlen(name));
	assert_string_equal(n->mangled, name);
	handles__set(&p->handles, handle, n);
	h = handles__get(&p->handles, handle);
	return h ? h->name->demangled : NULL;
}

static void test_names(void **state)
{
	struct proc *a = procs__get(&procs, 1), *b = procs__get(&procs, 2);
	struct quota *t = &q.of[QUOTA_NAMES];
	uint64_t used, asked;
	unsigned kept = 0;
	char name[64];

	t->share = 10000;
	assert_string_equal(look_up(b, 7, "_Z6sharedv"), "shared()");
	for (unsigned i = 0; i < 1000; i++) {
		snprintf(name, sizeof(name), "_Z9kern_%04uv", i);
		kept += look_up(a, 100 + i, name) != NULL;
	}
	assert_in_range(kept, 20, 200);
	assert_in_range(t->used, 9000, 10300);
	/* A name may have had room without room for its demangled form. */
	assert_in_range(t->full_cnt, 1000 - kept, 1000 - kept + 1);
	/* Names that are not kept take no time for demangling. */
	asked = a->handles.demangling.at_ns;
	assert_true(asked);
	for (unsigned i = 0; i < 100; i++) {
		snprintf(name, sizeof(name), "_Z9more_%04uv", i);
		assert_null(look_up(a, 5000 + i, name));
	}
	assert_int_equal(a->handles.demangling.at_ns, asked);
	/* Without room a handle loses its old name, since that would be wrong. */
	assert_non_null(handles__get(&a->handles, 100));
	assert_null(look_up(a, 100, "_Z10a_new_namev"));
	/* A shared name, and lookups of the other process. */
	assert_string_equal(look_up(a, 101, "_Z6sharedv"), "shared()");
	assert_string_equal(look_up(b, 8, "_Z4morev"), "more()");
	/* A name of two processes exists once, until both have ended. */
	used = t->used;
	procs__remove(&procs, b);
	assert_in_range(used - t->used, 1, 200);
	assert_string_equal(handles__get(&a->handles, 101)->name->demangled, "shared()");
	/* The program is replaced. */
	procs__renew(&procs, a);
	assert_int_equal(t->used, 0);
	assert_non_null(look_up(a, 1, "_Z3newv"));
}

/* Names that were looked up and belong to no handle. */
static void test_loose_names(void **state)
{
	struct proc *p = procs__get(&procs, 1);
	char name[64];

	for (unsigned i = 0; i < 1000; i++) {
		kernel_names__collect(names);
		snprintf(name, sizeof(name), "loose%u", i);
		assert_non_null(kernel_name__intern(&p->handles, name, strlen(name)));
	}
	/* The same handle repeatedly. */
	for (unsigned i = 0; i < 1000; i++) {
		snprintf(name, sizeof(name), "again%u", i);
		assert_string_equal(look_up(p, 1, name), name);
	}
	assert_in_range(q.of[QUOTA_NAMES].used, 1, 500);
	assert_int_equal(q.of[QUOTA_NAMES].full_cnt, 0);
}

static void test_handles(void **state)
{
	struct proc *p = procs__get(&procs, 1);
	struct quota *t = &q.of[QUOTA_HANDLES];
	unsigned kept = 0;

	t->share = 50;
	for (unsigned i = 1; i <= 100; i++)
		kept += look_up(p, i, "kernel") != NULL;
	assert_int_equal(kept, 50);
	assert_int_equal(t->full_cnt, 50);
	/* Launched handles that lead to no name. */
	procs__renew(&procs, p);
	for (unsigned i = 1; i <= 1000; i++)
		handles__set_name(&p->handles, 16 * i, NULL, 0);
	assert_int_equal(t->used, 50);
	handles__unloaded(&p->handles);
	assert_int_equal(t->used, 0);
}

static uint64_t device(const struct proc *p)
{
	struct mem_totals t;

	mem__totals(&p->mem, &t);
	return t.bytes[MEM_DEVICE];
}

static void mem_call(struct proc *p, enum api_op op, uint64_t ptr, uint64_t size)
{
	struct api_fn fn = {.op = op, .class = CLASS_MEMORY};
	struct trace_event ev = {
		.kind = EVENT_CALL,
		.name = "",
		.fn = &fn,
		.ptr = ptr,
		.size = size,
		.has = HAS_PTR | (size ? HAS_SIZE : 0),
		.start_ns = 10,
		.end_ns = 10,
	};

	mem__event(&p->mem, &ev);
	assert_true(ev.has_mem);
	assert_int_equal(ev.mem.bytes[MEM_DEVICE], device(p));
}

static void test_ranges(void **state)
{
	struct proc *p = procs__get(&procs, 1), *other = procs__get(&procs, 2);
	struct quota *t = &q.of[QUOTA_RANGES];

	t->share = 10;
	for (uint64_t i = 1; i <= 30; i++)
		mem_call(p, OP_ALLOC, i << 20, 1000 + i);
	assert_int_equal(device(p), 30465);
	assert_int_equal(t->used, 10);
	assert_int_equal(t->full_cnt, 20);
	/* Known blocks: exactly; the others: on average. */
	mem_call(p, OP_FREE, 3 << 20, 0);
	assert_int_equal(device(p), 30465 - 1003);
	mem_call(p, OP_FREE, 20 << 20, 0);
	assert_in_range(device(p), 30465 - 1003 - 1030, 30465 - 1003 - 1010);
	for (uint64_t i = 1; i <= 30; i++)
		if (i != 3 && i != 20)
			mem_call(p, OP_FREE, i << 20, 0);
	assert_int_equal(device(p), 0);
	assert_int_equal(t->used, 0);
	/* Another process is not affected. */
	for (uint64_t i = 1; i <= 20; i++)
		mem_call(p, OP_ALLOC, i << 20, 1);
	mem_call(other, OP_ALLOC, 1 << 20, 77);
	mem_call(other, OP_FREE, 1 << 20, 0);
	assert_int_equal(device(other), 0);
}

static void test_threads(void **state)
{
	struct proc *p = procs__get(&procs, 1);
	struct quota *t = &q.of[QUOTA_THREADS];

	t->share = 100;
	for (uint32_t tid = 1; tid <= 1000; tid++)
		assert_int_equal(proc__thread(&procs, p, tid)->tid, tid);
	assert_int_equal(hash_cnt(&p->threads), 100);
	assert_int_equal(t->used, 100);
	assert_int_equal(t->full_cnt, 900);
	assert_int_equal(proc__thread(&procs, p, 5)->tid, 5);
}

/* A server with a thread for each request. */
static void test_short_threads(void **state)
{
	struct proc *p = procs__get(&procs, getpid());

	procs.live = true;
	proc__thread(&procs, p, getpid());
	for (uint32_t tid = 4500000; tid < 4600000; tid++) {
		procs.record_ns = now_ns();
		assert_int_equal(proc__thread(&procs, p, tid)->tid, tid);
	}
	assert_true(hash_cnt(&p->threads) <= 512);
	assert_int_equal(q.of[QUOTA_THREADS].full_cnt, 0);
}

static void test_processes(void **state)
{
	q.of[QUOTA_PROCESSES].max = 100;
	for (uint32_t pid = 1; pid <= 1000; pid++) {
		struct proc *p = procs__get(&procs, pid);

		assert_int_equal(p->pid, pid);
		assert_non_null(look_up(p, 1, "kernel"));
		mem_call(p, OP_ALLOC, 1 << 20, 1);
		if (pid % 50 == 0)
			procs__end(&procs, p);
	}
	assert_int_equal(hash_cnt(&procs.by_pid), 100);
	assert_int_equal(q.of[QUOTA_RANGES].used, 100);
}

/* Processes whose ends were dropped. */
static void test_lost_ends(void **state)
{
	procs.live = true;
	procs__get(&procs, getpid());
	for (uint32_t pid = 4500000; pid < 4510000; pid++) {
		procs.record_ns = now_ns();
		procs__get(&procs, pid);
	}
	assert_true(hash_cnt(&procs.by_pid) <= 512);
	assert_int_equal(q.of[QUOTA_PROCESSES].full_cnt, 0);
	assert_non_null(procs__find(&procs, getpid()));
}

/* Records may follow the end of a process; the next turn removes it. */
static void test_compact(void **state)
{
	struct proc *p = procs__get(&procs, 1);

	assert_non_null(look_up(p, 1, "kernel"));
	procs__get(&procs, 2);
	assert_int_equal(procs__compact(&procs), 0);
	procs__end(&procs, p);
	assert_int_equal(procs__compact(&procs), 0);
	assert_ptr_equal(procs__get(&procs, 1), p);
	assert_non_null(handles__get(&p->handles, 1));
	assert_int_equal(procs__compact(&procs), 1);
	assert_null(procs__find(&procs, 1));
	assert_int_equal(q.of[QUOTA_NAMES].used, 0);
	assert_non_null(procs__find(&procs, 2));
	/* Its number was reused meanwhile. */
	p = procs__get(&procs, 3);
	procs__end(&procs, p);
	assert_int_equal(procs__compact(&procs), 0);
	procs__renew(&procs, p);
	assert_int_equal(procs__compact(&procs), 0);
	assert_int_equal(procs__compact(&procs), 0);
	assert_ptr_equal(procs__find(&procs, 3), p);
}

/* Bytes of the heap; 0: malloc() does not report them. */
static size_t heap(void)
{
	return mallinfo2().uordblks;
}

/* A row takes at most the size that the table states: their sum is checked against the daemon's
 * memory. Processes share the rows, as usual. */
static void holds_row_sz(enum limit_table t, size_t before)
{
	size_t took = heap() - before;
	uint64_t said = 0;

	for (int i = 0; i < QUOTA_CNT; i++)
		said += q.of[i].used * quota_row_sz(i);
	print_message("%s: %zu bytes, %llu by its rows\n", limit_name(t), took,
		      (unsigned long long)said);
	assert_true(q.of[t].used >= 4096);
	assert_true(took <= said);
	/* Not much less: otherwise a limit is lower than necessary. */
	assert_true(took >= said / 2);
}

static void make_proc(uint32_t i)
{
	procs__get(&procs, i);
}

static void make_thread(uint32_t i)
{
	proc__thread(&procs, procs__get(&procs, 1 + i % 4), i);
}

static void make_range(uint32_t i)
{
	mem_call(procs__get(&procs, 1 + i % 4), OP_ALLOC, (uint64_t)i << 20, 1);
}

static void make_handle(uint32_t i)
{
	handles__set_name(&procs__get(&procs, 1 + i % 4)->handles, 16 * i, NULL, 0);
}

static void make_capture(uint32_t i)
{
	struct trace_event ev = {.fn = api_fn_by_symbol("cuStreamBeginCapture_v2"),
				 .id = i,
				 .stream = i,
				 .has = HAS_STREAM};

	capture_set__event(&procs__get(&procs, 1 + i % 4)->captures, &ev);
}

static void make_comm(uint32_t i)
{
	comms__get(&procs__get(&procs, 1 + i % 4)->comms, i);
}

static void make_descriptor(uint32_t i)
{
	struct proc *p = procs__get(&procs, 1 + i % 4);

	if (!p->dnn)
		p->dnn = dnn__new(&q.of[QUOTA_DESCRIPTORS]);
	dnn__made(p->dnn, i, DNN_TENSOR);
}

/* Frames of a call in flight. */
static void make_sample(uint32_t i)
{
	static const struct ct_python_frame frames[CT_PYTHON_MAX];
	static const struct ct_call call = {.rec = {.ts_ns = 1}};
	const struct raw_call sample = {
		.call = &call, .python = frames, .python_cnt = CT_PYTHON_MAX};
	struct proc *p = procs__get(&procs, 1 + i % 8);

	samples__add(&procs, p, proc__thread(&procs, p, i), &sample);
}

/* A name of this length, with a handle. */
static void make_name(uint32_t i, size_t len)
{
	char name[1001];

	snprintf(name, sizeof(name), "_%06u%0*d", i, (int)len - 7, 0);
	look_up(procs__get(&procs, 1), i, name);
}

static void make_short_name(uint32_t i)
{
	make_name(i, 8);
}

static void make_long_name(uint32_t i)
{
	make_name(i, 1000);
}

static void test_row_sizes(void **state)
{
	static const struct {
		enum limit_table table;
		uint32_t cnt;
		void (*make)(uint32_t i);
	} rows[] = {
		{QUOTA_PROCESSES, 8192, make_proc},	     {QUOTA_THREADS, 16000, make_thread},
		{QUOTA_RANGES, 20000, make_range},	     {QUOTA_HANDLES, 20000, make_handle},
		{QUOTA_CAPTURES, 16000, make_capture},	     {QUOTA_COMMS, 16000, make_comm},
		{QUOTA_NAMES, 8000, make_short_name},	     {QUOTA_NAMES, 8000, make_long_name},
		{QUOTA_DESCRIPTORS, 60000, make_descriptor}, {QUOTA_SAMPLES, 4000, make_sample},
	};

	if (!heap()) {
		print_message("this malloc() does not count\n");
		skip();
	}
	for (size_t t = 0; t < sizeof(rows) / sizeof(rows[0]); t++) {
		size_t before = heap();

		for (uint32_t i = 1; i <= rows[t].cnt; i++)
			rows[t].make(i);
		holds_row_sz(rows[t].table, before);
		procs__free(&procs);
		procs = (struct procs){.quotas = &q, .names = names};
	}
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rule),
		cmocka_unit_test(test_share),
		cmocka_unit_test(test_owners),
		TEST(test_names),
		TEST(test_loose_names),
		TEST(test_handles),
		TEST(test_ranges),
		TEST(test_threads),
		TEST(test_short_threads),
		TEST(test_processes),
		TEST(test_lost_ends),
		TEST(test_compact),
		TEST(test_row_sizes),
	};

	log_set_level(LOG_ERR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
