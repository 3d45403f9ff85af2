/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * System calls without libc. A program may define any of libc's functions itself: sanitizers,
 * allocators and limiters do, and theirs may not be ready when the library needs one. So the
 * library calls none by name (make check: inject_symbols). errno does not change.
 */
#ifndef INJECT_SYS_H
#define INJECT_SYS_H

#include <stdbool.h>
#include <stdint.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/syscall.h>

/* Returns the kernel's result: -errno on failure. */
static inline long sys6(long nr, long a, long b, long c, long d, long e, long f)
{
#ifdef __x86_64__
	register long r10 __asm__("r10") = d, r8 __asm__("r8") = e, r9 __asm__("r9") = f;
	long ret;

	__asm__ volatile("syscall"
			 : "=a"(ret)
			 : "0"(nr), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return ret;
#else
	register long x8 __asm__("x8") = nr, x0 __asm__("x0") = a, x1 __asm__("x1") = b;
	register long x2 __asm__("x2") = c, x3 __asm__("x3") = d, x4 __asm__("x4") = e;
	register long x5 __asm__("x5") = f;

	__asm__ volatile("svc 0"
			 : "+r"(x0)
			 : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
			 : "memory");
	return x0;
#endif
}

/* sys(SYS_x, at most six arguments) */
#define sys(...) sys_fill_(__VA_ARGS__, 0, 0, 0, 0, 0, 0)
#define sys_fill_(nr, a, b, c, d, e, f, ...)                                                       \
	sys6(nr, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f))

/* For an address result. */
static inline bool is_sys_error(long ret)
{
	return (unsigned long)ret > -4096ul;
}

/* Allocates memory of our own; NULL on failure. */
static inline void *sys_map(unsigned long size, int flags)
{
	long at = sys(SYS_mmap, 0, size, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);

	return is_sys_error(at) ? NULL : (void *)at;
}

/* Runs fn(arg) in a process that shares our memory, on the stack that ends there. Returns its
 * process id when it has ended or executed another program (CLONE_VFORK), or -errno. */
static inline long sys_clone_vfork(int (*fn)(void *), void *stack_end, void *arg)
{
	long flags = 0x100 | 0x4000; /* CLONE_VM | CLONE_VFORK */
#ifdef __x86_64__
	register long r10 __asm__("r10") = 0, r8 __asm__("r8") = 0;
	register void *r12 __asm__("r12") = arg;
	long ret;

	__asm__ volatile("syscall\n\t"
			 "test %%rax, %%rax\n\t"
			 "jnz 1f\n\t"
			 "cmp %%rsi, %%rsp\n\t"
			 "jne 2f\n\t"
			 "xor %%ebp, %%ebp\n\t"
			 "mov %%r12, %%rdi\n\t"
			 "call *%%rbx\n\t"
			 "mov %%eax, %%edi\n\t"
			 "mov $60, %%eax\n\t" /* SYS_exit */
			 "syscall\n\t"
			 "mov $231, %%eax\n\t" /* SYS_exit_group */
			 "syscall\n\t"
			 "hlt\n"
			 "2: mov $-38, %%rax\n" /* -ENOSYS */
			 "1:"
			 : "=a"(ret)
			 : "0"(SYS_clone), "D"(flags), "S"(stack_end), "d"(0), "r"(r10), "r"(r8),
			   "b"(fn), "r"(r12)
			 : "rcx", "r11", "memory");
	return ret;
#else
	register long x8 __asm__("x8") = SYS_clone, x0 __asm__("x0") = flags;
	register void *x1 __asm__("x1") = stack_end, *x20 __asm__("x20") = arg;
	register long x2 __asm__("x2") = 0, x3 __asm__("x3") = 0, x4 __asm__("x4") = 0;
	register int (*x19)(void *) __asm__("x19") = fn;

	__asm__ volatile("svc 0\n\t"
			 "cbnz x0, 1f\n\t"
			 "mov x9, sp\n\t"
			 "cmp x9, x1\n\t"
			 "b.ne 2f\n\t"
			 "mov x29, #0\n\t"
			 "mov x0, x20\n\t"
			 "blr x19\n\t"
			 "mov x8, #93\n\t" /* SYS_exit */
			 "svc 0\n\t"
			 "mov x8, #94\n\t" /* SYS_exit_group */
			 "svc 0\n\t"
			 "brk 0\n"
			 "2: mov x0, #-38\n" /* -ENOSYS */
			 "1:"
			 : "+r"(x0)
			 : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x19), "r"(x20)
			 : "x9", "cc", "memory");
	return x0;
#endif
}

#endif /* INJECT_SYS_H */
