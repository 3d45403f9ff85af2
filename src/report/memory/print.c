/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Memory as text and JSON. */
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

#define SECTION_STATE struct memory
#define SECTION_ROWS  "report/memory/memory.section"
#include "report/section_rows.h"

static unsigned print_list(const struct memory *m, const char *list, const struct term *term)
{
	return section_print(m->r, &memory_table, m, m, list, m->r->opts.top, term);
}

static void print_peak(const struct memory *m, const struct term *term)
{
	const struct fragmentation *f = &m->frag;

	if (m->device_peak) {
		term_para(term, "Peak of GPU memory: %s at %.3f ms; %s allocation%s per second",
			  HUMAN_BYTES(m->device_peak), ms(m, m->device_peak_ns),
			  HUMAN_COUNT(memory_rate(m) + 0.5),
			  plural((uint64_t)(memory_rate(m) + 0.5)));
	}
	if (f->holes) {
		term_para(term,
			  "%s ranges of process %u in %s of addresses, with %s, the largest %s",
			  HUMAN_COUNT(f->ranges), f->pid, HUMAN_BYTES(f->span),
			  HUMAN_NOUNS(f->holes, "hole"), HUMAN_BYTES(f->largest_hole));
	}
	if (m->failed_cnt) {
		term_para(term,
			  "%s allocation%s failed, first at %.3f ms; the largest requested %s",
			  HUMAN_COUNT(m->failed_cnt), plural(m->failed_cnt),
			  ms(m, m->failed_first_ns), HUMAN_BYTES(m->failed_largest));
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

	for (unsigned i = 0; i < LEAK_END_CNT; i++) {
		if (!m->leak_ends[i].cnt)
			continue;
		term_para(term, "Never freed: %s with %s, released when %s",
			  HUMAN_NOUNS(m->leak_ends[i].cnt, "allocation"),
			  HUMAN_BYTES(m->leak_ends[i].bytes), how[i]);
	}
	if (m->too_late_cnt) {
		term_para(term, "%s allocation%s freed after the driver had shut down",
			  HUMAN_COUNT(m->too_late_cnt), m->too_late_cnt == 1 ? " was" : "s were");
	}
	print_list(m, "leaks", term);
	print_leak_stacks(m, term);
}

static void print_bad_frees(const struct memory *m, const struct term *term)
{
	if (m->bad_free_cnt) {
		term_para(term, "Bad frees: CUDA refused %s", HUMAN_COUNT(m->bad_free_cnt));
		print_list(m, "bad_frees", term);
	}
	if (m->unmatched_free_cnt) {
		term_para(term, "%s of memory whose allocation is not in the trace",
			  HUMAN_NOUNS(m->unmatched_free_cnt, "free"));
	}
	if (m->unseen_free_cnt) {
		term_para(term, "%s free%s missing in the trace: the memory was allocated again",
			  HUMAN_COUNT(m->unseen_free_cnt),
			  m->unseen_free_cnt == 1 ? " is" : "s are");
	}
	if (m->reset_unknown)
		term_para(
			term,
			"A context was released; whether that freed its memory is unknown, because the trace began after its "
			"process");
}

static void print_rejected(const struct memory *m, const struct term *term)
{
	if (!m->rejected_cnt)
		return;
	term_para(
		term,
		"%s allocation%s ignored: more than %u were live at a time. No number includes them, and their frees "
		"have no allocation",
		HUMAN_COUNT(m->rejected_cnt), m->rejected_cnt == 1 ? " was" : "s were",
		MEMLIMIT_ALLOCATIONS_MAX);
}

void memory__print(const void *a, const struct term *term)
{
	const struct memory *m = a;
	bool any = m->bad_free_cnt || m->failed_cnt;

	for (unsigned i = 0; i < BLOCK_KIND_CNT; i++)
		any |= m->kinds[i].allocs || m->kinds[i].frees;
	if (!any)
		return;
	term_heading(term, "Memory");
	section_print(m->r, &memory_table, m, m, "kinds", BLOCK_KIND_CNT, term);
	if (m->dev_row_cnt > 1) {
		term_gap(term);
		print_list(m, "devices", term);
	}
	print_peak(m, term);
	print_leaks(m, term);
	print_bad_frees(m, term);
	print_rejected(m, term);
}
