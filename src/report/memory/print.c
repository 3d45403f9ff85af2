/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "report/collect.h"
#include "memory_priv.h"
#include "report/callers.h"
#include "report/section.h"
#include "text/stack.h"

#include <stdarg.h>
#include <stdio.h>

static double ms(const struct memory *m, uint64_t ns)
{
	return report_since_begin(m->r, ns) / 1e6;
}

static const char *ms_text(char buf[SECTION_BUF], const struct memory *m, uint64_t ns)
{
	snprintf(buf, SECTION_BUF, "%.3f", ms(m, ns));
	return buf;
}

static const char *device_text(char buf[SECTION_BUF], const struct dev_row *d)
{
	if (d->device < 0)
		snprintf(buf, SECTION_BUF, "unknown, process %u", d->pid);
	else
		snprintf(buf, SECTION_BUF, "%d, process %u", d->device, d->pid);
	return buf;
}

static const char *leak_text(char buf[SECTION_BUF], const struct leak *l)
{
	snprintf(buf, SECTION_BUF, "%s 0x%llx, process %u", l->call, (unsigned long long)l->ptr,
		 l->pid);
	return buf;
}

static const char *bad_free_text(char buf[SECTION_BUF], const struct bad_free *b)
{
	snprintf(buf, SECTION_BUF, "%s: %s 0x%llx, process %u", bad_free_name[b->what], b->call,
		 (unsigned long long)b->ptr, b->pid);
	return buf;
}

static void put_kinds(const struct memory *m, struct json *j)
{
	json_open(j, "kinds");
	for (unsigned k = 0; k < BLOCK_KIND_CNT; k++) {
		if (!m->kinds[k].allocs)
			continue;
		json_open_array(j, block_desc[k].name);
		for (unsigned i = 0; i <= m->time.last; i++)
			json_u64(j, NULL, m->time.max[k][i]);
		json_close_array(j);
	}
	json_close(j);
}

#define SECTION_STATE struct memory
#define SECTION_ROWS  "report/memory/memory.section"
#include "report/section_rows.h"

static unsigned print_list(const struct memory *m, const char *list, const struct term *term)
{
	return section_print(m->r, &memory_table, m, m, list, m->r->opts.top, term);
}

static void print_peak(const struct memory *m, const struct term *term)
{
	char bytes[CELL_SZ], hole[CELL_SZ], span[CELL_SZ], largest[CELL_SZ], cnt[CELL_SZ];
	const struct fragmentation *f = &m->frag;

	if (m->device_peak) {
		human_bytes(bytes, m->device_peak);
		human_count(cnt, memory_rate(m) + 0.5);
		term_para(term, "Peak of GPU memory: %s at %.3f ms; %s allocation%s per second",
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
			"%s ranges of process %u in %s of addresses, with %s hole%s, the largest %s",
			cnt, f->pid, span, hole, plural(f->holes), largest);
	}
	if (m->failed_cnt) {
		human_count(cnt, m->failed_cnt);
		human_bytes(largest, m->failed_largest);
		term_para(term,
			  "%s allocation%s failed, first at %.3f ms; the largest requested %s", cnt,
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
	char cnt[CELL_SZ], bytes[CELL_SZ];

	for (unsigned i = 0; i < LEAK_END_CNT; i++) {
		if (!m->leak_ends[i].cnt)
			continue;
		human_count(cnt, m->leak_ends[i].cnt);
		human_bytes(bytes, m->leak_ends[i].bytes);
		term_para(term, "Never freed: %s allocation%s with %s, released when %s", cnt,
			  plural(m->leak_ends[i].cnt), bytes, how[i]);
	}
	if (m->too_late_cnt) {
		human_count(cnt, m->too_late_cnt);
		term_para(term, "%s allocation%s freed after the driver had shut down", cnt,
			  m->too_late_cnt == 1 ? " was" : "s were");
	}
	print_list(m, "leaks", term);
	print_leak_stacks(m, term);
}

static void print_bad_frees(const struct memory *m, const struct term *term)
{
	char cnt[CELL_SZ];

	if (m->bad_free_cnt) {
		human_count(cnt, m->bad_free_cnt);
		term_para(term, "Bad frees: CUDA refused %s", cnt);
		print_list(m, "bad_frees", term);
	}
	if (m->unmatched_free_cnt) {
		human_count(cnt, m->unmatched_free_cnt);
		term_para(term, "%s free%s of memory whose allocation is not in the trace", cnt,
			  plural(m->unmatched_free_cnt));
	}
	if (m->unseen_free_cnt) {
		human_count(cnt, m->unseen_free_cnt);
		term_para(term, "%s free%s missing in the trace: the memory was allocated again",
			  cnt, m->unseen_free_cnt == 1 ? " is" : "s are");
	}
	if (m->reset_unknown)
		term_para(
			term,
			"A context was released; whether that freed its memory is unknown, because the trace began after its "
			"process");
}

static void print_rejected(const struct memory *m, const struct term *term)
{
	char cnt[CELL_SZ];

	if (!m->rejected_cnt)
		return;
	human_count(cnt, m->rejected_cnt);
	term_para(
		term,
		"%s allocation%s ignored: more than %u were live at a time. No number includes them, and their frees "
		"have no allocation",
		cnt, m->rejected_cnt == 1 ? " was" : "s were", MEMLIMIT_ALLOCATIONS_MAX);
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
	section_print(m->r, &memory_table, m, m, "kinds", BLOCK_KIND_CNT, term);
	if (m->dev_row_cnt > 1) {
		putc('\n', term->f);
		print_list(m, "devices", term);
	}
	print_peak(m, term);
	print_leaks(m, term);
	print_bad_frees(m, term);
	print_rejected(m, term);
}
