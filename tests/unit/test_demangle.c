/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Names chosen by a target cost little, whatever they are. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "util/clock.h"
#include "util/demangle.h"
#include "util/stray.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
/* The limit is 3 ms per name; valgrind, sanitizers and busy machines need more. */
#define NAME_S 0.1

static double cpu_s(void)
{
	return clock_ns(CLOCK_THREAD_CPUTIME_ID) / 1e9;
}

/* Demangles in limited time; otherwise SIGALRM ends the test. */
static char *timed(const char *mangled, struct demangle_share *share)
{
	double begin = cpu_s();
	char *s;

	alarm(60);
	s = demangle(mangled, share);
	alarm(0);
	if (cpu_s() - begin > NAME_S)
		fail_msg("%f s: %s", cpu_s() - begin, mangled);
	if (s && strlen(s) > DEMANGLED_MAX)
		fail_msg("%zu bytes: %s", strlen(s), mangled);
	return s;
}

static void becomes(const char *mangled, const char *want)
{
	char *s = timed(mangled, NULL);

	if (want)
		assert_string_equal(s, want);
	else
		assert_null(s);
	free(s);
}

/* Each type consists of two of the previous one. */
static void doubled(char *name, size_t size, const char *form, int levels)
{
	static const char digits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
	size_t len = snprintf(name, size, "_Z1fSt4pairIiiE");

	for (int i = 0; i < levels && i < 36; i++)
		len += snprintf(name + len, size - len, form, digits[i], digits[i]);
}

static void test_names(void **state)
{
	becomes("add_kernel", NULL);
	becomes("", NULL);
	becomes("_Z", NULL);
	becomes("_Z10vector_addPfi", "vector_add(float*, int)");
	becomes("_Z1fSt6vectorIS_IiSaIiEESaIS1_EE",
		"f(std::vector<std::vector<int, std::allocator<int> >, "
		"std::allocator<std::vector<int, std::allocator<int> > > >)");
	becomes("_ZN12_GLOBAL__N_11kImEEvT_",
		"void (anonymous namespace)::k<unsigned long>(unsigned long)");
	becomes("_ZZ1fvENKUlvE_clEv", "f()::{lambda()#1}::operator()() const");
	becomes("_Z3foov.isra.0", "foo() [clone .isra.0]");
}

/* The demangler of GCC 12 never returns for these. */
static void test_endless(void **state)
{
	static const char *const names[] = {"_Z1fDTsr1aC", "_Z1fIXsrccC", "_Zdt3S_vAsrccC",
					    "_Z1fM1aIXsrccC", "_Zdt3S_vAsrccC_vAsrccC"};

	for (size_t i = 0; i < COUNT(names); i++)
		free(timed(names[i], NULL));
	becomes("_Z1gv", "g()");
}

/* The demangler reads a conversion to a template parameter twice, since template arguments may
 * follow. Nested conversions take 2^levels steps. */
static void twice(char *name, size_t size, int levels)
{
	size_t len = snprintf(name, size, "_ZcvT_");

	for (int i = 0; i < levels; i++)
		len += snprintf(name + len, size - len, "IN1acvT_");
	len += snprintf(name + len, size - len, "IiE");
	for (int i = 0; i < levels; i++)
		len += snprintf(name + len, size - len, "EE");
}

static void test_exponential(void **state)
{
	static const char *const forms[] = {"S_IS%c_S%c_E", "1aIJS%c_S%c_EE", "PFS%c_S%c_E",
					    "1aIJS%c_S%c_EEcl"};
	uint64_t before = demangle_given_up();
	char name[1024];

	for (size_t i = 0; i < COUNT(forms); i++) {
		for (int levels = 1; levels <= 36; levels++) {
			doubled(name, sizeof(name), forms[i], levels);
			free(timed(name, NULL));
		}
	}
	for (int levels = 16; levels < 90; levels++) {
		twice(name, sizeof(name), levels);
		becomes(name, NULL);
	}
	assert_true(demangle_given_up() > before + 50);
	becomes("_Z1gv", "g()");
}

/* Each refused name is counted, whatever the limit. */
static void test_counted(void **state)
{
	uint64_t before = demangle_given_up();
	char name[2048];

	/* Too long a name. */
	memset(name, 'a', sizeof(name));
	memcpy(name, "_Z2000", 6);
	name[2006] = '\0';
	becomes(name, NULL);
	assert_int_equal(demangle_given_up(), before + 1);
	/* Too much output. */
	doubled(name, sizeof(name), "S_IS%c_S%c_E", 30);
	becomes(name, NULL);
	assert_int_equal(demangle_given_up(), before + 2);
	/* Too much time. */
	twice(name, sizeof(name), 64);
	becomes(name, NULL);
	assert_int_equal(demangle_given_up(), before + 3);
	/* No mangled names. */
	becomes("kernel", NULL);
	becomes("_Z", NULL);
	becomes("_Z1gv", "g()");
	assert_int_equal(demangle_given_up(), before + 3);
}

/* The longest names that the library accepts, and longer ones; on a stack of 512 KiB. */
static void *deep(void *arg)
{
	static const char *const pieces[] = {"P",  "N1a",  "1aI", "PF", "Dp",  "XspT_E", "I", "A_",
					     "DT", "DTcl", "sr",  "ZN", "M1a", "UlvE_",	 "K", "J"};
	static char name[5000];

	for (size_t i = 0; i < COUNT(pieces); i++) {
		for (size_t len = 64; len < sizeof(name) - 64; len = len * 5 / 4) {
			size_t at = strlen(strcpy(name, "_Z1f"));

			while (at < len)
				at += strlen(strcpy(name + at, pieces[i]));
			free(timed(name, NULL));
			strcpy(name + at, "i");
			for (size_t n = len; at < len + 60 && n; n--)
				strcpy(name + ++at, "E");
			free(timed(name, NULL));
		}
	}
	return NULL;
}

static void test_deep(void **state)
{
	pthread_attr_t attr;
	pthread_t thread;

	pthread_attr_init(&attr);
	assert_int_equal(pthread_attr_setstacksize(&attr, 1 << 20), 0);
	assert_int_equal(pthread_create(&thread, &attr, deep, NULL), 0);
	pthread_join(thread, NULL);
	pthread_attr_destroy(&attr);
}

/* A process that uses all its time leaves time for others. */
static void test_share(void **state)
{
	struct demangle_share greedy = {0}, other = {0};
	uint64_t before = demangle_given_up();
	char name[1024], *s;
	double begin = cpu_s();

	for (int i = 0; i < 5000; i++) {
		twice(name, sizeof(name), 64);
		free(timed(name, &greedy));
	}
	/* 5000 names of 3 ms would take 15 s. */
	assert_true(cpu_s() - begin < 2);
	assert_true(demangle_given_up() - before > 4000);
	assert_null(demangle("_Z1gv", &greedy));
	s = demangle("_Z1gv", &other);
	assert_string_equal(s, "g()");
	free(s);
	/* Its share recovers. */
	for (int i = 0; i < 300 && !(s = demangle("_Z1gv", &greedy)); i++)
		usleep(100000);
	assert_string_equal(s, "g()");
	free(s);
}

/* Blocked signals, and a child, which does not inherit its parent's timers. */
static void test_signals(void **state)
{
	sigset_t all, old;
	char name[1024];
	int status;
	pid_t pid;

	twice(name, sizeof(name), 64);
	free(timed(name, NULL));
	pid = fork();
	if (!pid) {
		sigfillset(&all);
		sigprocmask(SIG_SETMASK, &all, &old);
		free(timed(name, NULL));
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

/* A signal with our timer's number from another sender is kept for stray_take(). */
static void test_stray(void **state)
{
	siginfo_t si;
	char name[1024];

	twice(name, sizeof(name), 64);
	free(timed(name, NULL));
	assert_false(stray_take(SIGVTALRM, &si));
	kill(getpid(), SIGVTALRM);
	assert_true(stray_take(SIGVTALRM, &si));
	assert_int_equal(si.si_pid, getpid());
	assert_false(stray_take(SIGVTALRM, &si));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),	    cmocka_unit_test(test_endless),
		cmocka_unit_test(test_exponential), cmocka_unit_test(test_deep),
		cmocka_unit_test(test_share),	    cmocka_unit_test(test_signals),
		cmocka_unit_test(test_stray),	    cmocka_unit_test(test_counted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
