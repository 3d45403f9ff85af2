/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * crowd LIBRARY NAMES PROCESSES CODES: many processes. Each of PROCESSES calls each function of the
 * file NAMES once for each of CODES results (0, 1, ...). Prints "done" when all have, and stays
 * until its stdin ends; "no probes" if the functions have none after a minute. The library's
 * functions return their argument.
 */
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static int (*fns[4096])(int);
static int cnt;

static void find(void *lib, const char *names)
{
	char name[256];
	FILE *f = fopen(names, "r");

	while (f && cnt < 4096 && fscanf(f, "%255s", name) == 1)
		cnt += !!(fns[cnt] = (int (*)(int))dlsym(lib, name));
}

static int is_probed(int (*fn)(int))
{
#ifdef __x86_64__
	return memchr((void *)fn, 0xcc, 8) != NULL; /* a breakpoint */
#else
	const unsigned *code = (const unsigned *)fn;

	return code[0] == 0xd42000a0 || code[1] == 0xd42000a0; /* brk #5 */
#endif
}

/* Waits until the daemon's probes are on the first and the last function; the time depends on the
 * load of the machine. Returns whether they are. */
static int wait_for_probes(void)
{
	fns[0](0); /* the daemon finds the caller */
	for (int i = 0; i < 6000 && !(is_probed(fns[0]) && is_probed(fns[cnt - 1])); i++)
		usleep(10000);
	usleep(500000); /* time for the other probes, and later work */
	return is_probed(fns[0]) && is_probed(fns[cnt - 1]);
}

int main(int argc, char **argv)
{
	void *lib = argc > 4 ? dlopen(argv[1], RTLD_NOW) : NULL;
	int procs = lib ? atoi(argv[3]) : 0, codes = lib ? atoi(argv[4]) : 0, done[2];
	char c;

	if (!lib || pipe(done))
		return 1;
	find(lib, argv[2]);
	if (cnt && !wait_for_probes()) {
		puts("no probes");
		return 1;
	}
	for (int i = 0; i < procs; i++) {
		if (fork())
			continue;
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (int n = 0; n < cnt; n++)
			for (int code = 0; code < codes; code++)
				if (fns[n](code) != code)
					_exit(1);
		write(done[1], "x", 1);
		pause();
	}
	for (int i = 0; i < procs; i++)
		if (read(done[0], &c, 1) != 1)
			return 1;
	puts("done");
	fflush(stdout);
	while (read(0, &c, 1) > 0)
		;
	return 0;
}
