/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "losses.h"

#include <stdio.h>

#include "section.h"
#include "text/losses_text.h"

/* The memory limit is shared, so its losses belong to both reports of a diff. */
static const struct losses memlimit_lost = {.of_report = true};

static bool is_lost(const struct losses_of *x, unsigned i)
{
	struct loss_row row;

	return losses__row(x->l, i, &row);
}

static struct loss_row loss_at(const struct losses_of *x, unsigned i)
{
	struct loss_row row;

	losses__row(x->l, i, &row);
	return row;
}

static const char *id_of(char buf[SECTION_BUF], const struct losses_of *x, unsigned i)
{
	struct loss_row row = loss_at(x, i);

	snprintf(buf, SECTION_BUF, "%s%s", row.prefix, row.id);
	return buf;
}

static bool any_rejected(void)
{
	bool any = false;

	for (int i = QUOTA_CNT; i < LIMIT_TABLE_CNT; i++)
		any |= memlimit_rejected(i) > 0;
	return any;
}

#define SECTION_STATE struct losses_view
#define SECTION_ROWS  "report/losses.section"
#include "report/section_rows.h"

void losses_json(const struct losses *l, struct json *j)
{
	struct losses_view view = {.of = {{.l = l}}, .cnt = 1};

	section_members(NULL, &losses_table, &view, j);
}

void rejected_json(struct json *j)
{
	section_members(NULL, &rejected_table, NULL, j);
}

bool diff_losses_of_limits(void)
{
	return losses__any(&memlimit_lost);
}

bool diff_losses_any(struct report *const r[2])
{
	return report_is_incomplete(r[0]) || report_is_incomplete(r[1]) || diff_losses_of_limits();
}

void diff_losses_print(struct report *const r[2], const struct term *term)
{
	losses_print(&r[0]->lost, term, "something is missing in the old trace");
	losses_print(&r[1]->lost, term, "something is missing in the new trace");
	losses_print(&memlimit_lost, term, "something is missing in this comparison");
}

struct losses_view diff_losses(struct report *const r[2])
{
	return (struct losses_view){
		{{&r[0]->lost, "before"}, {&r[1]->lost, "after"}, {&memlimit_lost, NULL}}, 3};
}
