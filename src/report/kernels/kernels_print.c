/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Kernels as text and JSON, with their launch configurations and occupancy. */
#include <stdio.h>
#include <string.h>

#include "kernels_priv.h"
#include "ncu.h"
#include "report/section.h"
#include "util/plain.h"

static const char *handle_text(char buf[SECTION_BUF], uint64_t func)
{
	snprintf(buf, SECTION_BUF, "(function 0x%llx)", (unsigned long long)func);
	return buf;
}

static const char *capability_text(char buf[SECTION_BUF], unsigned cc)
{
	snprintf(buf, SECTION_BUF, "%u.%u", cc / 10, cc % 10);
	return buf;
}

#define SECTION_STATE struct kernels
#define SECTION_ROWS  "report/kernels/kernels.section"
#include "report/section_rows.h"

/* Length in bytes of the shell word at s. */
static size_t word_len(const char *s)
{
	bool quoted = false;
	size_t i = 0;

	for (; s[i] && (quoted || s[i] != ' '); i++)
		quoted ^= s[i] == '\'';
	return i;
}

/* Prints lines to copy, which a shell joins into one command. */
static void print_command(const char *s, const struct term *term)
{
	int at = 0;

	term_fence(term);
	for (size_t len; *s; s += len + (s[len] == ' ')) {
		len = word_len(s);
		if (at && at + 1 + (int)len > term->width - 2) {
			fputs(" \\\n", term->f);
			at = 0;
		}
		at += fprintf(term->f, at ? " " : "    ");
		plain_print(term->f, s, len);
		at += term_columns(s, len);
	}
	putc('\n', term->f);
	term_fence(term);
}

void kernel_print_ncu(const struct report *r, const struct kernel *x, const char *why,
		      const struct term *term)
{
	char ncu[NCU_SZ];

	if (!ncu_command(r->info, x->name, x->mangled, x->cnt, ncu))
		return;
	term_para(term, "%s", why);
	print_command(ncu, term);
}

void kernels_print(const void *a, const struct term *term)
{
	const struct kernels *k = a;
	char kernels[CELL_SZ];

	if (!k->keys.cnt)
		return;
	human_count(kernels, k->keys.cnt);
	if (k->node_cnt)
		term_section(term, "Kernels",
			     "%s launch%s of %s kernel%s, %s of host time; %s graph node%s",
			     HUMAN_COUNT(k->cnt), plural_es(k->cnt), kernels, plural(k->keys.cnt),
			     HUMAN_CALL_TIME(k->r, k->total_ns), HUMAN_COUNT(k->node_cnt),
			     plural(k->node_cnt));
	else
		term_section(term, "Kernels", "%s of %s kernel%s, %s of host time",
			     HUMAN_NOUNS(k->cnt, "launch"), kernels, plural(k->keys.cnt),
			     HUMAN_CALL_TIME(k->r, k->total_ns));
	section_print(k->r, &kernels_table, k, k, "list", 0, term);
	if (k->sorted)
		kernel_print_ncu(k->r, k->sorted[0],
				 "For caches, bank conflicts and stalls of the first kernel, run "
				 "Nsight Compute:",
				 term);
}
