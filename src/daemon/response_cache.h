/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The text of /metrics, made once for all who ask at a time. There are few of them at once, and
 * making them takes a bounded share of the processor, whoever asks how often. */
#ifndef DAEMON_RESPONSE_CACHE_H
#define DAEMON_RESPONSE_CACHE_H

#include <stdint.h>

struct event_base;
struct out;
struct response;
struct response_cache;

struct response_cache_ops {
	void (*make)(void *ctx, struct out *o);
	/* Whoever still reads this page is to put it back now: he has had RESPONSE_S at least. */
	void (*release)(void *ctx, const struct response *p);
	void *ctx;
};

/* Of all together: when a new one would make them more, who reads the oldest is cut off. */
#define RESPONSES_SZ (32u << 20)
/* Seconds. A page that is older is not given out, and one that nobody reads goes. */
#define RESPONSE_S 1

struct response_cache *response_cache__new(struct event_base *base,
					   const struct response_cache_ops *ops);
/* After all pages were put back. */
void response_cache__free(struct response_cache *ps);
/* What is true now, unless too many ask for too much: then as of RESPONSE_S ago at most. To be put
 * back. NULL: no memory. */
struct response *response_cache__get(struct response_cache *ps);
void response_cache__put(struct response_cache *ps, struct response *p);
const struct out *response_text(const struct response *p);

#endif /* DAEMON_RESPONSE_CACHE_H */
