/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A callback leaves its enclosing call by longjmp: that call never returns, and the thread's later
 * calls are not nested in it. */
#include "case.h"

#include <setjmp.h>

static jmp_buf env;

static void callback(void *arg)
{
	*(int *)arg += F(cuFakeUndocumented)(1, 1, 0, 0, 0, 0);
	longjmp(env, 1);
}

int main(void)
{
	int sum = 0;

	case_open();
	case_sym("cuFakeCallback");
	case_context();
	for (volatile int i = 0; i < 3; i++) {
		if (!setjmp(env))
			F(cuFakeCallback)(callback, &sum);
		expect_no_result("cuFakeCallback", "'abandoned':true,'$id':'cb%d','$parent':null",
				 i);
		expect("cuFakeUndocumented", 2, "'$parent':'cb%d'", i);
		case_free(case_alloc(4096));
	}
	must("callbacks", sum, 6);
	return 0;
}
