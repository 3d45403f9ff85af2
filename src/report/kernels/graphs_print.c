/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* CUDA graphs as text and JSON. */
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

	if (!g->captures && !g->built && !g->list_cnt && !g->capture_failures)
		return;
	term_section(term, "CUDA graphs", "%s captured, %s built; %s launch%s, %s of host time",
		     HUMAN_COUNT(g->captures), HUMAN_COUNT(g->built), HUMAN_COUNT(g->launches),
		     plural_es(g->launches), HUMAN_CALL_TIME(g->r, g->launch_ns));
	if (g->launches && !g->kernels_unknown) {
		term_para(term, "They ran %s, which no other number includes.",
			  HUMAN_NOUNS(g->kernels_run, "kernel"));
	} else if (g->launches) {
		term_para(
			term,
			"The number of kernels that they ran is unknown: some nodes were not recorded, or run conditionally.");
	}
	if (g->capture_failures) {
		term_para(term, "%s to begin or end a capture failed.",
			  HUMAN_NOUNS(g->capture_failures, "call"));
	}
	if (g->joined.refused_cnt) {
		term_para(term,
			  "%s of nodes cannot be joined with captured calls: the kernels differ.",
			  HUMAN_NOUNS(g->joined.refused_cnt, "execution"));
	}
	section_print(g->r, &graphs_table, g, g, "list", 0, term);
}
