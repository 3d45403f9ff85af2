/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "report/callers.h"
#include "report/collect.h"
#include "memory_priv.h"

#include <stdarg.h>
#include <stdio.h>

static void print_kinds(const struct memory *m, const struct term *term)
{
	struct table t;

	table__init(&t, "allocs|frees|allocated|peak|at end|time|kind");
	for (unsigned i = 0; i < BLOCK_KIND_CNT; i++) {
		const struct kind_stat *k = &m->kinds[i];
		struct table_row *r;

		if (!k->allocs && !k->frees)
			continue;
		r = table__row(&t, block_desc[i].name);
		human_count(r->cell[0], k->allocs);
		human_count(r->cell[1], k->frees);
		human_bytes(r->cell[2], k->alloc_bytes);
		human_bytes(r->cell[3], k->peak);
		human_bytes(r->cell[4], k->live + k->kept);
		human_time(r->cell[5], k->alloc_ns + k->free_ns);
	}
	table__print(&t, term);
}

static void print_devices(const struct memory *m, const struct term *term)
{
	char names[TABLE_ROWS][64];
	struct table t;

	if (m->dev_row_cnt < 2)
		return;
	putc('\n', term->f);
	table__init(&t, "peak|at end|device");
	for (unsigned i = 0; i < m->dev_row_cnt && i < m->r->opts.top && i < TABLE_ROWS; i++) {
		const struct dev_row *d = m->dev_rows[i];
		struct table_row *r = table__row(&t, names[i]);

		if (d->device < 0)
			snprintf(names[i], sizeof(names[i]), "unknown, process %u", d->pid);
		else
			snprintf(names[i], sizeof(names[i]), "%d, process %u", d->device, d->pid);
		human_bytes(r->cell[0], d->peak);
		human_bytes(r->cell[1], d->live + d->kept);
	}
	table__print(&t, term);
}

static double ms(const struct memory *m, uint64_t ns)
{
	return ((double)ns - (double)m->r->base_ns) / 1e6;
}

static void print_peak(const struct memory *m, const struct term *term)
{
	char bytes[CELL_SZ], hole[CELL_SZ], span[CELL_SZ], largest[CELL_SZ], cnt[CELL_SZ];
	const struct fragmentation *f = &m->frag;

	if (m->device_peak) {
		human_bytes(bytes, m->device_peak);
		human_count(cnt, memory_rate(m) + 0.5);
		term_para(term, "Most GPU memory at once: %s at %.3f ms; %s allocation%s a second",
			  bytes, ms(m, m->device_peak_ns), cnt,
			  plural((uint64_t)(memory_rate(m) + 0.5)));
	}
	if (f->holes) {
		human_count(cnt, f->ranges);
		human_bytes(span, f->span);
		human_bytes(largest, f->largest_hole);
		human_count(hole, f->holes);
		term_para(
			term,
			"%s ranges of process %u lay in %s of addresses with %s hole%s, the largest %s",
			cnt, f->pid, span, hole, plural(f->holes), largest);
	}
	if (m->failed_cnt) {
		human_count(cnt, m->failed_cnt);
		human_bytes(largest, m->failed_largest);
		term_para(term,
			  "%s allocation%s failed, first at %.3f ms; the largest asked for %s", cnt,
			  plural(m->failed_cnt), ms(m, m->failed_first_ns), largest);
	}
}

static void print_leak_stacks(const struct memory *m, const struct term *term)
{
	char line[512];

	for (unsigned i = 0; i < m->leak_list_cnt && i < m->r->opts.top && i < TABLE_ROWS; i++) {
		const struct leak *l = &m->leaks[i];

		if (!l->stack)
			continue;
		stack_line(l->stack, line, sizeof(line));
		term_para(term, "id %llu was allocated by %s", (unsigned long long)l->id, line);
	}
}

static void print_leaks(const struct memory *m, const struct term *term)
{
	static const char *const how[LEAK_END_CNT] = {
		[LEAK_EXIT] = "their process ended",
		[LEAK_EXEC] = "their program was replaced",
		[LEAK_CONTEXT] = "their context was destroyed",
	};
	char names[TABLE_ROWS][96], cnt[CELL_SZ], bytes[CELL_SZ];
	struct table t;

	for (unsigned i = 0; i < LEAK_END_CNT; i++) {
		if (!m->leak_ends[i].cnt)
			continue;
		human_count(cnt, m->leak_ends[i].cnt);
		human_bytes(bytes, m->leak_ends[i].bytes);
		term_para(term, "Never freed: %s allocation%s with %s, gone when %s", cnt,
			  plural(m->leak_ends[i].cnt), bytes, how[i]);
	}
	if (m->too_late_cnt) {
		human_count(cnt, m->too_late_cnt);
		term_para(term, "%s allocation%s freed when the driver had shut down already", cnt,
			  m->too_late_cnt == 1 ? " was" : "s were");
	}
	if (!m->leak_list_cnt)
		return;
	table__init(&t, "bytes|at ms|id|never freed");
	for (unsigned i = 0; i < m->leak_list_cnt && i < m->r->opts.top && i < TABLE_ROWS; i++) {
		const struct leak *l = &m->leaks[i];
		struct table_row *r = table__row(&t, names[i]);

		snprintf(names[i], sizeof(names[i]), "%s 0x%llx, process %u", l->call,
			 (unsigned long long)l->ptr, l->pid);
		if (l->size_known)
			human_bytes(r->cell[0], l->size);
		snprintf(r->cell[1], CELL_SZ, "%.3f", ms(m, l->start_ns));
		human_count(r->cell[2], l->id);
	}
	table__print(&t, term);
	print_leak_stacks(m, term);
}

static void print_bad_frees(const struct memory *m, const struct term *term)
{
	char names[TABLE_ROWS][160], cnt[CELL_SZ];
	struct table t;

	if (m->bad_free_cnt) {
		human_count(cnt, m->bad_free_cnt);
		term_para(term, "Bad frees: %s that CUDA refused", cnt);
		table__init(&t, "at ms|id|confidence|bad free");
		for (unsigned i = 0;
		     i < m->bad_free_list_cnt && i < m->r->opts.top && i < TABLE_ROWS; i++) {
			const struct bad_free *b = &m->bad_frees[i];
			struct table_row *r = table__row(&t, names[i]);

			snprintf(names[i], sizeof(names[i]), "%s: %s 0x%llx, process %u",
				 bad_free_name[b->what], b->call, (unsigned long long)b->ptr,
				 b->pid);
			snprintf(r->cell[0], CELL_SZ, "%.3f", ms(m, b->start_ns));
			human_count(r->cell[1], b->id);
			human_share(r->cell[2], b->confidence, 1);
			r->red = true;
		}
		table__print(&t, term);
	}
	if (m->unmatched_free_cnt) {
		human_count(cnt, m->unmatched_free_cnt);
		term_para(term, "%s free%s of memory whose allocation is not in the trace", cnt,
			  plural(m->unmatched_free_cnt));
	}
	if (m->unseen_free_cnt) {
		human_count(cnt, m->unseen_free_cnt);
		term_para(term, "%s free%s not in the trace: others lie where the memory was", cnt,
			  m->unseen_free_cnt == 1 ? " is" : "s are");
	}
	if (m->reset_unknown)
		term_para(term,
			  "A context was released, and it is not known whether that freed its "
			  "memory: the trace began later than its process");
}

static void print_rejected(const struct memory *m, const struct term *term)
{
	char cnt[CELL_SZ];

	if (!m->rejected_cnt)
		return;
	human_count(cnt, m->rejected_cnt);
	term_para(term,
		  "%s allocation%s not looked at: beyond the first %u that lived at a time. They "
		  "are in no number here, and their frees have no allocation",
		  cnt, m->rejected_cnt == 1 ? " was" : "s were", BLOCKS_MAX);
}

void memory__print(const void *a, const struct term *term)
{
	const struct memory *m = a;
	bool any = m->bad_free_cnt || m->failed_cnt;

	for (unsigned i = 0; i < BLOCK_KIND_CNT; i++)
		any |= m->kinds[i].allocs || m->kinds[i].frees;
	if (!any)
		return;
	putc('\n', term->f);
	term_bold(term, "Memory\n");
	print_kinds(m, term);
	print_devices(m, term);
	print_peak(m, term);
	print_leaks(m, term);
	print_bad_frees(m, term);
	print_rejected(m, term);
}
