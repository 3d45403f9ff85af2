/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* throw LIBRARY N: N times an exception leaves a callback that a driver call made, and is caught
 * above that call. Prints how many were. */
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>

typedef int (*call_t)(void (*)(void *), void *);
typedef int (*version_t)(int *);

static void callback(void *arg)
{
	throw *(int *)arg;
}

int main(int argc, char **argv)
{
	void *lib = argc > 2 ? dlopen(argv[1], RTLD_NOW) : nullptr;
	int caught = 0, v = 0;

	if (!lib)
		return 1;
	call_t call = (call_t)dlsym(lib, "cuFakeCallback");
	version_t version = (version_t)dlsym(lib, "cuDriverGetVersion");

	for (int i = 0; i < atoi(argv[2]); i++) {
		try {
			call(callback, &i);
		} catch (int) {
			caught++;
		}
		version(&v);
	}
	printf("%d\n", caught);
	return 0;
}
