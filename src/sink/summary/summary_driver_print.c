/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The summary's parts for --kernel and --sched, as text. */
#include "summary_priv.h"

#include <stdlib.h>
#include <string.h>

#include "text/table.h"
#include "util/order.h"

static void print_head(const struct driver_stat *d, const struct term *term, size_t cmd_cnt)
{
	static const char *const names[DRV_OP_CNT] = {NULL, "open", "mmap", "close", "poll"};
	char cell[CELL_SZ], rest[256] = "";
	size_t n = 0;

	for (unsigned i = DRV_OPEN; i < DRV_OP_CNT; i++) {
		if (!d->op_cnt[i])
			continue;
		human_count(cell, d->op_cnt[i]);
		n += (size_t)snprintf(rest + n, sizeof(rest) - n, "; %s %s%s", cell, names[i],
				      plural(d->op_cnt[i]));
	}
	if (d->unfinished_cnt) {
		snprintf(rest + n, sizeof(rest) - n, "; %s had not returned",
			 HUMAN_COUNT(d->unfinished_cnt));
	}
	term_section(term, "Into the NVIDIA driver", "%s of %s in %s%s",
		     HUMAN_NOUNS(d->op_cnt[DRV_IOCTL], "ioctl"), HUMAN_NOUNS(cmd_cnt, "kind"),
		     HUMAN_TIME(d->ioctl_ns), rest);
}

static int cmd_by_errors(const void *a, const void *b)
{
	const struct cmd_stat *x = *(const struct cmd_stat *const *)a;
	const struct cmd_stat *y = *(const struct cmd_stat *const *)b;

	return DESCENDING(x->error_cnt, y->error_cnt) ?: strcmp(x->name, y->name);
}

static void print_failed(struct summary_view *v, const struct term *term)
{
	uint64_t failed_cnt = v->sum->driver.op_errors[DRV_IOCTL];

	if (!failed_cnt || !v->cmd_cnt)
		return;
	term_section(term, "Failed ioctls", "%s: a status other than NV_OK, or ioctl() failed",
		     HUMAN_COUNT(failed_cnt));
	qsort(v->cmds, v->cmd_cnt, sizeof(*v->cmds), cmd_by_errors);
	summary_print_table(v, &summary_driver_table, "failed", summary_top(term), term);
}

static void print_ops(const struct term *term, const char *title, const struct op_stat *ops,
		      unsigned kinds)
{
	char text[512] = "", cell[CELL_SZ], bytes[CELL_SZ];
	size_t n = 0;

	for (unsigned i = 0; i < kinds && n < sizeof(text); i++) {
		human_count(cell, ops[i].cnt);
		human_bytes(bytes, ops[i].bytes);
		n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%s %s%s%s", n ? ", " : "",
				      cell, ops[i].op, ops[i].bytes ? " of " : "",
				      ops[i].bytes ? bytes : "");
	}
	if (kinds)
		term_section(term, title, "%s", text);
}

static void print_objects(const struct term *term, const struct trace_end *end)
{
	if (!end->object_unknown_cnt && !end->object_refused_cnt)
		return;
	putc('\n', term->f);
	if (end->object_unknown_cnt)
		fprintf(term->f, "  %s on objects whose allocation was not recorded: no class\n",
			HUMAN_NOUNS(end->object_unknown_cnt, "ioctl"));
	if (end->object_refused_cnt)
		fprintf(term->f, "  %s not stored: the table of handles was full\n",
			HUMAN_NOUNS(end->object_refused_cnt, "object"));
}

void summary_print_driver(struct summary_view *v, const struct term *term)
{
	const struct driver_stat *d = &v->sum->driver;
	const struct section_table *of = &summary_driver_table;
	uint64_t wall_ns = summary_wall_ns(v);

	if (v->info->kernel_probe || d->op_cnt[DRV_IOCTL]) {
		print_head(d, term, v->cmd_cnt);
		summary_print_table(v, of, "commands", summary_top(term), term);
		v->driver_max = summary_top(term);
		summary_print_after_line(v, of, "functions", term);
		summary_print_after_line(v, of, "slowest", term);
		print_objects(term, v->end);
		print_failed(v, term);
	}
	print_ops(term, "GPU scheduler", d->sched, d->sched_kinds);
	print_ops(term, "Managed memory", d->uvm, d->uvm_kinds);
	if (!d->irq_cnt)
		return;
	term_section(term, "GPU interrupts", "%s (%s/s)", HUMAN_COUNT(d->irq_cnt),
		     HUMAN_COUNT(wall_ns ? (uint64_t)(d->irq_cnt * 1e9 / wall_ns + 0.5) : 0));
}
