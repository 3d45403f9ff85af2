/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Limits of memory that files of traced programs, and their mappings and stacks, can fill. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "model/modules.h"
#include "model/perf_map.h"
#include "model/stacks.h"
#include "util/limits.h"
#include "util/log.h"

static struct quotas q;

static int setup(void **state)
{
	quotas__init(&q, true, true);
	return 0;
}

/* After the processes end, nothing is charged. */
static int teardown(void **state)
{
	for (int i = 0; i < QUOTA_CNT; i++)
		assert_int_equal(q.of[i].used, 0);
	return 0;
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

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_mappings), TEST(test_modules),	  TEST(test_symbols_share),
		TEST(test_perf_map), TEST(test_perf_map_endless), TEST(test_stacks),
	};

	log_set_level(LOG_ERR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
