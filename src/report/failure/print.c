/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Explained failures as text and JSON. */
#include "failure_priv.h"

#include <stdio.h>
#include <string.h>

#include "decode/api_values.h"
#include "decode/nv/nv_decode.h"
#include "report/section.h"
#include "text/stack.h"
#include "text/table.h"

static const char *suspect_place(char *buf, const struct work *x)
{
	stack_place(x->stack, NULL, x->kernel, buf, SECTION_BUF);
	return buf;
}

static const char *suspect_text(char *buf, const struct work *x)
{
	char place[256];
	int n;

	submission_name(x, buf, SECTION_BUF);
	stack_place(x->stack, x->operator, x->kernel, place, sizeof(place));
	n = strlen(buf);
	if (*place)
		snprintf(buf + n, SECTION_BUF - n, " < %s", place);
	return buf;
}

static const char *address_text(char *buf, const struct work_addr *x)
{
	if (x->size)
		snprintf(buf, SECTION_BUF, "%s of a block of %s%s", HUMAN_BYTES(x->value - x->ptr),
			 HUMAN_BYTES(x->size), x->freed_id ? " that had been freed" : "");
	else
		snprintf(buf, SECTION_BUF, "%s",
			 !x->value     ? "null pointer, or a number"
			 : x->freed_id ? "memory that had been freed"
				       : "no block of the trace");
	return buf;
}

static const char *holder_place(char *buf, const struct holder *x)
{
	stack_place(x->stack, NULL, NULL, buf, SECTION_BUF);
	return buf;
}

static const char *holder_text(char *buf, const struct holder *x)
{
	int n = snprintf(buf, SECTION_BUF, "%s", x->call);

	if (x->stack) {
		n += snprintf(buf + n, SECTION_BUF - n, " in ");
		stack_place(x->stack, NULL, NULL, buf + n, SECTION_BUF - n);
	}
	return buf;
}

static bool memory_has_block(const struct fail_memory *m)
{
	return m->state == MEMORY_LIVE || m->state == MEMORY_FREED || m->state == MEMORY_PAST_END ||
	       m->state == MEMORY_BEFORE;
}

static const char *case_error(const struct fail_case *c)
{
	return c->fn && c->result ? fn_result_name(c->fn, c->result) : NULL;
}

static bool gpu_is_known(const struct fail_case *c)
{
	return c->gpu_total && c->gpu_total != UINT64_MAX;
}

#define SECTION_STATE struct failure
#define SECTION_ROWS  "report/failure/failure.section"
#include "report/section_rows.h"

static const char *case_title(const struct fail_case *c)
{
	static const char *const titles[] = {"fault", "hang", "out of memory", "GPU error"};

	return titles[c->kind];
}

/* Of the suspect that the verdict names first. */
static void print_params(const struct failure *f, const struct fail_case *c,
			 const struct term *term)
{
	const struct work *x = &c->suspects[0];
	char name[160];

	if (!c->listed_cnt || !x->addr_cnt)
		return;
	submission_name(x, name, sizeof(name));
	term_para(term, "Parameters of %s that may be addresses:", name);
	section_print(f->r, &failure_suspect_table, f, x, "parameters", WORK_ADDRS_MAX, term);
}

static void print_case(const struct failure *f, const struct fail_case *c, const struct term *term)
{
	term_para(term, "%s: %s", case_title(c), c->verdict);
	if (*c->advice)
		term_para(term, "To do: %s", c->advice);
	if (c->listed_cnt > 1) {
		term_para(term, "%u submission%s may be the cause%s%s:", c->suspect_cnt,
			  plural(c->suspect_cnt), c->suspect_cnt > c->listed_cnt ? ", first" : "",
			  c->partial ? ", and others that the trace does not have" : "");
		section_print(f->r, &failure_case_table, f, c, "suspects", SUSPECTS_MAX, term);
	}
	print_params(f, c, term);
	if (c->holder_cnt)
		section_print(f->r, &failure_case_table, f, c, "holders", HOLDERS_MAX, term);
}

void failure_print(const void *a, const struct term *term)
{
	const struct failure *f = a;

	if (!f->cnt)
		return;
	term_section(term, "Cause of failure", "%u", f->cnt + f->more);
	for (unsigned i = 0; i < f->cnt; i++)
		print_case(f, &f->cases[i], term);
}

void failure_print_verdicts(const struct report *r, const struct term *term, unsigned max)
{
	const struct failure *f = r->an[AN_FAILURE];
	unsigned all = f->more, shown = 0;

	/* A program that continued without the memory has not failed. */
	for (unsigned i = 0; i < f->cnt; i++)
		all += !f->cases[i].went_on;
	if (r->args_redacted || all == f->more)
		return;
	term_section(term, "Cause of failure", "%u", all);
	for (unsigned i = 0; i < f->cnt && shown < max; i++)
		if (!f->cases[i].went_on) {
			term_para(term, "%s", f->cases[i].verdict);
			shown++;
		}
	if (all > shown)
		term_para(term, "and %u more (--section=failure)", all - shown);
}
