/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Finds the file of an address that was mapped during or after the read of the mappings, and when a
 * read fails. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "model/modules.h"
#include "random.h"
#include "util/clock.h"

#define ROUNDS 2000

struct loader {
	pthread_barrier_t begin;
	int fd;
	uint64_t wait_ns;
	void *at;
	uint64_t ns; /* of a call into it */
};

static void *load(void *ctx)
{
	struct loader *l = ctx;
	uint64_t start;

	pthread_barrier_wait(&l->begin);
	for (start = now_ns(); now_ns() < start + l->wait_ns;)
		;
	l->at = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, l->fd, 0);
	l->ns = now_ns();
	return NULL;
}

static void names_what_comes_meanwhile(void **state)
{
	struct module_files *files = module_files__new(NULL, CT_REDACT_NOTHING);
	struct loader l = {.fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC)};
	struct modules *m = modules__new(files, getpid());
	unsigned missed = 0;

	assert_non_null(m);
	assert_int_equal(pthread_barrier_init(&l.begin, NULL, 2), 0);
	for (int i = 0; i < ROUNDS; i++) {
		struct stack_frame frame = {0};
		pthread_t thread;
		char *symbol;

		l.wait_ns = rnd() % 300000;
		assert_int_equal(pthread_create(&thread, NULL, load, &l), 0);
		pthread_barrier_wait(&l.begin);
		modules__read(m);
		pthread_join(thread, NULL);
		frame.ip = (uintptr_t)l.at + 16;
		modules__resolve(m, &frame, false, l.ns, &symbol);
		missed += !frame.module;
		free(symbol);
		munmap(l.at, 4096);
	}
	assert_int_equal(missed, 0);
	pthread_barrier_destroy(&l.begin);
	close(l.fd);
	modules__free(m);
	module_files__free(files);
}

static bool is_found(struct modules *m, uint64_t ip, uint64_t ns)
{
	struct stack_frame frame = {.ip = ip};
	char *symbol = NULL;

	modules__resolve(m, &frame, false, ns, &symbol);
	free(symbol);
	return frame.module;
}

/* A file right after an address in no file, as code without frame pointers produces them; but only
 * after a limited number of these. */
static void names_what_comes_after_nonsense(void **state)
{
	struct module_files *files = module_files__new(NULL, CT_REDACT_NOTHING);
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	struct modules *m = modules__new(files, getpid());
	char *at = mmap(NULL, 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t nowhere = 0x1000;

	assert_non_null(m);
	assert_true(at != MAP_FAILED);
	for (int i = 0; i < 20; i++)
		assert_false(is_found(m, nowhere, now_ns()));
	mmap(at, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, fd, 0);
	assert_true(is_found(m, (uintptr_t)at, now_ns()));
	for (int i = 1; i < 20; i++)
		assert_false(is_found(m, nowhere + i * 4096, now_ns()));
	mmap(at + 4096, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, fd, 0);
	assert_false(is_found(m, (uintptr_t)at + 4096, now_ns()));
	assert_true(is_found(m, (uintptr_t)at + 4096, now_ns() + 1100000000));
	munmap(at, 8192);
	close(fd);
	modules__free(m);
	module_files__free(files);
}

/* No descriptor is free at first, as when the time for a process's files is used up. */
static void reads_again_after_a_failure(void **state)
{
	struct module_files *files = module_files__new(NULL, CT_REDACT_NOTHING);
	struct modules *m = modules__new(files, getpid());
	struct rlimit all, none;

	assert_non_null(m);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &all), 0);
	none = (struct rlimit){0, all.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	assert_false(is_found(m, (uintptr_t)is_found, now_ns()));
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &all), 0);
	assert_false(is_found(m, (uintptr_t)is_found, now_ns()));
	assert_true(is_found(m, (uintptr_t)is_found, now_ns() + 1100000000));
	modules__free(m);
	module_files__free(files);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_what_comes_meanwhile),
		cmocka_unit_test(names_what_comes_after_nonsense),
		cmocka_unit_test(reads_again_after_a_failure),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
