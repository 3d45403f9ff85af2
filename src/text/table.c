/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "table.h"

#include <string.h>

#include "util/plain.h"

#define GAP "  "

void human_count(char cell[CELL_SZ], uint64_t n)
{
	char digits[CELL_SZ];
	int len = snprintf(digits, sizeof(digits), "%llu", (unsigned long long)n), i, o = 0;

	/* CELL_SZ holds 18 digits with their commas: no count gets there, but a bug might */
	if (len > 17) {
		snprintf(cell, CELL_SZ, "%.3e", (double)n);
		return;
	}
	for (i = 0; i < len; i++) {
		if (i && (len - i) % 3 == 0)
			cell[o++] = ',';
		cell[o++] = digits[i];
	}
	cell[o] = '\0';
}

/* Three digits that matter. */
static void put_unit(char cell[CELL_SZ], double x, const char *unit)
{
	int decimals = x < 9.995 ? 2 : x < 99.95 ? 1 : 0;

	snprintf(cell, CELL_SZ, "%.*f %s", decimals, x, unit);
}

void human_bytes(char cell[CELL_SZ], uint64_t bytes)
{
	static const char *const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
	double x = bytes;
	unsigned i = 0;

	if (bytes < 1024) {
		snprintf(cell, CELL_SZ, "%u B", (unsigned)bytes);
		return;
	}
	for (x /= 1024; x >= 1023.5 && i < 5; i++)
		x /= 1024;
	put_unit(cell, x, units[i]);
}

void human_time(char cell[CELL_SZ], double ns)
{
	if (ns < 999.5)
		snprintf(cell, CELL_SZ, "%.0f ns", ns);
	else if (ns < 999.5e3)
		put_unit(cell, ns / 1e3, "µs");
	else if (ns < 999.5e6)
		put_unit(cell, ns / 1e6, "ms");
	else
		put_unit(cell, ns / 1e9, "s");
}

void human_share(char cell[CELL_SZ], double part, double whole)
{
	cell[0] = '\0';
	if (whole > 0)
		snprintf(cell, CELL_SZ, "%.1f %%", 100 * part / whole);
}

void human_rate(char cell[CELL_SZ], double bytes, double ns)
{
	cell[0] = '\0';
	if (ns <= 0)
		return;
	if (bytes / ns < 0.9995)
		put_unit(cell, 1e3 * bytes / ns, "MB/s");
	else
		put_unit(cell, bytes / ns, "GB/s");
}

static int columns_of(const char *s, size_t len)
{
	int n = 0;

	for (; len; s++, len--)
		n += (*s & 0xc0) != 0x80;
	return n;
}

static int columns(const char *s)
{
	return columns_of(s, strlen(s));
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

void term_text(const struct term *term, const char *s, int indent)
{
	int col = 0, n;
	size_t len;

	while (*s) {
		len = strcspn(s, " ");
		n = columns_of(s, len);
		if (col && col + 1 + n > term->width) {
			fprintf(term->f, "\n%*s", indent, "");
			col = indent;
		} else if (col) {
			putc(' ', term->f);
			col++;
		}
		plain_print(term->f, s, len);
		col += n;
		s += len;
		s += strspn(s, " ");
	}
	putc('\n', term->f);
}

void table__init(struct table *t, const char *heads)
{
	char *p, *save = NULL;
	unsigned n = 0;

	snprintf(t->text, sizeof(t->text), "%s", heads);
	t->row_cnt = 0;
	t->name_head = "";
	for (p = strtok_r(t->text, "|", &save); p; p = strtok_r(NULL, "|", &save)) {
		if (n < TABLE_COLS)
			t->head[n] = p;
		t->name_head = p;
		n++;
	}
	t->col_cnt = n - 1;
}

struct table_row *table__row(struct table *t, const char *name)
{
	struct table_row *r = &t->rows[t->row_cnt];

	if (t->row_cnt == TABLE_ROWS)
		return NULL;
	t->row_cnt++;
	memset(r, 0, sizeof(*r));
	r->name = name;
	return r;
}

static void put_right(FILE *f, const char *s, int width)
{
	fprintf(f, "%*s", width - columns(s), "");
	plain_print(f, s, strlen(s));
}

void table__print(const struct table *t, const struct term *term)
{
	int width[TABLE_COLS], used = 0;
	const struct table_row *r;
	unsigned i, c;

	for (c = 0; c < t->col_cnt; c++) {
		width[c] = columns(t->head[c]);
		for (i = 0; i < t->row_cnt; i++)
			if (columns(t->rows[i].cell[c]) > width[c])
				width[c] = columns(t->rows[i].cell[c]);
		used += width[c] + strlen(GAP);
	}
	fputs(term->color ? "\033[2m" : "", term->f);
	for (c = 0; c < t->col_cnt; c++) {
		fputs(GAP, term->f);
		put_right(term->f, t->head[c], width[c]);
	}
	fprintf(term->f, GAP "%s%s\n", t->name_head, term->color ? "\033[0m" : "");
	for (r = t->rows; r < t->rows + t->row_cnt; r++) {
		fputs(r->red && term->color ? "\033[31m" : "", term->f);
		for (c = 0; c < t->col_cnt; c++) {
			fputs(GAP, term->f);
			put_right(term->f, r->cell[c], width[c]);
		}
		fputs(GAP, term->f);
		term_name(term, r->name, term->width - used - (int)strlen(GAP));
		fputs(r->red && term->color ? "\033[0m\n" : "\n", term->f);
	}
}
