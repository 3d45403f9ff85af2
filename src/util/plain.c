// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "plain.h"

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

/* Bytes of the character at s, 0 when a terminal may obey it or cannot show it. */
static unsigned shown_len(const unsigned char *s, size_t left)
{
	if (s[0] < 0x80)
		return s[0] >= ' ' && s[0] != 0x7f;
	/* U+0080 to U+009F: CSI without an ESC. */
	if (s[0] == 0xc2 && left > 1 && s[1] < 0xa0)
		return 0;
	return utf8_len(s, left);
}

void plain_text(char *s, size_t len)
{
	for (size_t i = 0; i < len;) {
		unsigned n = shown_len((unsigned char *)s + i, len - i);

		if (!n)
			s[i] = '?';
		i += n ? n : 1;
	}
}

void plain_print(FILE *f, const char *s, size_t len)
{
	while (len) {
		unsigned n = shown_len((const unsigned char *)s, len);

		fwrite(n ? s : "?", 1, n ? n : 1, f);
		s += n ? n : 1;
		len -= n ? n : 1;
	}
}
