/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Writes lines to the program's stderr. */
#include "inject.h"

#include <string.h>

bool inject_verbose;

size_t put_number(char *to, unsigned long n, unsigned base)
{
	char digits[24];
	size_t len = 0;

	do
		digits[len++] = "0123456789abcdef"[n % base];
	while (n /= base);
	for (size_t i = 0; i < len; i++)
		to[i] = digits[len - 1 - i];
	to[len] = 0;
	return len;
}

void log_warn(const char *what, int err)
{
	char text[300] = "cudatrace: ";
	size_t n = strlen(text);

	for (; *what && n < sizeof(text) - 30; what++)
		text[n++] = *what;
	if (err) {
		strcpy(text + n, " (errno ");
		n += strlen(text + n);
		n += put_number(text + n, err, 10);
		text[n++] = ')';
	}
	text[n++] = '\n';
	sys(SYS_write, 2, text, n);
}

void log_debug(const char *what, int err)
{
	if (inject_verbose)
		log_warn(what, err);
}
