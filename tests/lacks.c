/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Simulates older kernels by bpf() and perf_event_open() with fewer features. $LACKS: attach types
 * of links, -1 for perf events. $REFUSES: a program that cannot be loaded. $FAILS: attach types of
 * links that exist and cannot be made; a probe of support uses a folder, not a file.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
static int in(const char *s, long what)
{
	char word[16];
	snprintf(word, sizeof(word), " %ld ", what);
	return s && strstr(s, word);
}
static int lacks(long what)
{
	return in(getenv("LACKS"), what);
}
static int fails(uint32_t *link)
{
	return in(getenv("FAILS"), link[2]) && strcmp(*(char **)(link + 4), "/");
}
long syscall(long n, long a, long b, long c, long d, long e, long f)
{
	static long (*real)(long, ...);
	if (!real)
		real = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
	if (n == SYS_bpf && a == 28 && fails((uint32_t *)b)) {
		errno = atoi(getenv("FAILS"));
		return -1;
	}
	if ((n == SYS_bpf && a == 28 && lacks(((uint32_t *)b)[2])) ||
	    (n == SYS_bpf && a == 5 && getenv("REFUSES") &&
	     !strncmp((char *)b + 48, getenv("REFUSES"), 15)) ||
	    (n == SYS_perf_event_open && lacks(-1))) {
		errno = n == SYS_bpf ? EINVAL : ENOENT;
		return -1;
	}
	return real(n, a, b, c, d, e, f);
}
