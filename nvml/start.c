/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Entry point of the program, and functions that got new symbol versions when glibc 2.34 merged its
 * libraries. Linked by their old versions, the program also runs with older glibc, as the driver's
 * own libraries do.
 */
#include "start.h"

#include <stddef.h>

#if defined(__x86_64__)
#define OLD "GLIBC_2.2.5"
__asm__(".globl _start\n"
	"_start: xor %ebp, %ebp\n"
	"mov %rsp, %rdi\n"
	"and $-16, %rsp\n"
	"call start_at\n"
	"hlt\n");
#elif defined(__aarch64__)
#define OLD "GLIBC_2.17"
__asm__(".globl _start\n"
	"_start: mov x29, #0\n"
	"mov x30, #0\n"
	"mov x0, sp\n"
	"bl start_at\n"
	"brk #0\n");
#else
#error "no start for this machine"
#endif

__asm__(".symver old_start, __libc_start_main@" OLD "\n"
	".symver old_dlopen, dlopen@" OLD "\n"
	".symver old_dlsym, dlsym@" OLD "\n"
	".symver old_dlerror, dlerror@" OLD "\n");

int old_start(int (*fn)(int, char **, char **), int argc, char **argv, void (*init)(void),
	      void (*fini)(void), void (*rtld_fini)(void), void *stack_end);
void *old_dlopen(const char *path, int flags);
void *old_dlsym(void *lib, const char *name);
char *old_dlerror(void);

int main(int argc, char **argv, char **env);

__attribute__((noreturn, used, visibility("hidden"))) void start_at(long *sp)
{
	old_start(main, (int)*sp, (char **)(sp + 1), NULL, NULL, NULL, sp);
	__builtin_trap();
}

void *lib_open(const char *path, int flags)
{
	return old_dlopen(path, flags);
}

void *lib_symbol(void *lib, const char *name)
{
	return old_dlsym(lib, name);
}

const char *lib_error(void)
{
	return old_dlerror() ?: "no reason was given";
}
