/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "kernel_name.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#define ANON "(anonymous namespace)::"
#define VOID "void "
#define WORD "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"

/* Columns for shortened arguments: "<...char*>>)". */
#define ARGS_MIN 12

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

/* After the bracket that closes the first one. */
static const char *skip_brackets(const char *s)
{
	int depth = 0;

	for (; *s; s++) {
		if (*s == '<' || *s == '(')
			depth++;
		/* the arrow of a trailing return type closes nothing */
		else if (*s == ')' || (*s == '>' && s[-1] != '-'))
			if (--depth == 0)
				return s + 1;
	}
	return s;
}

/* After a character, an operator's name, or the arguments in brackets that begin there. */
static const char *skip_part(const char *name, const char *s)
{
	size_t op = s > name && s[-1] == ':' ? operator_len(s) : 0;

	if (op)
		return s + op;
	return *s == '<' || *s == '(' ? skip_brackets(s) : s + 1;
}

/* After the first namespace or class; NULL: none before end. */
static const char *skip_scope(const char *s, const char *end)
{
	const char *name = s;

	for (; s < end; s = skip_part(name, s))
		if (!strncmp(s, "::", 2))
			return s + 2;
	return NULL;
}

const char *kernel_name_fit(const char *name, size_t room, size_t *head)
{
	const char *start = strncmp(name, VOID, strlen(VOID)) ? name : name + strlen(VOID);
	const char *end = start, *next;
	bool has_words = false;

	/* Arguments of a class are followed by "::". */
	for (; *end; end = next) {
		next = skip_part(name, end);
		if ((*end == '<' || *end == '(') && strncmp(next, "::", 2) != 0)
			break;
		has_words |= *end == ' ';
	}
	while (!has_words && strlen(start) > room && end - start + ARGS_MIN > (ptrdiff_t)room &&
	       (next = skip_scope(start, end)))
		start = next;
	*head = *end ? end - start + 1 : 0;
	return start;
}

size_t kernel_name_words(const char *name)
{
	size_t n = 0, len;

	for (; (len = strspn(name + n, WORD)) && name[n + len] == ' '; n += len + 1)
		if (!strncmp(name + n, VOID, strlen(VOID)))
			break;
	return n;
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
			s = skip_brackets(s);
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
