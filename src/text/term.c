/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "term.h"

#include <stdarg.h>
#include <string.h>

#include "util/plain.h"

int term_columns(const char *s, size_t len)
{
	int n = 0;

	for (; len; s++, len--)
		n += (*s & 0xc0) != 0x80;
	return n;
}

void term_bold(const struct term *term, const char *s)
{
	fprintf(term->f, term->color ? "\033[1m%s\033[0m" : "%s", s);
}

static void put_plain(FILE *f, const char *s, size_t len)
{
	for (; len; s++, len--)
		putc(*s >= ' ' && *s <= '~' ? *s : '?', f);
}

void term_name(const struct term *term, const char *s, int width)
{
	size_t len = strlen(s), head;

	if (width < 8)
		width = 8;
	if (len <= (size_t)width) {
		put_plain(term->f, s, len);
		return;
	}
	head = (width - 3 + 1) / 2;
	put_plain(term->f, s, head);
	fputs("...", term->f);
	put_plain(term->f, s + len - (width - 3 - head), width - 3 - head);
}

/* The mark of a share follows its "%". */
static void put_word(const struct term *term, const char *s, size_t len, bool is_share)
{
	size_t head = is_share ? (size_t)((const char *)memchr(s, '%', len) - s) + 1 : len;

	plain_print(term->f, s, head);
	if (is_share)
		putc('*', term->f);
	plain_print(term->f, s + head, len - head);
}

/* The line has col columns already. */
static void put_words(const struct term *term, const char *s, int col, int indent)
{
	bool is_share;
	size_t len;
	int n;

	while (*s) {
		len = strcspn(s, " ");
		/* Keep a number and its % sign together. */
		if (!strncmp(s + len, " %", 2))
			len += 1 + strcspn(s + len + 1, " ");
		is_share = len > 2 && memmem(s, len, " %", 2) && term->is_partial;
		n = term_columns(s, len) + is_share;
		if (col && col + 1 + n > term->width) {
			fprintf(term->f, "\n%*s", indent, "");
			col = indent;
		} else if (col) {
			putc(' ', term->f);
			col++;
		}
		put_word(term, s, len, is_share);
		col += n;
		s += len;
		s += strspn(s, " ");
	}
	putc('\n', term->f);
}

void term_text(const struct term *term, const char *s, int indent)
{
	put_words(term, s, 0, indent);
}

void term_row(const struct term *term, const char *label, const char *fmt, ...)
{
	char text[2048];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	term_label(term, label);
	put_words(term, text, TERM_LABEL - 1, TERM_LABEL);
}

void term_words(const struct term *term, int indent, const char *fmt, ...)
{
	char text[2048];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	put_words(term, text, 0, indent);
}

void term_label(const struct term *term, const char *label)
{
	bool is_red = *label && !label[strspn(label, "ABCDEFGHIJKLMNOPQRSTUVWXYZ")];
	const char *on = is_red ? "\033[1;31m" : "\033[1m";

	fprintf(term->f, "%s%s%s%*s", term->color ? on : "", label, term->color ? "\033[0m" : "",
		TERM_LABEL - 1 - (int)strlen(label), "");
}

void term_section(const struct term *term, const char *title, const char *fmt, ...)
{
	char text[1024];
	int n = snprintf(text, sizeof(text), "%s: ", title);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text + n, sizeof(text) - n, fmt, ap);
	va_end(ap);
	putc('\n', term->f);
	fputs(term->color ? "\033[1m" : "", term->f);
	term_text(term, text, 2);
	fputs(term->color ? "\033[0m" : "", term->f);
}

void term_para(const struct term *term, const char *fmt, ...)
{
	struct term inner = *term;
	char text[2048];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	fputs("  ", term->f);
	/* the first line begins after the indent */
	inner.width -= 2;
	term_text(&inner, text, 2);
}
