/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The report as one HTML file: page, report (the JSON of docs/REPORT.md) and the timeline's events,
 * without external resources. All strings of the target are text in it, never markup.
 */
#ifndef REPORT_PAGE_HTML_H
#define REPORT_PAGE_HTML_H

#include "model/event.h"
#include "util/out.h"

/* Above this many events the shortest are kept only as density. */
#define HTML_EVENTS_MAX 2000000

/* Events for the page: 24 bytes each, plus shared details. */
struct html_events;

/* base_ns: time of ts 0. Returns NULL if out of memory. */
struct html_events *html_events__new(uint64_t base_ns, size_t max);
/* The event's strings and stacks must live as long as h; equal text must have one address. */
void html_events__event(struct html_events *h, const struct trace_event *ev);
/* Writes one JSON object (names, lanes, details) and the events as docs/REPORT.md describes them.
 * Returns 0 or -errno. */
int html_events__write(struct html_events *h, struct out *meta, struct out *columns);
void html_events__free(struct html_events *h);

/* Writes the page. report is its JSON. Returns 0 or -errno; errors of o stay in o. */
int html__write(struct out *o, const char *report, size_t len, struct html_events *events);

#endif /* REPORT_PAGE_HTML_H */
