/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Calls of one producer made within calls of the other. */
#include "arbiter_priv.h"
#include "source.h"

#include "util/log.h"

#include <stdlib.h>
#include <string.h>

/* Limits on stored calls where processes belong to several users. */
#define CALLS_MAX    1024
#define CALLS_OF_ONE 128
/* A thread that has passed a probe reaches the library within this time, or has lost its processor.
 */
#define TAKEOVER_NS 1000000000ull

struct arbiter *arbiter__new(struct attach *att, struct sources *sources, const struct fnset *fns,
			     bool opt_in)
{
	struct arbiter *b = calloc(1, sizeof(*b));

	if (!b)
		return NULL;
	b->att = att;
	b->sources = sources;
	b->fns = fns;
	b->opt_in = opt_in;
	if (opt_in)
		arbiter_find_always_probed(b);
	return b;
}

void arbiter__free(struct arbiter *b)
{
	if (!b)
		return;
	arbiter_drop_all(b);
	free(b->calls);
	free(b);
}

/* Makes space for one more element of size bytes; false: no memory. */
static bool grow(void **array, unsigned cnt, unsigned *room, size_t size)
{
	unsigned more = *room ? 2 * *room : 16;
	void *p;

	if (cnt < *room)
		return true;
	p = realloc(*array, more * size);
	if (!p) {
		err("out of memory");
		return false;
	}
	*array = p;
	*room = more;
	return true;
}

ct_generation arbiter__left(const struct ct_rec *rec)
{
	ct_generation generation = ((const struct ct_task *)rec)->generation;

	return rec->kind == CT_REC_EXEC ? generation : generation + 1;
}

static bool is_of(const struct raw *raw, enum source_id source)
{
	return raw->call.id >> RAW_ID_BITS == source;
}

static void drop_call(struct arbiter *b, unsigned i)
{
	memmove(&b->calls[i], &b->calls[i + 1], (--b->call_cnt - i) * sizeof(b->calls[0]));
}

/* Drops calls whose end was lost, and calls of processes over their limit, so that they are not
 * parents. */
static void make_room(struct arbiter *b, pid_t pid)
{
	unsigned mine = 0;

	for (unsigned i = b->call_cnt; i-- > 0;)
		if (b->calls[i].pid == pid && ++mine >= CALLS_OF_ONE)
			drop_call(b, i);
	if (b->call_cnt == CALLS_MAX)
		drop_call(b, 0);
}

static void begin(struct arbiter *b, const struct ct_enter *rec)
{
	for (unsigned i = b->call_cnt; i-- > 0;)
		if (b->calls[i].tid == rec->rec.tid && b->calls[i].depth >= rec->depth)
			drop_call(b, i); /* its end was lost */
	if (b->opt_in)
		make_room(b, rec->rec.pid);
	if (!grow((void **)&b->calls, b->call_cnt, &b->call_room, sizeof(b->calls[0])))
		return;
	b->calls[b->call_cnt++] = (struct open_call){
		.pid = rec->rec.pid,
		.tid = rec->rec.tid,
		.id = rec->call_id,
		.start_ns = rec->rec.ts_ns,
		.api = rec->api,
		.func_id = rec->func_id,
		.depth = rec->depth,
		.api_depth = rec->api_depth,
	};
}

static void end(struct arbiter *b, uint64_t id)
{
	for (unsigned i = b->call_cnt; i-- > 0;)
		if (b->calls[i].id == id)
			drop_call(b, i);
}

static void drop_calls(struct arbiter *b, pid_t pid)
{
	for (unsigned i = b->call_cnt; i-- > 0;)
		if (b->calls[i].pid == pid)
			drop_call(b, i);
}

static struct ct_call *copy(struct raw *raw, struct ct_call *room)
{
	memcpy(room, raw->call.call, CT_CALL_FIXED_SZ);
	raw->call.call = room;
	return room;
}

/* Returns whether uprobes record it, too: its thread had passed the probe when the library took
 * over. A libcuda may call a function of that name in another one. */
static bool is_duplicate(const struct arbiter *b, const struct ct_call *c,
			 const struct open_call *in)
{
	const struct user *u = arbiter_user(b, c->rec.pid, c->lib_id);

	return in->func_id == c->func_id && u && u->inproc && !u->next &&
	       in->start_ns < u->since_ns + TAKEOVER_NS && c->rec.ts_ns + TAKEOVER_NS > u->since_ns;
}

/* Sets depth and parent of a call that the library recorded, from the open calls of uprobes. false:
 * it is one of these. */
static bool place(struct arbiter *b, struct raw *raw, struct ct_call *room)
{
	const struct ct_call *c = raw->call.call;
	const struct api_fn *fn = fnset__fn(b->fns, c->func_id);
	const struct open_call *in = NULL, *same = NULL;
	struct inject_enclosing outer = {0};

	for (unsigned i = 0; i < b->call_cnt; i++) {
		const struct open_call *o = &b->calls[i];

		if (o->tid != c->rec.tid || o->start_ns > c->rec.ts_ns)
			continue;
		in = o;
		if (fn && o->api == fn->api)
			same = o;
	}
	if (!in)
		return true;
	if (is_duplicate(b, c, in)) {
		b->duplicate_cnt++;
		return false;
	}
	if (raw->call.parent_id)
		sources__enclosing(b->sources, c->rec.pid, c->rec.tid, c->rec.ts_ns - 1, &outer);
	c = copy(raw, room);
	room->depth += in->depth + 1;
	room->api_depth += same ? same->api_depth + 1 : 0;
	if (!raw->call.parent_id || outer.start_ns < in->start_ns)
		raw->call.parent_id = in->id;
	return true;
}

/* Sets depth and parent of a call that uprobes recorded, from the open calls of the library. */
static void place_own(const struct arbiter *b, struct raw *raw, struct ct_call *room)
{
	const struct ct_call *c = raw->call.call;
	const struct api_fn *fn = fnset__fn(b->fns, c->func_id);
	struct inject_enclosing outer;

	sources__enclosing(b->sources, c->rec.pid, c->rec.tid, c->rec.ts_ns, &outer);
	if (!outer.cnt)
		return;
	copy(raw, room);
	room->depth += outer.cnt;
	room->api_depth += fn ? outer.of_api[fn->api] : 0;
	for (unsigned i = 0; i < b->call_cnt && raw->call.parent_id; i++)
		if (b->calls[i].id == raw->call.parent_id && b->calls[i].start_ns > outer.start_ns)
			return;
	if (outer.id)
		raw->call.parent_id = outer.id;
}

/* The driver loads the library in cuInit(), unless it is loaded already. */
static void on_own_call(struct arbiter *b, struct raw *raw, struct ct_call *room)
{
	const struct ct_call *c = raw->call.call;
	const struct api_fn *fn = fnset__fn(b->fns, c->func_id);
	struct user *u = arbiter_user(b, c->rec.pid, c->lib_id);

	end(b, raw->call.id);
	if (arbiter__is_inproc(b, c->rec.pid))
		place_own(b, raw, room);
	if (!u || u->inproc || u->announced)
		return;
	u->called = true;
	if (fn && !strcmp(fn->symbol, ATTACH_BEGINS))
		arbiter_announce(b, u, "the in-process library was not loaded");
}

uint64_t arbiter__duplicates(const struct arbiter *b)
{
	return b->duplicate_cnt;
}

bool arbiter__record(struct arbiter *b, struct raw *raw, struct ct_call *room)
{
	const struct ct_rec *rec = raw->rec;

	switch (rec->kind) {
	case CT_REC_CALL:
		if (is_of(raw, SOURCE_INJECT))
			return place(b, raw, room);
		on_own_call(b, raw, room);
		break;
	case CT_REC_ENTER:
		if (((const struct ct_enter *)rec)->begins)
			arbiter_begins(b, rec->pid);
		else if (((const struct ct_enter *)rec)->ended)
			end(b, ((const struct ct_enter *)rec)->call_id);
		else
			begin(b, (const void *)rec);
		break;
	case CT_REC_FORK:
		arbiter_fork(b, (const void *)rec);
		break;
	case CT_REC_EXEC:
	case CT_REC_EXIT:
		drop_calls(b, rec->pid);
		arbiter_left(b, rec->pid, arbiter__left(rec));
		break;
	default:
		break;
	}
	return true;
}
