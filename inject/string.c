/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The library's own functions under libc's names, hidden from other objects (inject.map). The
 * compiler calls some of them implicitly, and a sanitizer may have replaced libc's.
 */
#include "inject.h"

#include <string.h>

/* Otherwise the compiler recognises the loop as this function, and calls it recursively. */
#define KEEP_LOOP __asm__ volatile("" ::: "memory")

void *memcpy(void *to, const void *from, size_t n)
{
	uint8_t *t = to;
	const uint8_t *f = from;

	for (; n >= 8; n -= 8, t += 8, f += 8) {
		uint64_t v;

		__builtin_memcpy(&v, f, 8);
		__builtin_memcpy(t, &v, 8);
		KEEP_LOOP;
	}
	for (; n; n--) {
		*t++ = *f++;
		KEEP_LOOP;
	}
	return to;
}

void *memmove(void *to, const void *from, size_t n)
{
	if ((uintptr_t)to - (uintptr_t)from >= n)
		return memcpy(to, from, n);
	while (n--) {
		((uint8_t *)to)[n] = ((const uint8_t *)from)[n];
		KEEP_LOOP;
	}
	return to;
}

void *memset(void *to, int value, size_t n)
{
	uint8_t *t = to;
	uint64_t v = (uint8_t)value * 0x0101010101010101ull;

	for (; n >= 8; n -= 8, t += 8) {
		__builtin_memcpy(t, &v, 8);
		KEEP_LOOP;
	}
	for (; n; n--) {
		*t++ = value;
		KEEP_LOOP;
	}
	return to;
}

int memcmp(const void *a, const void *b, size_t n)
{
	const uint8_t *x = a, *y = b;

	for (; n; n--, x++, y++) {
		if (*x != *y)
			return *x - *y;
		KEEP_LOOP;
	}
	return 0;
}

void *memchr(const void *s, int c, size_t n)
{
	for (const uint8_t *p = s; n; n--, p++)
		if (*p == (uint8_t)c)
			return (void *)p;
	return NULL;
}

void *memmem(const void *s, size_t n, const void *what, size_t len)
{
	for (const uint8_t *p = s; n >= len; n--, p++)
		if (!memcmp(p, what, len))
			return (void *)p;
	return NULL;
}

size_t strlen(const char *s)
{
	size_t n = 0;

	for (; s[n]; n++)
		KEEP_LOOP;
	return n;
}

size_t strnlen(const char *s, size_t max)
{
	size_t n = 0;

	for (; n < max && s[n]; n++)
		KEEP_LOOP;
	return n;
}

int strncmp(const char *a, const char *b, size_t n)
{
	for (; n; n--, a++, b++)
		if (*a != *b || !*a)
			return (uint8_t)*a - (uint8_t)*b;
	return 0;
}

int strcmp(const char *a, const char *b)
{
	return strncmp(a, b, SIZE_MAX);
}

char *strrchr(const char *s, int c)
{
	const char *found = NULL;

	do
		if (*s == (char)c)
			found = s;
	while (*s++);
	return (char *)found;
}

char *strcpy(char *to, const char *from)
{
	return memcpy(to, from, strlen(from) + 1);
}
