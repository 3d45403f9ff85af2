/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "kernel_name.h"

#include <stdbool.h>
#include <string.h>

#define ANON "(anonymous namespace)::"

/* Kernel names longer than this, without template arguments, are cut. */
#define SHORT_MAX 256

/* "operator<", "operator<<", "operator->": angle brackets that are not template brackets. */
static size_t operator_len(const char *s)
{
	size_t n = strlen("operator");

	if (strncmp(s, "operator", n) || !strchr("<>-=(", s[n]) || !s[n])
		return 0;
	if (s[n] == '(' && s[n + 1] == ')')
		return n + 2;
	while (s[n] && strchr("<>-=", s[n]))
		n++;
	return n;
}

static const char *skip_template(const char *s)
{
	int depth = 0;

	for (; *s; s++) {
		if (*s == '<')
			depth++;
		/* the arrow of a trailing return type closes nothing */
		else if (*s == '>' && s[-1] != '-' && --depth == 0)
			return s + 1;
	}
	return s;
}

const char *kernel_short_name(const char *demangled, size_t *len)
{
	static __thread char buf[SHORT_MAX];
	const char *s = demangled;
	size_t n = 0, op;

	while (*s && n < sizeof(buf)) {
		op = s > demangled && s[-1] == ':' ? operator_len(s) : 0;
		if (op && n + op <= sizeof(buf)) {
			memcpy(buf + n, s, op);
			n += op;
			s += op;
		} else if (*s == '<') {
			s = skip_template(s);
		} else if (*s == '(' && !strncmp(s, ANON, strlen(ANON))) {
			s += strlen(ANON);
		} else if (*s == '(' || (*s == ' ' && !strncmp(s, " [clone ", 8))) {
			break;
		} else if (*s == ' ') {
			/* the text before was the return type, except in "operator<< <int>" */
			n = s[1] == '<' ? n : 0;
			s++;
		} else {
			buf[n++] = *s++;
		}
	}
	if (!n) {
		*len = strlen(demangled);
		return demangled;
	}
	*len = n;
	return buf;
}
