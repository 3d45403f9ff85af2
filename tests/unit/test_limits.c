/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Limits of memory that traced programs can fill: reached, counted, shared, released. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <dlfcn.h>
#include <malloc.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <string.h>
#include <unistd.h>

#include "model/kernel.h"
#include "model/mem.h"
#include "model/modules.h"
#include "model/perf_map.h"
#include "model/proc.h"
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

/* Names of generated code: the program controls the file. */
static void test_perf_map(void **state)
{
	struct quota *t = &q.of[QUOTA_PERF_MAPS];
	struct perf_map *m;
	uint64_t start;
	char path[64];
	FILE *f;

	snprintf(path, sizeof(path), "/tmp/perf-%d.map", getpid());
	f = fopen(path, "w");
	assert_non_null(f);
	for (unsigned i = 1; i <= 1000; i++)
		fprintf(f, "%x 10 code_%04u\n", i * 0x1000, i);
	fclose(f);
	chmod(path, 0600);
	t->share = 10000;
	m = perf_map__new(getpid(), t);
	assert_string_equal(perf_map__find(m, 0x1000, &start), "code_0001");
	assert_null(perf_map__find(m, 1000 * 0x1000, &start));
	assert_in_range(t->used, 9000, 10000);
	assert_int_equal(t->full_cnt, 1);
	perf_map__free(m);
	assert_int_equal(t->used, 0);
	t->share = t->max;
	m = perf_map__new(getpid(), t);
	assert_string_equal(perf_map__find(m, 1000 * 0x1000, &start), "code_1000");
	perf_map__free(m);
	unlink(path);
}

/* A perf map may have holes of terabytes, which take no disk space, and endless lines. */
static void test_perf_map_endless(void **state)
{
	struct quota *t = &q.of[QUOTA_PERF_MAPS];
	static char line[100000];
	struct perf_map *m;
	uint64_t start;
	char path[64];
	FILE *f;

	memset(line, 'x', sizeof(line) - 1);
	snprintf(path, sizeof(path), "/tmp/perf-%d.map", getpid());
	f = fopen(path, "w");
	assert_non_null(f);
	fprintf(f, "1000 10 %s\n2000 10 second\n3000 10 thi", line);
	fflush(f);
	chmod(path, 0600);
	alarm(60); /* instead of running forever */
	m = perf_map__new(getpid(), t);
	assert_memory_equal(perf_map__find(m, 0x1000, &start), "xxxx", 4);
	assert_string_equal(perf_map__find(m, 0x2000, &start), "second");
	assert_null(perf_map__find(m, 0x3000, &start));
	fprintf(f, "rd\n4000 10 ");
	fflush(f);
	assert_string_equal(perf_map__find(m, 0x3000, &start), "third");
	assert_int_equal(t->full_cnt, 0);
	/* The last line continues in a hole of 1 TiB; then it ends, and another follows. */
	assert_int_equal(fseeko(f, 1ll << 40, SEEK_SET), 0);
	fprintf(f, "\n5000 10 beyond\n");
	fclose(f);
	for (unsigned i = 0; i < 1000 && !t->full_cnt; i++)
		assert_null(perf_map__find(m, 0x5000, &start));
	assert_int_equal(t->full_cnt, 1);
	assert_null(perf_map__find(m, 0x5000, &start));
	assert_string_equal(perf_map__find(m, 0x3000, &start), "third");
	assert_int_equal(t->full_cnt, 1);
	perf_map__free(m);
	alarm(0);
	assert_int_equal(t->used, 0);
	unlink(path);
}

static void test_stacks(void **state)
{
	struct stacks *s = stacks__new(&q, CT_REDACT_NOTHING, NULL);
	struct quota *t = &q.of[QUOTA_STACKS];
	struct proc_stacks *a = NULL, *b = NULL;
	const struct stack *stack;
	uint64_t ips[20], last = 0;
	const struct stack_source from = {.ips = ips, .cnt = 20};
	bool is_new;

	t->share = 100000;
	for (uint64_t i = 0; i < 1000; i++) {
		for (unsigned k = 0; k < 20; k++)
			ips[k] = 0x10000 + 0x1000 * i + k;
		stack = proc_stacks__get(s, &a, 0, &from, 1, &is_new);
		assert_non_null(stack);
		assert_true(is_new && stack->id == last + 1);
		assert_int_equal(stack->frames[19].ip, ips[19]);
		last = stack->id;
		assert_true(t->used <= 110000);
	}
	assert_true(t->full_cnt > 10);
	assert_ptr_equal(proc_stacks__get(s, &a, 0, &from, 1, &is_new), stack);
	assert_non_null(proc_stacks__get(s, &b, 0, &from, 1, &is_new));
	proc_stacks__free(a);
	proc_stacks__free(b);
	stacks__free(s);
	assert_int_equal(t->used, 0);
}

/* In this process: paths have a share, symbols a limit. */
static void test_modules(void **state)
{
	struct quota *paths = &q.of[QUOTA_PATHS], *symbols = &q.of[QUOTA_SYMBOLS];
	struct module_files *files = module_files__new(&q, CT_REDACT_NOTHING);
	struct stack_frame own = {.ip = (uintptr_t)test_stacks + 1}, frame;
	struct modules *m = modules__new(files, getpid()), *less;
	char *symbol = NULL;

	modules__read(m);
	modules__resolve(m, &own, true, 1, &symbol);
	assert_non_null(symbol);
	assert_memory_equal(symbol, "test_stacks+", 12);
	free(symbol);
	assert_true(paths->used && symbols->used);
	assert_int_equal(paths->full_cnt + symbols->full_cnt, 0);

	symbols->max = symbols->used;
	frame = (struct stack_frame){.ip = (uintptr_t)dlsym(RTLD_DEFAULT, "getppid") + 1};
	symbol = NULL;
	modules__resolve(m, &frame, true, 1, &symbol);
	assert_null(symbol);
	assert_int_equal(symbols->full_cnt, 1);
	assert_int_equal(*frame.module, '/');

	paths->share = 1;
	less = modules__new(files, getpid());
	modules__read(less);
	frame = (struct stack_frame){.ip = own.ip};
	modules__resolve(less, &frame, true, 1, &symbol);
	free(symbol);
	/* Not even its mappings had room. */
	assert_true(!frame.module || *frame.module == '[');
	assert_true(paths->full_cnt > 0);
	modules__free(less);
	modules__free(m);
	assert_int_equal(paths->used, 0);
	module_files__free(files);
	assert_int_equal(symbols->used, 0);
}

/* Returns whether there is a name for the function. */
static bool has_name(struct modules *m, const void *function)
{
	struct stack_frame frame = {.ip = (uintptr_t)function + 1};
	char *symbol = NULL;

	modules__read(m);
	modules__resolve(m, &frame, true, 1, &symbol);
	free(symbol);
	return symbol;
}

/* The size charged for the file that has the function. */
static uint64_t size_of(const void *function)
{
	struct module_files *files = module_files__new(&q, CT_REDACT_NOTHING);
	struct modules *m = modules__new(files, getpid());
	uint64_t size;

	assert_true(has_name(m, function));
	size = q.of[QUOTA_SYMBOLS].used;
	modules__free(m);
	module_files__free(files);
	return size;
}

/* A process that maps many files leaves room for others; a process can use symbols that another one
 * had read. */
static void test_symbols_share(void **state)
{
	const void *in_libc = dlsym(RTLD_DEFAULT, "getppid"),
		   *in_cmocka = dlsym(RTLD_DEFAULT, "_assert_true");
	struct module_files *files = module_files__new(&q, CT_REDACT_NOTHING);
	struct modules *first = modules__new(files, getpid()),
		       *second = modules__new(files, getpid()),
		       *third = modules__new(files, getpid());
	struct quota *t = &q.of[QUOTA_SYMBOLS];
	uint64_t own = size_of(test_modules), libc = size_of(in_libc), used;

	t->share = own > libc ? own : libc;
	assert_true(has_name(first, test_modules));
	assert_false(has_name(first, in_libc));
	assert_int_equal(t->full_cnt, 1);
	assert_true(has_name(second, in_libc));
	assert_int_equal(t->used, own + libc);
	used = t->used;
	assert_true(has_name(third, test_modules) && has_name(third, in_libc));
	assert_int_equal(t->used, used);
	/* The first process ends; the third keeps what it had read. */
	modules__free(first);
	assert_int_equal(t->used, used);
	assert_false(has_name(third, in_cmocka));
	first = modules__new(files, getpid());
	assert_true(has_name(first, in_cmocka));
	modules__free(first);
	modules__free(second);
	modules__free(third);
	module_files__free(files);
	assert_int_equal(t->used, 0);
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

static void capture(struct capture_set *c, uint64_t stream)
{
	struct trace_event ev = {.fn = api_fn_by_symbol("cuStreamBeginCapture_v2"),
				 .id = stream,
				 .stream = stream,
				 .has = HAS_STREAM};

	capture_set__event(c, &ev);
}

static void test_row_sizes(void **state)
{
	size_t before = heap();
	char name[1001];

	if (!before) {
		print_message("this malloc() does not count\n");
		skip();
	}
	for (uint32_t pid = 1; pid <= 8192; pid++)
		procs__get(&procs, pid);
	holds_row_sz(QUOTA_PROCESSES, before);
	procs__free(&procs);
	procs = (struct procs){.quotas = &q, .names = names};

	before = heap();
	for (uint32_t i = 0; i < 16000; i++)
		proc__thread(&procs, procs__get(&procs, 1 + i % 4), i);
	holds_row_sz(QUOTA_THREADS, before);
	procs__free(&procs);
	procs = (struct procs){.quotas = &q, .names = names};

	before = heap();
	for (uint32_t i = 0; i < 20000; i++)
		mem_call(procs__get(&procs, 1 + i % 4), OP_ALLOC, (i + 1ull) << 20, 1);
	holds_row_sz(QUOTA_RANGES, before);
	procs__free(&procs);
	procs = (struct procs){.quotas = &q, .names = names};

	before = heap();
	for (uint32_t i = 1; i <= 20000; i++)
		handles__set_name(&procs__get(&procs, 1 + i % 4)->handles, 16 * i, NULL, 0);
	holds_row_sz(QUOTA_HANDLES, before);
	procs__free(&procs);
	procs = (struct procs){.quotas = &q, .names = names};

	before = heap();
	for (uint32_t i = 1; i <= 16000; i++)
		capture(&procs__get(&procs, 1 + i % 4)->captures, i);
	holds_row_sz(QUOTA_CAPTURES, before);
	procs__free(&procs);
	procs = (struct procs){.quotas = &q, .names = names};

	before = heap();
	for (uint32_t i = 1; i <= 16000; i++)
		comms__get(&procs__get(&procs, 1 + i % 4)->comms, i);
	holds_row_sz(QUOTA_COMMS, before);
	procs__free(&procs);
	procs = (struct procs){.quotas = &q, .names = names};

	before = heap();
	for (uint32_t i = 1; i <= 60000; i++) {
		struct proc *p = procs__get(&procs, 1 + i % 4);

		if (!p->dnn)
			p->dnn = dnn__new(&q.of[QUOTA_DESCRIPTORS]);
		dnn__made(p->dnn, i, DNN_TENSOR);
	}
	holds_row_sz(QUOTA_DESCRIPTORS, before);
	procs__free(&procs);
	procs = (struct procs){.quotas = &q, .names = names};

	/* Short names and long ones, with handles. */
	for (size_t len = 8; len <= 1000; len += 992) {
		before = heap();
		memset(name, 'n', sizeof(name) - 1);
		name[len] = '\0';
		for (uint32_t i = 1; i <= 8000; i++) {
			snprintf(name, 8, "_%06u", i);
			name[7] = 'n';
			look_up(procs__get(&procs, 1), i, name);
		}
		holds_row_sz(QUOTA_NAMES, before);
		procs__free(&procs);
		procs = (struct procs){.quotas = &q, .names = names};
	}
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

/* A program may have any number of mappings. */
static void test_mappings(void **state)
{
	struct module_files *files = module_files__new(&q, CT_REDACT_NOTHING);
	struct quota *t = &q.of[QUOTA_PATHS];
	size_t page = sysconf(_SC_PAGESIZE);
	char *at = mmap(NULL, 4096 * page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct modules *m = modules__new(files, getpid());

	assert_ptr_not_equal(at, MAP_FAILED);
	for (size_t i = 0; i < 4096; i += 2)
		assert_int_equal(mprotect(at + i * page, page, PROT_READ | PROT_EXEC), 0);
	t->share = 50000;
	modules__read(m);
	assert_in_range(t->used, 20000, 50000);
	assert_true(t->full_cnt > 0);
	/* Read again with room for all: memory of the old mappings is released. */
	t->share = 1 << 20;
	modules__read(m);
	modules__read(m);
	assert_in_range(t->used, 2048 * 40, 2048 * 200);
	modules__free(m);
	assert_int_equal(t->used, 0);
	module_files__free(files);
	munmap(at, 4096 * page);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rule),
		cmocka_unit_test(test_share),
		cmocka_unit_test(test_owners),
		cmocka_unit_test_setup_teardown(test_mappings, setup, teardown),
		TEST(test_names),
		TEST(test_loose_names),
		TEST(test_handles),
		TEST(test_ranges),
		TEST(test_threads),
		TEST(test_short_threads),
		TEST(test_processes),
		TEST(test_lost_ends),
		TEST(test_compact),
		TEST(test_modules),
		TEST(test_symbols_share),
		TEST(test_row_sizes),
		TEST(test_perf_map),
		TEST(test_perf_map_endless),
		TEST(test_stacks),
	};

	log_set_level(LOG_ERR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
