/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The report as one HTML file: page, report (the JSON of docs/REPORT.md) and the events for the
 * timeline, nothing fetched from anywhere. Everything of the target is text in it, never markup.
 */
#ifndef REPORT_PAGE_HTML_H
#define REPORT_PAGE_HTML_H

#include "model/event.h"
#include "util/out.h"

/* Above this many events the shortest are kept as density only. */
#define HTML_EVENTS_MAX 2000000

/* Events as the page needs them: 24 bytes each, plus what distinct ones have in common. */
struct html_events;

/* base_ns: of ts 0. NULL when there is no memory. */
struct html_events *html_events__new(uint64_t base_ns, size_t max);
/* Strings and stacks of the event must live as long as h, with the same address for the same text.
 */
void html_events__event(struct html_events *h, const struct trace_event *ev);
/* Writes one JSON object (names, lanes, details) and the events as docs/REPORT.md describes them.
 * 0 or -errno. */
int html_events__write(struct html_events *h, struct out *meta, struct out *columns);
void html_events__free(struct html_events *h);

/* The whole page. report is its JSON. 0 or -errno; errors of o are o's. */
int html__write(struct out *o, const char *report, size_t len, struct html_events *events);

#endif /* REPORT_PAGE_HTML_H */
