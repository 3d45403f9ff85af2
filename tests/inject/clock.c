/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A thread's times never go back, even if its clock is replaced because another thread found it
 * wrong. Linked to inject/clock.c. Exit status 0, or 1 after a message.
 */
#include "../../inject/inject.h"

#include <stdio.h>
#include <string.h>

/* Plain system calls. */
struct libc_fns inject_libc;

#define AHEAD_NS 1000000

int main(void)
{
	static struct process p;
	static struct thread t;
	uint64_t last, now = 0;

	clock_setup(&p);
	/* Until there is a factor. */
	for (last = inject_now(); inject_now() - last < 50000000;)
		now = thread_now(&p, &t);
	for (int i = 0; i < 1000000; i++) {
		last = now;
		now = thread_now(&p, &t);
		if (now < last) {
			printf("%llu ns back\n", (unsigned long long)(last - now));
			return 1;
		}
	}
	/* As converted with a wrong factor. */
	t.last_ns = last = inject_now() + AHEAD_NS;
	p.tsc_ok = p.mult = 0;
	now = thread_now(&p, &t);
	if (now < last) {
		printf("%llu ns back when the clock was given up\n",
		       (unsigned long long)(last - now));
		return 1;
	}
	return 0;
}
