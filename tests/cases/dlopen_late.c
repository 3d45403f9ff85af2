/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* dlopen_late PATH [MILLISECONDS]: loads libcuda from PATH after this time. If MILLISECONDS is "-",
 * it waits for a byte on stdin, or its end. */
#include "case.h"

int main(int argc, char **argv)
{
	char c;

	if (argc < 2)
		die("usage: dlopen_late PATH [MILLISECONDS | -]");
	expect_line("ready\n", 6);
	if (argc > 2 && !strcmp(argv[2], "-"))
		(void)!read(STDIN_FILENO, &c, 1);
	else
		case_sleep_ms(argc > 2 ? atoi(argv[2]) : 300);
	case_open_path(argv[1]);
	case_context();
	case_free(case_alloc(4096));
	return 0;
}
