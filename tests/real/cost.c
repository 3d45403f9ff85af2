/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Calls the same function many times; prints nanoseconds per call. */
#include "case.h"

int main(int argc, char **argv)
{
	double least = 1e9, ns;
	const char *text;
	case_open_path(argv[1]);
	int (*f)() = F(cuGetErrorName);
	for (int k = 0; k < 40; k++) {
		struct timespec a, b;
		clock_gettime(CLOCK_MONOTONIC, &a);
		for (int i = 0; i < 500; i++)
			f(2, &text);
		clock_gettime(CLOCK_MONOTONIC, &b);
		ns = ((b.tv_sec - a.tv_sec) * 1e9 + b.tv_nsec - a.tv_nsec) / 500;
		least = ns < least ? ns : least;
	}
	printf("%.0f\n", least);
	return 0;
}
