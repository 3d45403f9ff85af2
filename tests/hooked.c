/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * hooked FILE: a program with its own code at the beginning of a driver function, as libraries for
 * hooks put it there. Creates FILE then, and calls the function until FILE is removed.
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int cuInit(unsigned flags);
int cuCtxSynchronize(void);

/* return 7 */
#ifdef __x86_64__
static const uint8_t code[] = {0x6a, 0x07, 0x58, 0xc3};
#else
static const uint8_t code[] = {0xe0, 0x00, 0x80, 0x52, 0xc0, 0x03, 0x5f, 0xd6};
#endif

int main(int argc, char **argv)
{
	uint8_t *fn = (uint8_t *)(uintptr_t)cuCtxSynchronize;
	void *page = (void *)((uintptr_t)fn & ~4095ul);
	FILE *f;

	cuInit(0);
	if (mprotect(page, 8192, PROT_READ | PROT_WRITE | PROT_EXEC))
		return 3;
	memcpy(fn, code, sizeof(code));
	__builtin___clear_cache((char *)fn, (char *)fn + sizeof(code));
	mprotect(page, 8192, PROT_READ | PROT_EXEC);
	f = fopen(argv[1], "w");
	if (!f || fclose(f))
		return 3;
	while (!access(argv[1], F_OK)) {
		if (cuCtxSynchronize() != 7)
			return 4;
		usleep(1000);
	}
	return 0;
}
