/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What a generated client fills arguments and its log with: arguments.py. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define BUFFER 4096
#define BEHIND 1032
static FILE *log_file;
static unsigned long long seed;
static unsigned char buffers[32][BUFFER], strings[32][64];
static unsigned next(void)
{
	seed = seed * 6364136223846793005ull + 1442695040888963407ull;
	return seed >> 33;
}
static void fill(void *p, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		((unsigned char *)p)[i] = next();
}
static void put(const void *p, unsigned n)
{
	fwrite(&n, 4, 1, log_file);
	fwrite(p, 1, n, log_file);
}
static void start(unsigned index)
{
	fflush(log_file);
	put(&index, 4);
}
/* A small number more often than not: counts are. */
static void value(void *p, unsigned n)
{
	memset(p, 0, n);
	if (n > 8 || next() % 4 == 0)
		fill(p, n);
	else if (next() % 8)
		*(unsigned char *)p = next() % 9;
	else
		memset(p, 0xff, n);
}
static void enumerator(void *p, const long long *values, unsigned n)
{
	int x = next() % 4 ? values[next() % n] : (int)(next() * 2u);

	memcpy(p, &x, sizeof(x));
}
static void pointer(void *p, int i, int is_string, int to_pointers)
{
	unsigned char *b = buffers[i];
	void *null = NULL;

	fill(b, BUFFER);
	if (is_string) {
		unsigned len = next() % 100;

		for (unsigned k = 0; k < len; k++)
			b[k] = ' ' + b[k] % 95;
		b[len] = 0;
	} else if (to_pointers) {
		for (unsigned k = 0; k < BUFFER / 8; k++) {
			void *to = strings[i];

			memcpy(b + 8 * k, &to, sizeof(to));
		}
		memcpy(strings[i], "behind", 7);
	} else if (next() % 2) {
		for (unsigned k = 0; k < BUFFER / 4; k++) {
			unsigned x = next() % 20;

			memcpy(b + 4 * k, &x, sizeof(x));
		}
	}
	memcpy(p, next() % 16 ? (void *)&b : (void *)&null, sizeof(b));
}
/* In each element of an array: the number that selects the member of a union. */
static void selector(int i, unsigned off, unsigned size, const int *values, unsigned n)
{
	for (unsigned at = off; at + 4 <= BUFFER; at += size)
		memcpy(buffers[i] + at, &values[next() % n], 4);
}
static void write_arg(const void *p, unsigned n, int buffer)
{
	unsigned char *b = buffer < 0 ? NULL : *(unsigned char *const *)p;

	put(p, n);
	put(b, b ? BEHIND : 0);
}
