/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * cost_kernel LIBRARY DEVICE IOCTLS OTHERS: for each line of its input, a round: a call of
 * LIBRARY's cuCtxSetCurrent, IOCTLS ioctls on DEVICE, and OTHERS other system calls. Prints the CPU
 * time of the round in nanoseconds.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static int64_t thread_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return ts.tv_sec * 1000000000ll + ts.tv_nsec;
}

int main(int argc, char **argv)
{
	void *lib = argc == 5 ? dlopen(argv[1], RTLD_NOW) : NULL;
	int (*call)(long) = lib ? (int (*)(long))dlsym(lib, "cuCtxSetCurrent") : NULL;
	int dev = argc == 5 ? open(argv[2], O_RDWR) : -1;
	char line[16];

	if (!call || dev < 0)
		return 2;
	while (fgets(line, sizeof(line), stdin)) {
		int64_t start = thread_ns();

		call(0);
		/* NV_ESC_RM_ALLOC_MEMORY: its argument does not matter for a file. */
		for (int i = 0; i < atoi(argv[3]); i++)
			ioctl(dev, _IOWR('F', 0x27, char[56]), line);
		for (int i = 0; i < atoi(argv[4]); i++)
			syscall(SYS_getppid);
		printf("%lld\n", (long long)(thread_ns() - start));
		fflush(stdout);
	}
	return 0;
}
