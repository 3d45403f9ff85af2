/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "overhead.h"

#include "decode/cuda.h"
#include "table.h"
#include "util/demangle.h"

#include <stdio.h>
#include <stdlib.h>

void overhead_share(char *text, size_t size, const struct trace_end *end)
{
	char share[CELL_SZ], busiest[CELL_SZ];
	size_t len;

	human_share(share, end->cost_share, 1);
	human_share(busiest, end->max_thread_overhead, 1);
	len = snprintf(text, size, "%s of a thread's time", share);
	if (end->max_thread_overhead && len < size)
		snprintf(text + len, size - len, "; %s of the busiest second, of thread %u",
			 busiest, end->max_overhead_tid);
}

static void print_saving(struct table *t, const char *name, uint64_t ns,
			 const struct trace_end *end)
{
	struct table_row *r = table__row(t, name);

	if (!r)
		return;
	human_time(r->cell[0], ns);
	human_share(r->cell[1], ns, end->cost_ns);
}

void overhead_print(const struct term *term, const struct trace_end *end)
{
	bool low = end->detail_low_saving_ns &&
		   (!end->costly_cnt || end->detail_low_saving_ns > end->costly[0].ns);
	char *names[TRACE_COSTLY_MAX]; /* NULL: not mangled */
	struct table t;

	if (!end->costly_cnt && !low)
		return;
	table__init(&t, low ? "cost|share|saved by --detail=low, or by -e '!NAME'"
			    : "cost|share|saved by -e '!NAME'");
	if (low)
		print_saving(&t, "--detail=low", end->detail_low_saving_ns, end);
	for (unsigned i = 0; i < end->costly_cnt; i++) {
		names[i] = demangle(end->costly[i].fn->symbol, NULL);
		print_saving(&t, names[i] ? names[i] : end->costly[i].fn->symbol, end->costly[i].ns,
			     end);
	}
	table__print(&t, term);
	table__free(&t);
	for (unsigned i = 0; i < end->costly_cnt; i++)
		free(names[i]);
}
