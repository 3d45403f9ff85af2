/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include <stdio.h>

#include "graphs_priv.h"

static const char *const how_name[] = {"unknown", "captured", "built", "cloned"};

static uint64_t node_sum(const struct nodes *n)
{
	return n->n[NODE_KERNEL] + n->n[NODE_MEMCPY] + n->n[NODE_MEMSET] + n->n[NODE_OTHER];
}

static void put_known(struct json *j, const char *name, bool unknown, uint64_t n)
{
	if (unknown)
		json_null(j, name);
	else
		json_u64(j, name, n);
}

static void put_exec(const struct graphs *g, struct json *j, const struct exec *x)
{
	bool unknown = x->nodes.unknown;

	json_open(j, NULL);
	json_hex(j, "exec", x->handle);
	if (x->graph)
		json_hex(j, "graph", x->graph);
	json_u64(j, "pid", x->pid);
	json_sym(j, "how", how_name[x->how]);
	put_known(j, "nodes", unknown, node_sum(&x->nodes));
	put_known(j, "kernels", unknown, x->nodes.n[NODE_KERNEL]);
	put_known(j, "memcpys", unknown, x->nodes.n[NODE_MEMCPY]);
	put_known(j, "memsets", unknown, x->nodes.n[NODE_MEMSET]);
	put_known(j, "others", unknown, x->nodes.n[NODE_OTHER]);
	json_u64(j, "launches", x->launches);
	json_u64(j, "launch_ns", x->launch_ns);
	json_u64(j, "instantiate_ns", x->instantiate_ns);
	json_u64(j, "updates", x->updates);
	report_json_ts(g->r, j, "first_ts", x->first_ns);
	json_bool(j, "destroyed", x->destroyed);
	json_close(j);
}

void graphs_json(const void *a, struct json *j)
{
	const struct graphs *g = a;

	json_open(j, "graphs");
	json_u64(j, "captures", g->captures);
	json_u64(j, "capture_failures", g->capture_failures);
	json_u64(j, "built", g->built);
	json_u64(j, "clones", g->clones);
	json_u64(j, "instantiations", g->instantiations);
	json_u64(j, "updates", g->updates);
	json_u64(j, "launches", g->launches);
	json_u64(j, "launch_ns", g->launch_ns);
	put_known(j, "kernels_run", g->kernels_unknown, g->kernels_run);
	json_open_array(j, "list");
	for (unsigned i = 0; i < g->list_cnt; i++)
		put_exec(g, j, &g->list[i]);
	json_close_array(j);
	json_close(j);
}

static void print_list(const struct graphs *g, const struct term *term)
{
	unsigned top = report_rows(term, g->r->opts.top);
	char name[TABLE_ROWS][64];
	struct table_row *row;
	struct table t;

	table__init(&t, "launches|time|mean|nodes|kernels|updates|graph");
	for (unsigned i = 0; i < g->list_cnt && i < top; i++) {
		const struct exec *x = &g->list[i];

		snprintf(name[i], sizeof(name[i]), "0x%llx %s", (unsigned long long)x->handle,
			 x->how ? how_name[x->how] : "not seen");
		row = table__row(&t, name[i]);
		if (!row)
			break;
		human_count(row->cell[0], x->launches);
		human_time(row->cell[1], x->launch_ns);
		human_time(row->cell[2], ratio_of(x->launch_ns, x->launches));
		if (!x->nodes.unknown) {
			human_count(row->cell[3], node_sum(&x->nodes));
			human_count(row->cell[4], x->nodes.n[NODE_KERNEL]);
		}
		if (x->updates)
			human_count(row->cell[5], x->updates);
	}
	table__print(&t, term);
}

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
	term_section(term, "CUDA graphs",
		     "%s captured, %s built; %s launch%s, %s of the host's time", captures, built,
		     launches, plural_es(g->launches), time);
	if (g->launches && !g->kernels_unknown) {
		human_count(run, g->kernels_run);
		term_para(term, "They ran %s kernel%s, which are in no other count.", run,
			  plural(g->kernels_run));
	} else if (g->launches) {
		term_para(term, "How many kernels they ran is not known: not all nodes were seen "
				"to be added, or some run on a condition.");
	}
	if (g->capture_failures) {
		human_count(run, g->capture_failures);
		term_para(term, "%s call%s to begin or end a capture failed.", run,
			  plural(g->capture_failures));
	}
	if (g->list_cnt)
		print_list(g, term);
}
