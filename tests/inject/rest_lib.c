/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A libcuda.so.1 one function of which has no pointer of its own, as some of each driver's:
 * cuMemGetAttribute. It is called by one that has, cuDeviceGetCount, and calls one,
 * cuDriverGetVersion.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>

__attribute__((visibility("hidden"), used)) uint32_t state;
#ifdef __x86_64__
#define EXPORT(name)                                                                               \
	__asm__(".pushsection .text\n"                                                             \
		".globl " #name "\n.type " #name ", @function\n.p2align 4\n" #name ":\n"           \
		"cmpl $0x321cba00, state(%rip)\nje 1f\njmp *slot_" #name "(%rip)\n"                \
		"1: mov $4, %eax\nret\n.size " #name ", . - " #name "\n.popsection\n"              \
		".pushsection .data.slots, \"aw\", @progbits\n.p2align 3\n"                        \
		"slot_" #name ": .quad real_" #name "\n.popsection\n");
#else
#define EXPORT(name)                                                                               \
	__asm__(".globl " #name "\n.type " #name ", %function\n.set " #name ", real_" #name "\n");
#endif
#define FN(name, args) EXPORT(name) __attribute__((visibility("hidden"), used)) int real_##name args

int cuDriverGetVersion(int *version);
int cuMemGetAttribute(void *data, int attribute, uint64_t ptr);

FN(cuInit, (unsigned flags))
{
	const char *path = getenv("CUDA_INJECTION64_PATH");
	void *lib = path ? dlopen(path, RTLD_NOW) : NULL;
	int (*begin)(void) = lib ? (int (*)(void))dlsym(lib, "InitializeInjection") : NULL;

	if (begin)
		begin();
	return flags != 0;
}

FN(cuDriverGetVersion, (int *version))
{
	*version = 13000;
	return 0;
}

__attribute__((noipa)) int cuMemGetAttribute(void *data, int attribute, uint64_t ptr)
{
	int version;

	return cuDriverGetVersion(&version);
}

FN(cuDeviceGetCount, (int *count))
{
	int version;

	*count = 1;
	return cuMemGetAttribute(&version, 1, 0);
}
