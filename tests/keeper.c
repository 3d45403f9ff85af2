/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A static program, as a tool of valgrind is, which maps the library of LD_PRELOAD as code. After a
 * line it executes sleep. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int main(void)
{
	int fd = open(getenv("LD_PRELOAD"), O_RDONLY);

	if (fd < 0 ||
	    mmap(NULL, 4096 * 64, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0) == MAP_FAILED)
		return 1;
	getchar();
	execle("/bin/sleep", "sleep", "60", NULL, (char *[]){NULL});
	return 1;
}
