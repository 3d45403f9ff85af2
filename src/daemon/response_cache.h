/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The text of /metrics, made once for all simultaneous clients. Few texts exist at once, and making
 * them takes a limited share of the processor, however many requests arrive. */
#ifndef DAEMON_RESPONSE_CACHE_H
#define DAEMON_RESPONSE_CACHE_H

#include <stdbool.h>
#include <stdint.h>

struct event_base;
struct out;
struct response;
struct response_cache;

struct response_cache_ops {
	/* Requests a text: response_cache__add() follows. */
	void (*make)(void *ctx);
	/* Readers of this text must put it back now: they had RESPONSE_S at least. */
	void (*release)(void *ctx, const struct response *p);
	void *ctx;
	/* Making texts takes at most one part of the time, except for a burst. */
	unsigned part;
};

/* Limit of all texts together: when a new one would exceed it, readers of the oldest are
 * disconnected. */
#define RESPONSES_SZ (32u << 20)
/* Seconds. An older text is not sent again, and is freed once it has no readers. */
#define RESPONSE_S 1

struct response_cache *response_cache__new(struct event_base *base,
					   const struct response_cache_ops *ops);
/* To be called after all texts were put back. */
void response_cache__free(struct response_cache *ps);
/* Gets a text that was made after since_ns, to be put back. Under too many requests, it is at most
 * RESPONSE_S old. Returns false if one must be made first: call again after response_cache__add().
 */
bool response_cache__get(struct response_cache *ps, uint64_t since_ns, struct response **p);
/* Takes the requested text; NULL: out of memory. made_ns: when making it began; it took took_ns.
 * Returns false if there is no memory. */
bool response_cache__add(struct response_cache *ps, struct out *text, uint64_t made_ns,
			 uint64_t took_ns);
void response_cache__put(struct response_cache *ps, struct response *p);
const struct out *response_text(const struct response *p);

#endif /* DAEMON_RESPONSE_CACHE_H */
