// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <stdio.h>

#include "findings_priv.h"

static void put(const struct findings *f, struct json *j, const struct finding *x)
{
	json_open(j, NULL);
	json_sym(j, "id", x->rule->id);
	json_sym(j, "title", x->rule->title);
	json_str(j, "text", x->text);
	json_sym(j, "advice", x->advice);
	json_u64(j, "lost_ns", x->lost_ns);
	json_f64(j, "share", ratio_of(x->lost_ns, report_wall_ns(f->r)));
	json_f64(j, "sure", x->sure);
	json_sym(j, "how_sure", x->how_sure);
	json_open_array(j, "evidence");
	for (unsigned i = 0; i < x->evidence_cnt; i++) {
		json_open(j, NULL);
		json_sym(j, "what", x->evidence[i].what);
		json_str(j, "value", x->evidence[i].value);
		json_f64(j, "number", x->evidence[i].number);
		json_close(j);
	}
	json_close_array(j);
	if (x->at_ns)
		report_json_ts(f->r, j, "ts", x->at_ns);
	json_close(j);
}

void findings_json(const void *a, struct json *j)
{
	const struct findings *f = a;

	json_open_array(j, "findings");
	for (unsigned i = 0; i < f->list_cnt; i++)
		put(f, j, &f->list[i]);
	json_close_array(j);
}

void findings_print(const void *a, const struct term *term)
{
	const struct findings *f = a;
	char lost[CELL_SZ], share[CELL_SZ];

	if (!f->list_cnt)
		return;
	term_section(term, "Findings", "what costs most time first; losses may overlap");
	for (unsigned i = 0; i < f->list_cnt; i++) {
		const struct finding *x = &f->list[i];

		human_time(lost, x->lost_ns);
		human_share(share, x->lost_ns, report_wall_ns(f->r));
		if (x->lost_ns)
			term_para(term, "%u. %s: about %s, %s of the trace", i + 1, x->rule->title,
				  lost, share);
		else
			term_para(term, "%u. %s", i + 1, x->rule->title);
		term_para(term, "%s %s Sure: %.0f %%. %s", x->text, x->advice, 100 * x->sure,
			  x->how_sure);
	}
}
