/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* rename LIBRARY N: a call, N new names for the thread, a call by the last of them, "last". */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	void *lib = argc > 2 ? dlopen(argv[1], RTLD_NOW) : NULL;
	int (*version)(int *) = lib ? (int (*)(int *))dlsym(lib, "cuDriverGetVersion") : NULL;
	long n = lib ? atol(argv[2]) : 0;
	char name[16];
	int v;

	if (!version || version(&v))
		return 1;
	for (long i = 0; i < n; i++) {
		snprintf(name, sizeof(name), "n%ld", i);
		prctl(PR_SET_NAME, name);
	}
	usleep(20000);
	prctl(PR_SET_NAME, "last");
	return version(&v);
}
