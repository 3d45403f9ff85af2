/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Streams and their events as text and JSON. */
#include <stdio.h>

#include "report/memory/memory.h"
#include "report/section.h"
#include "streams_priv.h"

#define LIST_MAX 1000

static bool is_default(const struct stream *x)
{
	return stream_is_default(x) || x->tid;
}

static bool is_used(const struct stream *x)
{
	return x->submitted || x->syncs || x->recorded || x->waited;
}

static const char *why(const struct streams *s)
{
	if (!s->default_work)
		return "Nothing was submitted to the legacy default stream.";
	if (!s->switches)
		return "No stream that waits for the legacy default stream was used with it, as far as stream flags were "
		       "recorded.";
	return "The legacy default stream and streams without CU_STREAM_NON_BLOCKING wait for one "
	       "another.";
}

static const char *stream_text(char buf[SECTION_BUF], const struct stream *x)
{
	if (x->tid)
		snprintf(buf, SECTION_BUF, "default of thread %u", x->tid);
	else if (stream_is_default(x))
		snprintf(buf, SECTION_BUF, "0x0 default, process %u", x->pid);
	else
		snprintf(buf, SECTION_BUF, "0x%llx%s, process %u", (unsigned long long)x->handle,
			 stream_is_blocking(x) ? " blocking" : "", x->pid);
	return buf;
}

#define SECTION_STATE struct streams
#define SECTION_ROWS  "report/gpu/streams.section"
#include "report/section_rows.h"

static void print_edges(const struct streams *s, const struct term *term)
{
	unsigned top = report_rows(term, s->r->opts.top);

	for (unsigned i = 0; i < s->edge_keys.cnt && i < top; i++) {
		term_para(term, "0x%llx waited for an event of 0x%llx: %s",
			  (unsigned long long)s->list[s->edges[i].to].handle,
			  (unsigned long long)s->list[s->edges[i].from].handle,
			  HUMAN_NOUNS(s->edges[i].cnt, "time"));
	}
}

void streams_print(const void *a, const struct term *term)
{
	const struct streams *s = a;
	unsigned used_cnt = 0;

	for (unsigned i = 0; i < s->cnt; i++)
		used_cnt += is_used(&s->list[i]);
	if (!used_cnt)
		return;
	term_section(term, "Streams",
		     "%s used, %s unused; %s of launches on the legacy default stream",
		     HUMAN_COUNT(used_cnt), HUMAN_COUNT(s->cnt - used_cnt),
		     s->launches ? HUMAN_SHARE(s->default_launches, s->launches) : "none");
	section_print(s->r, &streams_table, s, s, "list", 0, term);
	print_edges(s, term);
	if (s->switches)
		term_para(term, "%s", why(s));
}
