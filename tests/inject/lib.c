/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A libcuda.so.1 whose functions check that their arguments arrive intact: everything that a thunk
 * could damage. On x86-64 they go through pointers, as in drivers 470 to 555.
 */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "pointers.h"

#define FN(type, name, args)                                                                       \
	EXPORT(name)                                                                               \
	__attribute__((visibility("hidden"), used)) type real_##name args

struct big {
	uint64_t v[8];
};
struct pair {
	double a, b;
};

FN(int, cuInit, (unsigned flags))
{
	return flags != 0;
}

FN(int, cuNop, (void))
{
	return 0;
}

/* Does cuNop lead to the same place as when the library was loaded? */
FN(int, cuIsDirect, (void))
{
#ifdef __x86_64__
	extern void *slot_cuNop __attribute__((visibility("hidden")));

	return __atomic_load_n(&slot_cuNop, __ATOMIC_RELAXED) == (void *)real_cuNop;
#else
	return 1;
#endif
}

/* All registers for floats, those for integers, and some on the stack. */
FN(int, cuFloats,
   (float a, double b, float c, double d, float e, double f, float g, double h, int i, long j,
    double k, float l))
{
	return !(a == 1 && b == 2 && c == 3 && d == 4 && e == 5 && f == 6 && g == 7 && h == 8 &&
		 i == 9 && j == 10 && k == 11 && l == 12);
}

FN(int, cuStruct, (int a, struct big s, int b, struct pair p))
{
	for (unsigned i = 0; i < 8; i++)
		if (s.v[i] != 0x1111111111111111ull * (i + 1))
			return 1;
	return !(a == 1 && b == 2 && p.a == 0.5 && p.b == 0.25);
}

FN(int, cuSixteen,
   (long a, long b, long c, long d, long e, long f, long g, long h, long i, long j, long k, long l,
    long m, long n, long o, long p))
{
	return !(a == 1 && b == 2 && c == 3 && d == 4 && e == 5 && f == 6 && g == 7 && h == 8 &&
		 i == 9 && j == 10 && k == 11 && l == 12 && m == 13 && n == 14 && o == 15 &&
		 p == 16);
}

FN(uint64_t, cuWide, (uint64_t a))
{
	return a;
}

FN(double, cuHalf, (double a))
{
	return a / 2;
}

FN(struct pair, cuPair, (double a))
{
	return (struct pair){a, -a};
}

/* Returns the errno at the call, and sets another. */
FN(int, cuErrno, (int set))
{
	int was = errno;

	errno = set;
	return was;
}

FN(int, cuCall, (void (*fn)(void *), void *arg))
{
	fn(arg);
	return 0;
}
