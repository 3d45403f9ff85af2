/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * For attaching with -p: loads kernels, prints "ready" and waits for a byte on stdin (or its end),
 * while the tracer attaches. Later launches are expected with their names.
 */
#include "case.h"

int main(void)
{
	static const char ptx[] = PTX_HEAD PTX_KERNEL("_Z6matmulPKfS0_Pfi")
		PTX_KERNEL("_Z9layernormPKfPfi") PTX_KERNEL("plain_name");
	static const char late[] = PTX_HEAD PTX_KERNEL("_Z4latev");
	handle m, f[3], k = NULL, library = NULL, late_module, late_function;
	char c;

	case_open();
	case_quiet = true;
	case_context();
	m = case_module(ptx);
	f[0] = case_function(m, "_Z6matmulPKfS0_Pfi", NULL);
	f[1] = case_function(m, "_Z9layernormPKfPfi", NULL);
	f[2] = case_function(m, "plain_name", NULL);
	must("cuLibraryLoadData", F(cuLibraryLoadData)(&library, ptx, NULL, NULL, 0, NULL, NULL, 0),
	     0);
	must("cuLibraryGetKernel", F(cuLibraryGetKernel)(&k, library, "_Z9layernormPKfPfi"), 0);
	case_quiet = false;
	expect_line("ready\n", 6);
	(void)!read(STDIN_FILENO, &c, 1);
	/* The tracer records this lookup, and uses it to check names read through handles. */
	late_module = case_module(late);
	late_function = case_function(late_module, "_Z4latev", "late()");
	for (int i = 0; i < 3; i++) {
		case_launch(f[0], NULL, "matmul(float const*, float const*, float*, int)");
		case_launch(f[1], NULL, "layernorm(float const*, float*, int)");
		case_launch(f[2], NULL, "plain_name");
		case_launch(k, NULL, "layernorm(float const*, float*, int)");
		case_launch(late_function, NULL, "late()");
	}
	case_stream_sync(NULL);
	return 0;
}
