/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Which file an address is in that has been mapped while the mappings were read. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
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
	struct module_files *files = module_files__new(NULL, CT_HIDE_NOTHING);
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_what_comes_meanwhile),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
