/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "losses_text.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "numbers.h"

const struct chosen_text chosen_text[CHOSEN_CNT] = {
	[CHOSEN_FILTERED] = {"filtered calls", "--min-duration, --start-after or --capture-range"},
	[CHOSEN_COUNTED] = {"counted calls", "--count or --max-overhead"},
	[CHOSEN_REMOVED] = {"files before the first",
			    "rotation removed them, or they were not named"},
};

void losses_print(const struct losses *l, const struct term *term, const char *title)
{
	losses_print_first(l, term, title, UINT_MAX);
}

unsigned losses_print_first(const struct losses *l, const struct term *term, const char *title,
			    unsigned max)
{
	unsigned rows = 0;
	struct loss_row row;
	char cnt[CELL_SZ];

	if (!losses__any(l))
		return 0;
	fputs(term->color ? "\033[1;31m" : "", term->f);
	putc('\n', term->f);
	term_words(term, 2, "INCOMPLETE: %s", title);
	fputs(term->color ? "\033[0m" : "", term->f);
	for (unsigned i = 0; losses__next(l, &i, &row);) {
		if (rows++ >= max)
			continue;
		human_count(cnt, row.cnt);
		term_para(term, "%s %s: %s. To avoid it: %s.", cnt, row.what, row.why,
			  row.how_to_avoid);
	}
	return rows > max ? rows - max : 0;
}

void losses_print_chosen(const struct losses *l, const struct term *term, const char *where)
{
	char cnt[CELL_SZ];

	for (int i = 0; i < CHOSEN_CNT; i++) {
		human_count(cnt, l->chosen[i]);
		if (l->chosen[i])
			term_section(term, "Excluded by choice", "%s%s%s %s: %s", where ?: "",
				     where ? ", " : "", cnt, chosen_text[i].what,
				     chosen_text[i].why);
	}
}

bool losses_chosen_line(const struct losses *l, char *text, size_t size)
{
	char cnt[CELL_SZ];
	size_t n = 0;

	*text = '\0';
	for (int i = 0; i < CHOSEN_CNT && n < size; i++) {
		human_count(cnt, l->chosen[i]);
		if (l->chosen[i])
			n += snprintf(text + n, size - n, "%s%s %s (%s)", n ? ", " : "", cnt,
				      chosen_text[i].what, chosen_text[i].why);
	}
	return n;
}

bool losses_line(const struct losses *l, char *text, size_t size)
{
	struct loss_row row;
	char cnt[CELL_SZ];
	size_t n = 0;

	*text = '\0';
	for (unsigned i = 0; n < size && losses__next(l, &i, &row);) {
		human_count(cnt, row.cnt);
		n += snprintf(text + n, size - n, "%s%s %s", n ? ", " : "", cnt, row.what);
	}
	return n;
}
