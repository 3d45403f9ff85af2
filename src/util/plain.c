/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "plain.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "out.h"

unsigned utf8_len(const unsigned char *s, size_t left)
{
	unsigned n, lo = 0x80, hi = 0xbf;

	if (s[0] >= 0xc2 && s[0] <= 0xdf)
		n = 2;
	else if (s[0] >= 0xe0 && s[0] <= 0xef)
		n = 3;
	else if (s[0] >= 0xf0 && s[0] <= 0xf4)
		n = 4;
	else
		return 0;
	if (left < n)
		return 0;
	if (s[0] == 0xe0)
		lo = 0xa0;
	else if (s[0] == 0xed)
		hi = 0x9f;
	else if (s[0] == 0xf0)
		lo = 0x90;
	else if (s[0] == 0xf4)
		hi = 0x8f;
	if (s[1] < lo || s[1] > hi)
		return 0;
	for (unsigned i = 2; i < n; i++)
		if ((s[i] & 0xc0) != 0x80)
			return 0;
	return n;
}

/* U+0080 to U+009F (U+009B is CSI without an ESC), and characters that change the direction of the
 * text around them (Unicode TR 9), so that it reads differently, or start another line. */
static bool is_obeyed(const unsigned char *s)
{
	switch (s[0]) {
	case 0xc2:
		return s[1] < 0xa0;
	case 0xd8:
		return s[1] == 0x9c; /* U+061C */
	case 0xe2:
		/* U+200E, U+200F; U+2028 to U+202E; U+2066 to U+2069 */
		return s[1] == 0x80 ? s[2] == 0x8e || s[2] == 0x8f || (s[2] >= 0xa8 && s[2] <= 0xae)
				    : s[1] == 0x81 && s[2] >= 0xa6 && s[2] <= 0xa9;
	}
	return false;
}

unsigned plain_len(const char *str, size_t left)
{
	const unsigned char *s = (const unsigned char *)str;
	unsigned n;

	if (s[0] < 0x80)
		return s[0] >= ' ' && s[0] != 0x7f;
	n = utf8_len(s, left);
	return n && !is_obeyed(s) ? n : 0;
}

void plain_text(char *s, size_t len)
{
	for (size_t i = 0; i < len;) {
		unsigned n = plain_len(s + i, len - i);

		if (!n)
			s[i] = '?';
		i += n ? n : 1;
	}
}

void plain_print(FILE *f, const char *s, size_t len)
{
	while (len) {
		unsigned n = plain_len(s, len);

		fwrite(n ? s : "?", 1, n ? n : 1, f);
		s += n ? n : 1;
		len -= n ? n : 1;
	}
}

void plain_put(struct out *o, const char *s)
{
	size_t len = strlen(s);

	out_bytes(o, s, len);
	if (!o->failed)
		plain_text(o->buf + o->len - len, len);
}

static bool is_escape(const char *s)
{
	return s[0] == '\\' && s[1] == 'x' && isxdigit((unsigned char)s[2]) &&
	       isxdigit((unsigned char)s[3]);
}

size_t plain_name(char *to, const char *s)
{
	size_t left = strlen(s), len = 0;

	while (left) {
		unsigned n = is_escape(s) ? 0 : plain_len(s, left), took = n ? n : 1;

		if (n)
			memcpy(to + len, s, n);
		else
			sprintf(to + len, "\\x%02x", (unsigned char)*s);
		len += n ? n : 4;
		s += took;
		left -= took;
	}
	to[len] = 0;
	return len;
}

void plain_lines(FILE *f, const char *text)
{
	while (*text) {
		size_t len = strcspn(text, "\n");

		plain_print(f, text, len);
		putc('\n', f);
		text += len + (text[len] == '\n');
	}
}
