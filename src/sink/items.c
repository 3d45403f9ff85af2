/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "items.h"

#include <stdlib.h>
#include <string.h>

#include "util/out.h"

/* Of a call's event most is empty, and what is handed over has to come from another processor's
 * cache: from BASE_SZ on only the parts come that hold something. The last overlaps that before it.
 */
#define BASE_SZ	 offsetof(struct trace_event, coll)
#define CALL_SZ	 offsetof(struct trace_event, caps)
#define PART_SZ	 96
#define PART_CNT ((CALL_SZ - BASE_SZ + PART_SZ - 1) / PART_SZ)

/* What follows it: a line as it is; or an event, as far as calls have one, and copies of what it
 * points to. */
struct item {
	uint32_t size : 24; /* with what follows */
	uint32_t parts : 8; /* that come: a bit for each */
	uint32_t text_len;  /* not 0: a line */
};
_Static_assert(ITEMS_SZ < 1 << 24 && PART_CNT <= 8, "bits of struct item");
_Static_assert(offsetof(struct trace_event, gpu_times) < BASE_SZ, "what is pointed to is in it");
_Static_assert(CALL_SZ >= BASE_SZ + PART_SZ, "parts of an event");

static inline size_t part_off(unsigned i)
{
	return i + 1 < PART_CNT ? BASE_SZ + i * PART_SZ : CALL_SZ - PART_SZ;
}

/* size: a constant */
static inline __attribute__((always_inline)) bool is_empty(const char *p, size_t size)
{
	typedef uint64_t words __attribute__((vector_size(16)));
	words all = {0}, w;

#pragma GCC unroll 32
	for (size_t off = 0; off < size; off += sizeof(w)) {
		memcpy(&w, p + (off + sizeof(w) < size ? off : size - sizeof(w)), sizeof(w));
		all |= w;
	}
	return !(all[0] | all[1]);
}

/* A size that gcc knows is copied by `rep movs`, whose start takes longer than the whole of libc's.
 */
static inline void copy_base(void *to, const void *from)
{
	size_t size = BASE_SZ;

	__asm__("" : "+r"(size));
	memcpy(to, from, size);
}

/* The last that was taken out. */
struct unpacked {
	struct trace_event ev;
	unsigned parts; /* that hold something */
};

/* What they point to stays where it is. */
static void unpack(struct unpacked *u, const struct item *it)
{
	const char *p = (const char *)(it + 1) + BASE_SZ;
	struct trace_event *ev = &u->ev;
	/* Of the event before. */
	unsigned old = u->parts & ~it->parts;

	copy_base(ev, it + 1);
	for (unsigned i = 0; old >> i; i++)
		if (old >> i & 1)
			memset((char *)ev + part_off(i), 0, PART_SZ);
	for (unsigned i = 0; it->parts >> i; i++) {
		if (!(it->parts >> i & 1))
			continue;
		memcpy((char *)ev + part_off(i), p, PART_SZ);
		p += PART_SZ;
	}
	u->parts = it->parts;
	for (unsigned i = 0; i < ev->cap_cnt; i++, p += sizeof(*ev->caps))
		memcpy(&ev->caps[i], p, sizeof(*ev->caps));
}

#define AHEAD_SZ 2048

/* Another processor had these lines last, and until they are ours nothing that is written later
 * leaves this one: they are asked for early, some events ahead. (On x86 gcc's prefetch for writing
 * is one for reading.) */
static inline void fetch_for_writing(const char *p, size_t size)
{
	for (const char *end = p + size; p < end; p += CACHE_LINE_SZ)
#ifdef __x86_64__
		__asm__ volatile("prefetchw %0" : : "m"(*p));
#else
		__builtin_prefetch(p, 1);
#endif
}

/* With so many bytes behind it. NULL: there is no room. */
static struct item *new_item(struct items *is, size_t extra)
{
	size_t size = (sizeof(struct item) + extra + 7) & ~(size_t)7;
	struct item *it = (struct item *)(is->buf + is->len);

	if (size > is->room - is->len)
		return NULL;
	fetch_for_writing((const char *)it + AHEAD_SZ, size);
	it->size = size;
	it->text_len = 0;
	is->len += size;
	is->cnt++;
	return it;
}

static struct item_name *name_of(struct item_names *names, const char *s)
{
	return &names->of[(uintptr_t)s * 0x9e3779b97f4a7c15 >> (64 - ITEM_NAMES_LOG)];
}

/* A string that an event points to. */
struct text {
	const char *s;
	const char *copy; /* in this batch; NULL: not yet */
	size_t size;	  /* that it takes there */
};

static inline struct text look_up(struct item_names *names, const char *s)
{
	const struct item_name *n;

	if (!s)
		return (struct text){0};
	n = name_of(names, s);
	if (n->from == s && !strcmp(n->copy, s))
		return (struct text){s, n->copy, 0};
	return (struct text){s, NULL, strlen(s) + 1};
}

static inline const char *put_name(struct item_names *names, const struct text *t, char **p)
{
	char *at = *p;

	if (!t->size)
		return t->copy;
	memcpy(at, t->s, t->size);
	*name_of(names, t->s) = (struct item_name){t->s, at};
	*p += t->size;
	return at;
}

/* Which parts of it hold something; what they take is added to *size. */
static inline unsigned parts_of(const struct trace_event *ev, size_t *size)
{
	unsigned parts = 0;

	if (is_empty((const char *)ev + BASE_SZ, CALL_SZ - BASE_SZ))
		return 0;
	for (unsigned i = 0; i < PART_CNT; i++) {
		if (is_empty((const char *)ev + part_off(i), PART_SZ))
			continue;
		parts |= 1u << i;
		*size += PART_SZ;
	}
	return parts;
}

/* Base, parts, caps. Returns the end. */
static inline char *pack(struct item *it, const struct trace_event *ev, unsigned parts)
{
	char *p = (char *)(it + 1);

	copy_base(p, ev);
	p += BASE_SZ;
	it->parts = parts;
	for (unsigned i = 0; parts >> i; i++) {
		if (!(parts >> i & 1))
			continue;
		memcpy(p, (const char *)ev + part_off(i), PART_SZ);
		p += PART_SZ;
	}
	for (unsigned i = 0; i < ev->cap_cnt; i++, p += sizeof(*ev->caps))
		memcpy(p, &ev->caps[i], sizeof(*ev->caps));
	return p;
}

/* Bytes of what follows the event, and what of it is there already. */
struct behind {
	size_t words, data, stack, times;
	struct text comm, kernel, mangled, range, operator;
};

/* All together. */
static inline size_t look_behind(struct behind *b, struct item_names *names,
				 const struct trace_event *ev, const struct held_calls *held)
{
	b->words = ev->word_cnt * sizeof(*ev->words);
	b->data = 0;
	for (unsigned i = 0; i < ev->cap_cnt; i++)
		b->data += ev->caps[i].len > 0 ? (ev->caps[i].len + 7) & ~7 : 0;
	b->stack = ev->stack ? sizeof(*ev->stack) : 0;
	b->times = held ? sizeof(struct held) : 0;
	b->comm = look_up(names, ev->comm);
	b->kernel = look_up(names, ev->launch.kernel);
	b->mangled = look_up(names, ev->launch.kernel_mangled);
	b->range = look_up(names, ev->range_text);
	b->operator= look_up(names, ev->operator);
	return b->words + b->data + b->stack + b->times + b->comm.size + b->kernel.size +
	       b->mangled.size + b->range.size + b->operator.size;
}

bool items__put_call(struct items *is, struct item_names *names, const struct trace_event *ev,
		     struct held_calls *held)
{
	size_t event = BASE_SZ + ev->cap_cnt * sizeof(*ev->caps);
	unsigned parts = parts_of(ev, &event);
	struct behind b;
	struct item *it = new_item(is, event + look_behind(&b, names, ev, held));
	struct trace_event *to;
	struct pointee *caps;
	char *p;

	if (!it)
		return false;
	p = pack(it, ev, parts);
	/* Only as far as BASE_SZ. */
	to = (struct trace_event *)(it + 1);
	caps = (struct pointee *)p - ev->cap_cnt;
	to->words = b.words ? memcpy(p, ev->words, b.words) : NULL;
	p += b.words;
	for (unsigned i = 0; i < ev->cap_cnt; i++) {
		if (ev->caps[i].len <= 0)
			continue;
		caps[i].data = memcpy(p, ev->caps[i].data, ev->caps[i].len);
		p += (ev->caps[i].len + 7) & ~7;
	}
	/* Its id. */
	to->stack = b.stack ? memcpy(p, ev->stack, b.stack) : NULL;
	p += b.stack;
	if (held) {
		held__add(held, (struct held *)p, ev->id);
		to->gpu_times = &((struct held *)p)->times;
		p += b.times;
	}
	to->comm = put_name(names, &b.comm, &p);
	to->launch.kernel = put_name(names, &b.kernel, &p);
	to->launch.kernel_mangled = put_name(names, &b.mangled, &p);
	to->range_text = put_name(names, &b.range, &p);
	to->operator= put_name(names, &b.operator, & p);
	return true;
}

bool items__put_line(struct items *is, const char *s, size_t len)
{
	struct item *it = new_item(is, len);

	if (!it)
		return false;
	it->text_len = len;
	memcpy(it + 1, s, len);
	return true;
}

void items__let_go(const struct items *is, struct held_calls *held)
{
	const struct trace_event *ev;
	const struct item *it;

	for (size_t at = 0; at < is->len; at += it->size) {
		it = (const struct item *)(is->buf + at);
		ev = (const struct trace_event *)(it + 1);
		if (!it->text_len && ev->gpu_times)
			held__let_go(held, ev->gpu_times);
	}
}

void items__word(const struct items *is, struct sink *s)
{
	struct unpacked u = {.parts = 0};
	struct out *o = s->out;
	const struct item *it;
	size_t was;

	for (size_t at = 0; at < is->len; at += it->size) {
		it = (const struct item *)(is->buf + at);
		if (it->text_len) {
			out_bytes(o, (const char *)(it + 1), it->text_len);
			continue;
		}
		unpack(&u, it);
		was = o->len;
		s->ops->event(s, &u.ev);
		fetch_for_writing(o->buf + o->len + AHEAD_SZ, o->len - was);
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
	is->len = is->cnt = 0;
}

void items__free(struct items *is)
{
	free(is->buf);
	is->buf = NULL;
	is->room = 0;
}
