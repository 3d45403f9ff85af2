/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include <stdio.h>
#include <string.h>

#include "kernels_priv.h"
#include "ncu.h"
#include "util/plain.h"

static void put_dim(struct json *j, const char *name, const uint32_t d[3])
{
	json_open_array(j, name);
	for (int i = 0; i < 3; i++)
		json_u64(j, NULL, d[i]);
	json_close_array(j);
}

static void put_config(const struct kernel *row, struct json *j)
{
	put_dim(j, "grid_min", row->grid_min);
	put_dim(j, "grid_max", row->grid_max);
	put_dim(j, "block", row->block);
	if (memcmp(row->block, row->block_min, sizeof(row->block)))
		put_dim(j, "block_min", row->block_min);
	json_u64(j, "shared_mem", row->shared_mem);
	if (row->cluster[0])
		put_dim(j, "cluster", row->cluster);
}

static void put_kernel(const struct kernels *k, const struct kernel *row, struct json *j)
{
	char ncu[NCU_SZ];

	json_open(j, NULL);
	json_str(j, "name", row->name);
	if (!row->name)
		json_hex(j, "function", row->func);
	json_u64(j, "count", row->cnt);
	json_u64(j, "nodes", row->node_cnt);
	json_u64(j, "total_ns", row->total_ns);
	json_u64(j, "mean_ns", ratio_of(row->total_ns, row->cnt) + 0.5);
	json_u64(j, "max_ns", row->max_ns);
	if (row->has_config)
		put_config(row, j);
	json_u64(j, "threads", row->threads);
	json_u64(j, "blocks", row->blocks);
	if (row->has_registers)
		json_u64(j, "registers", row->registers);
	if (row->has_occupancy)
		json_f64(j, "occupancy", row->occupancy);
	if (row->has_waves) {
		json_f64(j, "waves", row->waves);
		json_f64(j, "tail_share", row->tail_share);
	}
	json_u64(j, "streams", row->stream_cnt);
	json_u64(j, "errors", row->error_cnt);
	if (ncu_command(k->r->info, row->name, row->mangled, row->cnt, ncu))
		json_str(j, "ncu", ncu);
	json_close(j);
}

void kernels_json(const void *a, struct json *j)
{
	const struct kernels *k = a;
	unsigned cc = kernels_cc(k);
	char text[16];

	json_open(j, "kernels");
	json_u64(j, "launches", k->cnt);
	json_u64(j, "nodes", k->node_cnt);
	json_u64(j, "unnamed", k->unnamed_cnt);
	json_u64(j, "total_ns", k->total_ns);
	json_u64(j, "threads", k->threads);
	json_u64(j, "blocks", k->blocks);
	if (cc) {
		snprintf(text, sizeof(text), "%u.%u", cc / 10, cc % 10);
		json_sym(j, "compute_capability", text);
	}
	if (k->has_sms && !k->mixed_sms)
		json_u64(j, "multiprocessors", k->sm_cnt);
	json_open_array(j, "list");
	for (unsigned i = 0; k->sorted && i < k->keys.cnt; i++)
		put_kernel(k, k->sorted[i], j);
	json_close_array(j);
	json_close(j);
}

/* "80x1x1", as short as it says the same */
static void dim_cell(char cell[CELL_SZ], const uint32_t d[3])
{
	if (d[1] <= 1 && d[2] <= 1)
		snprintf(cell, CELL_SZ, "%u", d[0]);
	else if (d[2] <= 1)
		snprintf(cell, CELL_SZ, "%ux%u", d[0], d[1]);
	else
		snprintf(cell, CELL_SZ, "%ux%ux%u", d[0], d[1], d[2]);
}

/* The last numbers are there only when some kernel has them. */
static void print_list(const struct kernels *k, const struct term *term)
{
	unsigned top = report_rows(term, k->r->opts.top);
	bool any_nodes = k->node_cnt, any_occupancy = false, any_waves = false;
	char func[TABLE_ROWS][32], heads[128];
	struct table t;

	for (unsigned i = 0; k->sorted && i < k->keys.cnt && i < top; i++) {
		any_occupancy |= k->sorted[i]->has_occupancy;
		any_waves |= k->sorted[i]->has_waves;
	}
	snprintf(heads, sizeof(heads), "launches|time|mean|grid|block%s%s%s|kernel",
		 any_nodes ? "|nodes" : "", any_occupancy ? "|occup." : "",
		 any_waves ? "|waves|tail" : "");
	table__init(&t, heads);
	for (unsigned i = 0; k->sorted && i < k->keys.cnt && i < top; i++) {
		const struct kernel *x = k->sorted[i];
		struct table_row *row;

		snprintf(func[i], sizeof(func[i]), "(function 0x%llx)",
			 (unsigned long long)x->func);
		row = table__row(&t, x->name ? x->name : func[i]);
		if (!row)
			break;
		human_count(row->cell[0], x->cnt);
		human_time(row->cell[1], x->total_ns);
		human_time(row->cell[2], ratio_of(x->total_ns, x->cnt));
		if (x->has_config) {
			dim_cell(row->cell[3], x->grid_max);
			dim_cell(row->cell[4], x->block);
		}
		if (x->node_cnt)
			human_count(row->cell[5], x->node_cnt);
		if (x->has_occupancy)
			human_share(row->cell[5 + any_nodes], x->occupancy, 1);
		if (x->has_waves) {
			snprintf(row->cell[6 + any_nodes], CELL_SZ, "%.2f", x->waves);
			human_share(row->cell[7 + any_nodes], x->tail_share, 1);
		}
		row->red = x->error_cnt;
	}
	table__print(&t, term);
}

/* Bytes up to the end of the shell's word at s. */
static size_t word_len(const char *s)
{
	bool quoted = false;
	size_t i = 0;

	for (; s[i] && (quoted || s[i] != ' '); i++)
		quoted ^= s[i] == '\'';
	return i;
}

/* Lines to be copied: a shell takes them for one. */
static void print_command(const char *s, const struct term *term)
{
	int at = 0;

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
}

static void print_ncu(const struct kernels *k, const struct term *term)
{
	const struct kernel *x = k->sorted ? k->sorted[0] : NULL;
	char ncu[NCU_SZ];

	if (!x || !ncu_command(k->r->info, x->name, x->mangled, x->cnt, ncu))
		return;
	term_para(term, "To see caches, bank conflicts and stalls of the first kernel, run Nsight "
			"Compute:");
	print_command(ncu, term);
}

void kernels_print(const void *a, const struct term *term)
{
	const struct kernels *k = a;
	char kernels[CELL_SZ], cnt[CELL_SZ], total[CELL_SZ], nodes[CELL_SZ];

	if (!k->keys.cnt)
		return;
	human_count(kernels, k->keys.cnt);
	human_count(cnt, k->cnt);
	human_time(total, k->total_ns);
	human_count(nodes, k->node_cnt);
	if (k->node_cnt)
		term_section(
			term, "Kernels",
			"%s launch%s of %s kernel%s, %s of the host's time; %s node%s of graphs",
			cnt, plural_es(k->cnt), kernels, plural(k->keys.cnt), total, nodes,
			plural(k->node_cnt));
	else
		term_section(term, "Kernels", "%s launch%s of %s kernel%s, %s of the host's time",
			     cnt, plural_es(k->cnt), kernels, plural(k->keys.cnt), total);
	print_list(k, term);
	print_ncu(k, term);
}
