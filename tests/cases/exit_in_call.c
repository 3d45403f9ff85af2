/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* exit_in_call [kill]: the process ends, or is killed, while a thread is inside a call. */
#include "case.h"

#include <signal.h>

static void *sleeper(void *arg)
{
	(void)arg;
	expect_no_result("cuFakeSleep", "'unfinished':true");
	F(cuFakeSleep)(60 * 1000000);
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t t;

	case_open();
	case_sym("cuFakeSleep");
	case_context();
	if (pthread_create(&t, NULL, sleeper, NULL))
		die("cannot make a thread");
	case_sleep_ms(200);
	case_free(case_alloc(4096));
	if (argc > 1 && !strcmp(argv[1], "kill"))
		kill(getpid(), SIGKILL);
	return 0;
}
