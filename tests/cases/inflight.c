/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * inflight [MILLISECONDS]: for attaching with -p. A thread is inside a call when the tracer
 * attaches; that call's return must not be taken for another's. Prints "ready" when the call has
 * begun.
 */
#include "case.h"

static unsigned ms = 2000;

static void *sleeper(void *arg)
{
	int r;

	(void)arg;
	/* Begun before the trace: not in it. */
	F(cuFakeSleep)(ms * 1000);
	r = F(cuFakeUndocumented)(1, 0, 0, 0, 0, 0);
	expect("cuFakeUndocumented", r, "'$parent':null");
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t t;

	if (argc > 1)
		ms = atoi(argv[1]);
	case_open();
	case_sym("cuFakeSleep");
	case_quiet = true;
	case_context();
	case_quiet = false;
	if (pthread_create(&t, NULL, sleeper, NULL))
		die("cannot make a thread");
	case_sleep_ms(50);
	expect_line("ready\n", 6);
	pthread_join(t, NULL);
	case_free(case_alloc(4096));
	return 0;
}
