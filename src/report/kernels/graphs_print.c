/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include <stdio.h>

#include "graphs_priv.h"
#include "report/section.h"

static const char *const how_name[] = {"unknown", "captured", "built", "cloned"};

static uint64_t node_sum(const struct nodes *n)
{
	return n->n[NODE_KERNEL] + n->n[NODE_MEMCPY] + n->n[NODE_MEMSET] + n->n[NODE_OTHER];
}

static const char *exec_text(char buf[SECTION_BUF], const struct exec *x)
{
	snprintf(buf, SECTION_BUF, "0x%llx %s", (unsigned long long)x->handle,
		 x->how ? how_name[x->how] : "not recorded");
	return buf;
}

#define SECTION_STATE struct graphs
#define SECTION_ROWS  "report/kernels/graphs.section"
#include "report/section_rows.h"

void graphs_print(const void *a, const struct term *term)
{
	const struct graphs *g = a;
	char launches[CELL_SZ], captures[CELL_SZ], built[CELL_SZ], time[CELL_SZ], run[CELL_SZ];

	if (!g->captures && !g->built && !g->list_cnt && !g->capture_failures)
		return;
	human_count(launches, g->launches);
	human_count(captures, g->captures);
	human_count(built, g->built);
	human_time(time, g->launch_ns);
	term_section(term, "CUDA graphs", "%s captured, %s built; %s launch%s, %s of host time",
		     captures, built, launches, plural_es(g->launches), time);
	if (g->launches && !g->kernels_unknown) {
		human_count(run, g->kernels_run);
		term_para(term, "They ran %s kernel%s, which no other number includes.", run,
			  plural(g->kernels_run));
	} else if (g->launches) {
		term_para(
			term,
			"The number of kernels that they ran is unknown: some nodes were not recorded, or run conditionally.");
	}
	if (g->capture_failures) {
		human_count(run, g->capture_failures);
		term_para(term, "%s call%s to begin or end a capture failed.", run,
			  plural(g->capture_failures));
	}
	section_print(g->r, &graphs_table, g, g, "list", 0, term);
}
