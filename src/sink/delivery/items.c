/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "items.h"

#include <stdlib.h>
#include <string.h>

#include "model/params.h"
#include "util/out.h"
#include "util/words.h"

/* Most of a call's event is empty, and a batch is read from another processor's cache. So only
 * parts with content are copied from BASE_SZ on. The last part overlaps the one before. */
#define BASE_SZ	 offsetof(struct trace_event, size)
#define REST_OFF offsetof(struct trace_event, coll)
#define CALL_SZ	 offsetof(struct trace_event, caps)
#define SOME_SZ	 (REST_OFF - BASE_SZ)
#define PART_SZ	 96
#define PART_CNT (1 + (CALL_SZ - REST_OFF + PART_SZ - 1) / PART_SZ)

/* Followed by a line; or by an event, up to the end of a call's members, and copies of what it
 * points to. */
struct item {
	uint32_t size : 24; /* includes what follows */
	uint32_t parts : 8; /* copied parts: a bit for each */
	uint32_t is_line : 1;
	uint32_t n : 31; /* length of a line; for an event: position in buf of its copies; 0: none
			  */
};
/* The first part, which contains pointers too. */
#define SOME_BIT 1u
_Static_assert(ITEMS_SZ < 1 << 24 && PART_CNT <= 8, "bits of struct item");
_Static_assert(offsetof(struct trace_event, gpu_times) < BASE_SZ, "the base has the pointers");
_Static_assert(CALL_SZ >= REST_OFF + PART_SZ, "parts of an event");

static inline size_t part_off(unsigned i)
{
	return !i ? BASE_SZ : i + 1 < PART_CNT ? REST_OFF + (i - 1) * PART_SZ : CALL_SZ - PART_SZ;
}

static inline size_t part_sz(unsigned i)
{
	return i ? PART_SZ : SOME_SZ;
}

/* The event that was unpacked last. */
struct unpacked_event {
	struct trace_event ev;
	unsigned parts; /* with content */
};

/* Data that they point to is not copied. */
static void unpack(struct unpacked_event *u, const struct item *it)
{
	const char *p = (const char *)(it + 1) + BASE_SZ;
	struct trace_event *ev = &u->ev;
	/* Parts of the event before. */
	unsigned old = u->parts & ~it->parts;

	words_copy(ev, it + 1, BASE_SZ);
	for (unsigned i = 0; old >> i; i++)
		if (old >> i & 1)
			memset((char *)ev + part_off(i), 0, part_sz(i));
	for (unsigned i = 0; it->parts >> i; i++) {
		if (!(it->parts >> i & 1))
			continue;
		memcpy((char *)ev + part_off(i), p, part_sz(i));
		p += part_sz(i);
	}
	u->parts = it->parts;
	for (unsigned i = 0; i < ev->cap_cnt; i++, p += sizeof(*ev->caps))
		memcpy(&ev->caps[i], p, sizeof(*ev->caps));
}

#define AHEAD_SZ 2048

/* Another processor used these cache lines last, and until they arrive no later write of this
 * processor completes. So they are prefetched, some events ahead. (On x86 gcc's prefetch for
 * writing is one for reading.) */
static inline void fetch_for_writing(const char *p, size_t size)
{
	for (const char *end = p + size; p < end; p += CACHE_LINE_SZ)
#ifdef __x86_64__
		__asm__ volatile("prefetchw %0" : : "m"(*p));
#else
		__builtin_prefetch(p, 1);
#endif
}

/* Appends an item followed by extra bytes; again is added to the repeated bytes. NULL: no space. */
static inline struct item *new_item(struct items *is, size_t extra, size_t again)
{
	size_t size = (sizeof(struct item) + extra + 7) & ~(size_t)7;
	struct item *it = (struct item *)(is->buf + is->len);

	if (size + again > is->room - is->len - is->again)
		return NULL;
	fetch_for_writing((const char *)it + AHEAD_SZ, size);
	it->size = size;
	is->len += size;
	is->again += again;
	is->cnt++;
	return it;
}

static struct item_name *name_of(struct item_names *names, uint64_t key)
{
	return &names->of[key * 0x9e3779b97f4a7c15 >> (64 - ITEM_NAMES_LOG)];
}

/* A string that an event points to. */
struct text {
	const char *s;
	const char *copy; /* copy in this batch; NULL: not yet */
	size_t size;	  /* its size there */
	size_t again;	  /* its size if it were copied again */
	uint64_t key;
};

static inline struct text look_up(struct item_names *names, const char *s, uint64_t id)
{
	uint64_t key = id ? id : (uintptr_t)s;
	const struct item_name *n = name_of(names, key);

	if (!s)
		return (struct text){0};
	if (n->key == key && (id || !strcmp(n->copy, s)))
		return (struct text){s, n->copy, 0, n->len, key};
	return (struct text){s, NULL, strlen(s) + 1, 0, key};
}

/* Pointers never have this bit. A copy that is found has all THREAD_COMM_SZ bytes. */
#define COMM_KEY (1ull << 63)

static inline struct text look_up_comm(struct item_names *names, const struct trace_event *ev)
{
	uint64_t key = (uintptr_t)ev->comm | COMM_KEY;
	const struct item_name *n = name_of(names, key);

	if (!ev->has_comm16)
		return look_up(names, ev->comm, 0);
	if (n->key == key && !memcmp(n->copy, ev->comm, THREAD_COMM_SZ))
		return (struct text){ev->comm, n->copy, 0, n->len, key};
	return (struct text){ev->comm, NULL, THREAD_COMM_SZ + 1, 0, key};
}

static inline const char *put_name(struct item_names *names, const struct text *t, char **p)
{
	char *at = *p;

	if (!t->size)
		return t->copy;
	memcpy(at, t->s, t->size);
	*name_of(names, t->key) = (struct item_name){t->key, at, t->size};
	*p += t->size;
	return at;
}

/* Returns which parts have content; adds their size to *size. */
static inline unsigned parts_of(const struct trace_event *ev, size_t *size)
{
	const char *p = (const char *)ev;
	unsigned parts = words_empty(p + BASE_SZ, SOME_SZ) ? 0 : SOME_BIT;

	*size += parts ? SOME_SZ : 0;
	if (ev->plain || words_empty(p + REST_OFF, CALL_SZ - REST_OFF))
		return parts;
	for (unsigned i = 1; i < PART_CNT; i++) {
		if (words_empty(p + part_off(i), PART_SZ))
			continue;
		parts |= 1u << i;
		*size += PART_SZ;
	}
	return parts;
}

/* Copies base, parts, caps. Returns the end. */
static inline char *pack(struct item *it, const struct trace_event *ev, unsigned parts)
{
	char *p = (char *)(it + 1);

	words_copy(p, ev, BASE_SZ);
	p += BASE_SZ;
	it->parts = parts;
	for (unsigned i = 0; parts >> i; i++) {
		if (!(parts >> i & 1))
			continue;
		memcpy(p, (const char *)ev + part_off(i), part_sz(i));
		p += part_sz(i);
	}
	for (unsigned i = 0; i < ev->cap_cnt; i++, p += sizeof(*ev->caps))
		memcpy(p, &ev->caps[i], sizeof(*ev->caps));
	return p;
}

/* Data that the first part points to and that is in the batch already. */
struct reused {
	size_t stack;
	struct text range, operator;
};

/* Returns the bytes to copy, and adds the repeated ones to *again. */
static size_t look_behind(struct reused *b, struct item_names *names, const struct trace_event *ev,
			  size_t *again)
{
	b->stack = ev->stack ? sizeof(*ev->stack) : 0;
	b->range = look_up(names, ev->range_text, 0);
	b->operator= look_up(names, ev->operator, 0);
	*again += b->range.again + b->operator.again;
	return b->stack + b->range.size + b->operator.size;
}

static void put_behind(struct item *it, const struct reused *b, struct item_names *names,
		       const struct trace_event *ev, char **p)
{
	/* The first part follows the base, as in an event. */
	struct trace_event *to = (struct trace_event *)(it + 1);

	to->stack = b->stack ? memcpy(*p, ev->stack, b->stack) : NULL;
	*p += b->stack;
	to->range_text = put_name(names, &b->range, p);
	to->operator= put_name(names, &b->operator, p);
}

static inline size_t pointees_sz(const struct trace_event *ev)
{
	size_t size = 0;

	for (unsigned i = 0; i < ev->cap_cnt; i++)
		size += ev->caps[i].len > 0 ? (ev->caps[i].len + 7) & ~7 : 0;
	return size;
}

static inline char *put_pointees(struct pointee *caps, const struct trace_event *ev, char *p)
{
	for (unsigned i = 0; i < ev->cap_cnt; i++) {
		if (ev->caps[i].len <= 0)
			continue;
		caps[i].data = memcpy(p, ev->caps[i].data, ev->caps[i].len);
		p += (ev->caps[i].len + 7) & ~7;
	}
	return p;
}

static inline size_t params_sz(const struct trace_event *ev)
{
	return ev->launch.params ? (launch_params_sz(ev->launch.params) + 7) & ~7ul : 0;
}

bool items__put_call(struct items *is, struct item_names *names, const struct trace_event *ev,
		     const char *more, struct pending_calls *pending)
{
	struct text comm = look_up_comm(names, ev),
		    kernel = look_up(names, ev->launch.kernel, ev->kernel_id),
		    mangled = look_up(names, ev->launch.kernel_mangled, ev->kernel_mangled_id),
		    follows = look_up(names, more, 0);
	size_t words = ev->word_cnt * sizeof(*ev->words),
	       size = BASE_SZ + ev->cap_cnt * sizeof(*ev->caps) + words + comm.size + kernel.size +
		      mangled.size + follows.size + (pending ? sizeof(struct pending_call) : 0) +
		      pointees_sz(ev) + params_sz(ev),
	       again = comm.again + kernel.again + mangled.again + follows.again;
	unsigned parts = parts_of(ev, &size);
	struct trace_event *to;
	struct reused b;
	struct item *it;
	char *p;

	if (parts & SOME_BIT)
		size += look_behind(&b, names, ev, &again);
	it = new_item(is, size, again);
	if (!it)
		return false;
	it->is_line = 0;
	p = pack(it, ev, parts);
	/* Valid only up to BASE_SZ. */
	to = (struct trace_event *)(it + 1);
	to->words = words ? memcpy(p, ev->words, words) : NULL;
	p = put_pointees((struct pointee *)p - ev->cap_cnt, ev, p + words);
	if (ev->launch.params) {
		to->launch.params =
			memcpy(p, ev->launch.params, launch_params_sz(ev->launch.params));
		p += params_sz(ev);
	}
	if (pending) {
		pending__add(pending, (struct pending_call *)p, ev->id);
		to->gpu_times = &((struct pending_call *)p)->times;
		p += sizeof(struct pending_call);
	}
	if (parts & SOME_BIT)
		put_behind(it, &b, names, ev, &p);
	to->comm = put_name(names, &comm, &p);
	to->launch.kernel = put_name(names, &kernel, &p);
	to->launch.kernel_mangled = put_name(names, &mangled, &p);
	more = put_name(names, &follows, &p);
	it->n = more ? more - is->buf : 0;
	return true;
}

bool items__put_line(struct items *is, const char *s, size_t len)
{
	struct item *it = new_item(is, len, 0);

	if (!it)
		return false;
	it->is_line = 1;
	it->n = len;
	memcpy(it + 1, s, len);
	return true;
}

void items__release(const struct items *is, struct pending_calls *pending)
{
	const struct trace_event *ev;
	const struct item *it;

	for (size_t at = 0; at < is->len; at += it->size) {
		it = (const struct item *)(is->buf + at);
		ev = (const struct trace_event *)(it + 1);
		if (!it->is_line && ev->gpu_times)
			pending__release(pending, ev->gpu_times);
	}
}

void items__format(const struct items *is, struct sink *s)
{
	struct unpacked_event u = {.parts = 0};
	struct out *o = s->out;
	const struct item *it;
	size_t was;

	for (size_t at = 0; at < is->len; at += it->size) {
		it = (const struct item *)(is->buf + at);
		if (it->is_line) {
			sink_put(s, (const char *)(it + 1), it->n);
			continue;
		}
		unpack(&u, it);
		s->more = it->n ? is->buf + it->n : NULL;
		was = o->len;
		s->ops->event(s, &u.ev);
		fetch_for_writing(o->buf + o->len + AHEAD_SZ, out_since(o, was));
	}
}

bool items__get_room(struct items *is)
{
	if (is->buf)
		return false;
	is->buf = malloc(ITEMS_SZ);
	is->room = is->buf ? ITEMS_SZ : 0;
	return is->buf;
}

void items__clear(struct items *is)
{
	is->len = is->again = is->cnt = 0;
}

void items__free(struct items *is)
{
	free(is->buf);
	is->buf = NULL;
	is->room = 0;
}
