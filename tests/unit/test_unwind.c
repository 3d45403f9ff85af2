/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Stacks by call frame information: threads of this program, which has no special build flags. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "attach/find/python_stack.h"
#include "trace/thread_stacks.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#ifdef __x86_64__
/* The functions must stay as short as they look. */
#define PLAIN __attribute__((noinline, no_sanitize_address, no_sanitize_undefined))

static struct call_chain out;
static bool has_fp = true, could_read;
static struct ct_ret patch;

/* Unwinds from its call on: the caller's registers, as at the call. */
static __attribute__((noinline)) void look(const ucontext_t *c)
{
	struct unwinder *u = unwinder__new(getpid());
	const struct unwind_at at = {
		.ip = (uint64_t)c->uc_mcontext.gregs[REG_RIP],
		.sp = (uint64_t)c->uc_mcontext.gregs[REG_RSP],
		.fp = (uint64_t)c->uc_mcontext.gregs[REG_RBP],
		.has_fp = has_fp,
		.rets = &patch,
		.ret_cnt = patch.at != 0,
	};

	assert_non_null(u);
	could_read = unwinder__follow(u, &at, &out);
	unwinder__free(u);
}

/* Its frame size is known only at run time, so unwinding needs its frame pointer. */
static PLAIN int by_frame_pointer(volatile unsigned n)
{
	volatile char room[n + 1];
	ucontext_t c;

	room[n] = 1;
	getcontext(&c);
	look(&c);
	return room[n];
}

static PLAIN __attribute__((optimize("O2", "omit-frame-pointer"))) int by_stack(unsigned n)
{
	volatile uint64_t much[32];

	much[n % 32] = 1;
	return by_frame_pointer(n) + (int)much[n % 32];
}

static PLAIN int outer(unsigned n)
{
	return by_stack(n) + 1;
}

static bool is_in(uint64_t ip, const void *fn)
{
	return ip > (uintptr_t)fn && ip - (uintptr_t)fn < 300;
}

static void assert_ours(void)
{
	assert_true(could_read && out.cnt > 4);
	assert_true(is_in(out.ips[0], by_frame_pointer));
	assert_true(is_in(out.ips[1], by_stack));
	assert_true(is_in(out.ips[2], outer));
	for (unsigned i = 1; i < out.cnt - 1; i++)
		assert_true(out.ends[i] > out.ends[i - 1]);
}

static void test_main_thread(void **state)
{
	assert_int_equal(outer(100), 3);
	assert_ours();
	assert_true(out.whole);
}

static PLAIN void *in_thread(void *arg)
{
	return outer(10) == 3 ? arg : NULL;
}

static void test_thread(void **state)
{
	pthread_t t;
	void *ret;

	assert_int_equal(pthread_create(&t, NULL, in_thread, &out), 0);
	assert_int_equal(pthread_join(t, &ret), 0);
	assert_ptr_equal(ret, &out);
	assert_ours();
	assert_true(is_in(out.ips[3], in_thread));
	assert_true(out.whole);
}

/* Without the register the stack ends at the function that needs it, as not whole. */
static void test_no_frame_pointer(void **state)
{
	has_fp = false;
	outer(100);
	has_fp = true;
	assert_true(could_read && !out.whole);
	assert_int_equal(out.cnt, 1);
	assert_true(is_in(out.ips[0], by_frame_pointer));
}

/* A return probe replaced the address: the kernel's saved one is used. */
static void test_return_probe(void **state)
{
	patch = (struct ct_ret){0};
	outer(100);
	assert_ours();
	/* The address is the same in the next call, since the stack depth is. */
	patch = (struct ct_ret){.at = out.ends[1] - 8, .ip = (uintptr_t)in_thread + 1};
	outer(100);
	patch.at = 0;
	assert_true(is_in(out.ips[1], by_stack));
	assert_int_equal(out.ips[2], (uintptr_t)in_thread + 1);
}

static bool look_at_callers(uint64_t sp)
{
	struct unwinder *u = unwinder__new(getpid());
	const struct unwind_at at = {.sp = sp, .rets = &patch, .ret_cnt = patch.at != 0};
	bool is_read;

	assert_non_null(u);
	is_read = unwinder__callers(u, &at, &out);
	unwinder__free(u);
	return is_read;
}

static PLAIN int callee(void)
{
	/* The return address is above the frame pointer. */
	uint64_t sp = (uintptr_t)__builtin_frame_address(0) + 8;

	patch.at = patch.ip ? sp : 0;
	return look_at_callers(sp);
}

static PLAIN __attribute__((optimize("O2", "omit-frame-pointer"))) int caller(void)
{
	volatile uint64_t much[32];

	much[0] = 1;
	return callee() + (int)much[0];
}

/* Only the place of the return address is known, and a return probe may have replaced it. */
static void test_callers(void **state)
{
	patch = (struct ct_ret){0};
	assert_int_equal(caller(), 2);
	assert_true(out.cnt > 1 && !out.inside);
	assert_true(is_in(out.ips[0], caller));
	assert_true(is_in(out.ips[1], test_callers));
	patch = (struct ct_ret){.ip = (uintptr_t)in_thread + 1};
	assert_int_equal(caller(), 2);
	assert_int_equal(out.ips[0], (uintptr_t)in_thread + 1);
	patch = (struct ct_ret){0};
	assert_false(look_at_callers(8));
	assert_false(look_at_callers(UINT64_MAX - 7));
}

static void follow(uint64_t ip, uint64_t sp)
{
	struct unwinder *u = unwinder__new(getpid());
	const struct unwind_at at = {.ip = ip, .sp = sp, .fp = sp, .has_fp = true};

	assert_non_null(u);
	could_read = unwinder__follow(u, &at, &out);
	unwinder__free(u);
}

/* An invalid stack: uncertain frames are left out. */
static void test_nonsense(void **state)
{
	static uint64_t words[64];

	for (unsigned i = 0; i < 64; i++)
		words[i] = i % 3 ? (uintptr_t)&words[i] : 0x1234;
	follow((uintptr_t)outer + 8, (uintptr_t)words);
	assert_true(could_read && out.cnt == 1 && !out.whole);
	/* It calls itself endlessly. */
	for (unsigned i = 0; i < 64; i++)
		words[i] = (uintptr_t)outer + 8;
	follow((uintptr_t)outer + 8, (uintptr_t)words);
	assert_true(could_read && out.cnt <= CT_STACK_MAX && !out.whole);
	/* No code there, and no stack. */
	follow((uintptr_t)words, (uintptr_t)words);
	assert_true(could_read && out.cnt == 1 && !out.whole);
	follow((uintptr_t)outer, 16);
	assert_false(could_read);
	follow((uintptr_t)outer, UINT64_MAX - 8);
	assert_true(could_read && out.cnt == 1 && !out.whole);
	assert_null(unwinder__new(-1));
}

static pid_t tids[2];
static int ends[2];

static PLAIN ssize_t wait_here(void)
{
	char c;

	/* No read(): sanitizers have their own, with a frame pointer. */
	return syscall(SYS_read, ends[0], &c, 1) + 1;
}

static void *waits(void *arg)
{
	__atomic_store_n(&tids[0], gettid(), __ATOMIC_SEQ_CST);
	return wait_here() == 1 ? arg : NULL;
}

static void *runs(void *arg)
{
	__atomic_store_n(&tids[1], gettid(), __ATOMIC_SEQ_CST);
	while (__atomic_load_n(&tids[1], __ATOMIC_SEQ_CST))
		;
	return arg;
}

static bool has(const struct call_chain *u, const void *fn)
{
	for (unsigned i = 0; i < u->cnt; i++)
		if (is_in(u->ips[i], fn))
			return true;
	return false;
}

/* Without the BPF side: for a waiting thread the kernel's registers, until a frame needs one that
 * is missing. Nothing for running threads, ended ones, or those of another process. */
static void test_without_bpf(void **state)
{
	struct thread_stack s[4] = {{.tid = 0}};
	void *(*const fns[])(void *) = {waits, runs};
	pthread_t t[2];
	bool read_any = false;

	assert_int_equal(pipe(ends), 0);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(pthread_create(&t[i], NULL, fns[i], NULL), 0);
		while (!__atomic_load_n(&tids[i], __ATOMIC_SEQ_CST))
			;
	}
	/* It has set the flag, and is about to wait. */
	while (!read_any || s[0].runs || !has(&s[0].at, wait_here)) {
		for (int i = 0; i < 4; i++)
			s[i] = (struct thread_stack){0};
		s[0].tid = tids[0];
		s[1].tid = tids[1];
		s[2].tid = 0x3ffffff;
		s[3].tid = getppid();
		read_any = thread_stacks__read(NULL, getpid(), NULL, s, 4);
		if (!read_any && access("/proc/thread-self/syscall", R_OK))
			break;
	}
	assert_true(s[0].at.inside);
	assert_int_equal(s[2].at.cnt, 0);
	assert_int_equal(s[3].at.cnt, 0);
	tids[1] = 0;
	assert_int_equal(close(ends[1]), 0);
	for (int i = 0; i < 2; i++)
		assert_int_equal(pthread_join(t[i], NULL), 0);
	close(ends[0]);
	assert_false(thread_stacks__read(NULL, -1, NULL, s, 1));
}
#endif

/* Lists that are circular or lead nowhere. */
static void test_python(void **state)
{
	static uint64_t m[32];
	const struct ct_python p = {
		.runtime = (uintptr_t)m,
		.interpreter_next = 8,
		.threads = 16,
		.thread_id = 8,
		.thread_frame = 16,
		.cframe_frame = CT_PYTHON_NONE,
		.frame_sz = 32,
		.frame_back = 8,
		.frame_ip = 16,
		.frame_owner = 24,
		.owner_min = 3,
	};
	struct ct_python_frame f[CT_PYTHON_MAX];

	m[0] = (uintptr_t)&m[8];   /* the interpreter */
	m[10] = (uintptr_t)&m[16]; /* its first thread: next, id, frame */
	m[16] = (uintptr_t)&m[16];
	m[17] = 77;
	m[18] = (uintptr_t)&m[24]; /* code, back, ip, owner */
	m[24] = 0x1001;
	m[26] = 0x2000;
	assert_int_equal(python_stack__read(getpid(), &p, 77, f), 1);
	assert_true(f[0].code == 0x1000 && f[0].off == 0x2000);
	/* Another thread's, and none; a frame without code; two frames that call each other. */
	assert_int_equal(python_stack__read(getpid(), &p, 78, f), 0);
	assert_int_equal(python_stack__read(getpid(), &p, 0, f), 0);
	m[27] = 3;
	assert_int_equal(python_stack__read(getpid(), &p, 77, f), 0);
	m[25] = (uintptr_t)&m[24];
	assert_int_equal(python_stack__read(getpid(), &p, 77, f), 0);
	m[27] = 0;
	assert_int_equal(python_stack__read(getpid(), &p, 77, f), CT_PYTHON_MAX);
	/* Unreadable memory makes the whole stack uncertain. */
	m[25] = 16;
	assert_int_equal(python_stack__read(getpid(), &p, 77, f), 0);
	m[18] = 16;
	assert_int_equal(python_stack__read(getpid(), &p, 77, f), 0);
	m[10] = 16;
	assert_int_equal(python_stack__read(getpid(), &p, 77, f), 0);
}

static struct call_chain made(bool whole, unsigned cnt, const uint64_t *ips, const uint64_t *ends)
{
	struct call_chain u = {.cnt = cnt, .inside = true, .whole = whole};

	memcpy(u.ips, ips, cnt * sizeof(*ips));
	memcpy(u.ends, ends, cnt * sizeof(*ends));
	return u;
}

/* The stack of a moving thread: the frames that it did not leave. */
static void test_common(void **state)
{
	/* main, then loop: from there it calls two functions in turn. */
	struct call_chain first =
		made(true, 4, (uint64_t[]){50, 40, 20, 10}, (uint64_t[]){100, 200, 300, 0});
	struct call_chain second =
		made(true, 3, (uint64_t[]){45, 20, 10}, (uint64_t[]){200, 300, 0});
	struct call_chain cut = made(false, 3, (uint64_t[]){45, 20, 10}, (uint64_t[]){200, 300, 0});
	struct call_chain other = made(true, 2, (uint64_t[]){7, 8}, (uint64_t[]){150, 160});
	struct call_chain a = first;

	unwound_common(&a, &second);
	assert_int_equal(a.cnt, 3);
	assert_true(a.inside);
	assert_true(a.whole && a.ips[0] == 45 && a.ips[1] == 20 && a.ips[2] == 10);
	a = second;
	unwound_common(&a, &first);
	assert_int_equal(a.cnt, 3);
	assert_true(a.ips[0] == 40 && !a.inside);
	a = first;
	unwound_common(&a, &first);
	assert_int_equal(a.cnt, 4);
	/* Incomplete, or nothing in common: no frame is certain. */
	a = first;
	unwound_common(&a, &cut);
	assert_int_equal(a.cnt, 0);
	a = first;
	unwound_common(&a, &other);
	assert_int_equal(a.cnt, 0);
	assert_false(a.whole);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#ifdef __x86_64__
		cmocka_unit_test(test_main_thread),	 cmocka_unit_test(test_thread),
		cmocka_unit_test(test_no_frame_pointer), cmocka_unit_test(test_return_probe),
		cmocka_unit_test(test_callers),		 cmocka_unit_test(test_nonsense),
		cmocka_unit_test(test_without_bpf),
#endif
		cmocka_unit_test(test_common),		 cmocka_unit_test(test_python),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
