/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "term.h"

#include <ctype.h>
#include <stdarg.h>
#include <string.h>

#include "kernel_name.h"
#include "util/plain.h"

int term_columns(const char *s, size_t len)
{
	int n = 0;

	for (; len; s++, len--)
		n += (*s & 0xc0) != 0x80;
	return n;
}

unsigned term_lines(const char *text)
{
	unsigned n = 0;

	for (; *text; text++)
		n += *text == '\n';
	return n;
}

void term_bold(const struct term *term, const char *s)
{
	fprintf(term->f, term->color ? "\033[1m%s\033[0m" : "%s", s);
}

/* Words before a name are whole if it has this much space besides. */
#define WORDS_REST 24

void term_name(const struct term *term, const char *s, int width)
{
	size_t len = strlen(s), head, least = 0, words;

	if (width < 8)
		width = 8;
	if (len > (size_t)width) {
		words = kernel_name_words(s);
		kernel_name_fit(s + words, width, &least);
		if (least && words + WORDS_REST <= (size_t)width) {
			plain_print(term->f, s, words);
			s += words;
			width -= words;
		}
		s = kernel_name_fit(s, width, &least);
		len = strlen(s);
	}
	if (len <= (size_t)width) {
		plain_print(term->f, s, len);
		return;
	}
	/* There is space for the name, but not for its arguments. */
	if (least > 1 && least + 3 > (size_t)width && least - 1 <= (size_t)width) {
		plain_print(term->f, s, least - 1);
		return;
	}
	head = (width - 3 + 1) / 2;
	if (least > head && least + 3 <= (size_t)width)
		head = least;
	plain_print(term->f, s, head);
	fputs("...", term->f);
	plain_print(term->f, s + len - (width - 3 - head), width - 3 - head);
}

/* An underscore within a word is only itself. */
static bool is_markup(const char *s, size_t i, size_t len)
{
	if (s[i] == '_' && i && i + 1 < len && isalnum((unsigned char)s[i - 1]) &&
	    isalnum((unsigned char)s[i + 1]))
		return false;
	return strchr("\\`*_[<|~#", s[i]);
}

void term_escaped(const struct term *term, const char *s, size_t len)
{
	size_t from = 0;

	for (size_t i = 0; term->is_markdown && i < len; i++) {
		if (!is_markup(s, i, len))
			continue;
		plain_print(term->f, s + from, i - from);
		putc('\\', term->f);
		from = i;
	}
	plain_print(term->f, s + from, len - from);
}

/* The mark of a share follows its "%". */
static void put_word(const struct term *term, const char *s, size_t len, bool is_share)
{
	size_t head = is_share ? (size_t)((const char *)memchr(s, '%', len) - s) + 1 : len;

	term_escaped(term, s, head);
	if (is_share)
		fputs(term->is_markdown ? "\\*" : "*", term->f);
	term_escaped(term, s + head, len - head);
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
		if (col && col + 1 + n > term->width && !term->is_markdown) {
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
	/* Two blanks end a line of Markdown, too. */
	fputs(term->is_markdown ? "  \n" : "\n", term->f);
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

	if (term->is_markdown) {
		fprintf(term->f, "**%s** ", label);
		return;
	}
	fprintf(term->f, "%s%s%s%*s", term->color ? on : "", label, term->color ? "\033[0m" : "",
		TERM_LABEL - 1 - (int)strlen(label), "");
}

void term_heading(const struct term *term, const char *title)
{
	putc('\n', term->f);
	fputs(term->is_markdown ? "## " : "", term->f);
	term_bold(term, title);
	putc('\n', term->f);
}

void term_gap(const struct term *term)
{
	if (!term->is_markdown)
		putc('\n', term->f);
}

void term_fence(const struct term *term)
{
	if (term->is_markdown)
		fputs("```\n", term->f);
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
	if (term->is_markdown) {
		fprintf(term->f, "## %s\n\n", title);
		text[n] = toupper((unsigned char)text[n]);
		term_text(term, text + n, 0);
		return;
	}
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
	fputs(term->is_markdown ? "\n" : "  ", term->f);
	/* the first line begins after the indent */
	inner.width -= 2;
	term_text(&inner, text, 2);
}
