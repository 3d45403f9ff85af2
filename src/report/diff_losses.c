/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "diff_losses.h"

#include "text/losses_text.h"

/* The memory limit is shared, so its losses belong to both reports. */
static const struct losses memlimit_lost = {.of_report = true};

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
	losses_print(&r[0]->lost, term, "something is missing in the trace before");
	losses_print(&r[1]->lost, term, "something is missing in the trace after");
	losses_print(&memlimit_lost, term, "something is missing in this comparison");
}

void diff_losses_json(struct report *const r[2], struct json *j)
{
	json_bool(j, "complete", !diff_losses_any(r));
	json_open_array(j, "lost");
	losses_json_rows(&r[0]->lost, j, "before");
	losses_json_rows(&r[1]->lost, j, "after");
	losses_json_rows(&memlimit_lost, j, NULL);
	json_close_array(j);
}
