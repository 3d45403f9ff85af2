/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The text of /metrics, made once for all who ask at a time. There are few of them at once, and
 * making them takes a bounded share of the processor, whoever asks how often. */
#ifndef DAEMON_PAGES_H
#define DAEMON_PAGES_H

#include <stdint.h>

struct event_base;
struct out;
struct page;
struct pages;

struct pages_ops {
	void (*make)(void *ctx, struct out *o);
	/* Whoever still reads this page is to put it back now: he has had PAGE_S at least. */
	void (*let_go)(void *ctx, const struct page *p);
	void *ctx;
};

/* Of all together: when a new one would make them more, who reads the oldest is cut off. */
#define PAGES_SZ (32u << 20)
/* Seconds. A page that is older is not given out, and one that nobody reads goes. */
#define PAGE_S 1

struct pages *pages__new(struct event_base *base, const struct pages_ops *ops);
/* After all pages were put back. */
void pages__free(struct pages *ps);
/* What is true now, unless too many ask for too much: then as of PAGE_S ago at most. To be put
 * back. NULL: no memory. */
struct page *pages__get(struct pages *ps);
void pages__put(struct pages *ps, struct page *p);
const struct out *page_text(const struct page *p);

#endif /* DAEMON_PAGES_H */
