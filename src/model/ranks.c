/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "ranks.h"

#include "call.h"
#include "util/reader.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* docs/LIMITS.md */
#define COMMS_MAX	  256
#define COMMS_OF_USER_MAX (COMMS_MAX / 2)
#define RANKS_MAX	  64
/* Start times are stored for this many collectives of the first rank. */
#define AHEAD 64

struct rank {
	uint32_t rank, pid;
	uint32_t tid; /* thread that began seq */
	uint64_t seq; /* last collective that it has begun */
	bool partial; /* seq is not known */
	bool ended;   /* its process has ended: a wait for it never ends */
};

struct rank_comm {
	struct hash_link link;
	uint64_t hash;
	uid_t uid; /* of the process that used it first */
	struct rank ranks[RANKS_MAX];
	unsigned rank_cnt;
	bool reported;
	uint64_t reported_seq;
	struct {
		uint64_t seq, first_ns;
		struct rank_call call;
	} begun[AHEAD]; /* by the first rank to begin */
	/* The first collective that two ranks call differently. */
	struct {
		uint64_t seq; /* 0: none */
		struct rank_call calls[2];
		bool reported;
	} differs;
};
HASH_TABLE_KEY(rank_comm, hash);

static void drop(struct ranks *rs, struct rank_comm *c)
{
	rank_comm_table__del(&rs->by_hash, c);
	free(c);
}

/* Returns the number of communicators of that user; *oldest: the first of them. */
static unsigned comms_of(const struct ranks *rs, uid_t uid, struct rank_comm **oldest)
{
	unsigned cnt = 0;

	hash_each (c, &rs->by_hash)
		if (c->uid == uid && !cnt++)
			*oldest = c;
	return cnt;
}

/* Drops the oldest communicator, whose process may have ended unnoticed. It is the user's own if
 * that user has half of all, else one of the user who has most. */
static void make_room(struct ranks *rs, uid_t uid)
{
	struct rank_comm *oldest = NULL, *of_most = NULL;
	unsigned cnt = comms_of(rs, uid, &oldest), most = 0;
	uid_t before = uid;

	if (cnt >= COMMS_OF_USER_MAX) {
		drop(rs, oldest);
		return;
	}
	if (hash_cnt(&rs->by_hash) < COMMS_MAX)
		return;
	hash_each (c, &rs->by_hash) {
		if (of_most && c->uid == before)
			continue;
		before = c->uid;
		cnt = comms_of(rs, c->uid, &oldest);
		if (cnt > most) {
			most = cnt;
			of_most = oldest;
		}
	}
	drop(rs, of_most);
}

static struct rank_comm *comm_of(struct ranks *rs, uint64_t hash, uint32_t pid)
{
	struct rank_comm *c = rank_comm_table__find(&rs->by_hash, &hash);
	uid_t uid;

	if (c)
		return c;
	uid = (rs->user_of ? rs->user_of : reader__user)((pid_t)pid);
	make_room(rs, uid);
	c = rank_comm_table__new(&rs->by_hash, &hash);
	if (c)
		c->uid = uid;
	return c;
}

static struct rank *rank_of(struct rank_comm *c, const struct rank_begun *b)
{
	struct rank *k = c->ranks;

	for (; k < c->ranks + c->rank_cnt; k++)
		if (k->rank == b->rank && k->pid == b->pid && !k->ended)
			return k;
	if (c->rank_cnt == RANKS_MAX)
		return NULL;
	c->rank_cnt++;
	*k = (struct rank){.rank = b->rank, .pid = b->pid, .tid = b->tid};
	return k;
}

/* Compares the call with that of the first rank. */
static void compare(struct rank_comm *c, const struct rank_begun *b, const struct rank_call *call)
{
	struct rank_call *first = &c->begun[b->seq % AHEAD].call;
	bool same;

	if (!b->seq || c->begun[b->seq % AHEAD].seq != b->seq)
		return;
	if (first->rank == b->rank && first->pid == b->pid) {
		/* Its size is known when the call returns. */
		*first = call->has_bytes ? *call : *first;
		return;
	}
	same = !strcmp(first->op, call->op) &&
	       (!first->has_bytes || !call->has_bytes || first->bytes == call->bytes);
	if (same || c->differs.seq)
		return;
	c->differs.seq = b->seq;
	c->differs.calls[0] = *first;
	c->differs.calls[1] = *call;
}

void ranks__begun(struct ranks *rs, const struct rank_begun *b)
{
	const struct rank_call call = {
		.rank = b->rank,
		.pid = b->pid,
		.tid = b->tid,
		.op = b->op,
		.bytes = b->bytes,
		.has_bytes = b->has_bytes,
	};
	struct rank_comm *c = comm_of(rs, b->hash, b->pid);
	struct rank *k = c ? rank_of(c, b) : NULL;
	unsigned i = b->seq % AHEAD;

	if (!k)
		return;
	k->partial = b->partial;
	if (b->partial)
		return;
	compare(c, b, &call);
	if (b->seq <= k->seq)
		return;
	k->seq = b->seq;
	k->tid = b->tid;
	if (c->begun[i].seq >= b->seq)
		return;
	c->begun[i].seq = b->seq;
	c->begun[i].first_ns = b->ns;
	c->begun[i].call = call;
}

void ranks__event(struct ranks *rs, const struct trace_event *ev)
{
	const struct rank_begun b = {
		.hash = ev->coll.hash,
		.seq = ev->coll.seq,
		.rank = ev->coll.rank,
		.pid = ev->pid,
		.tid = ev->tid,
		.op = ev->op,
		.ns = ev->start_ns,
		.partial = ev->coll.seq_partial,
		.bytes = ev->coll.bytes,
		.has_bytes = ev->has & HAS_BYTES,
	};

	if (ev->has & HAS_COMM && ev->coll.nranks && (b.seq || ev->fn->op == OP_INIT))
		ranks__begun(rs, &b);
}

bool ranks__any(const struct ranks *rs)
{
	return rs->by_hash.first;
}

void ranks__ended(struct ranks *rs, uint32_t pid)
{
	hash_each (c, &rs->by_hash) {
		unsigned alive = 0;

		for (unsigned i = 0; i < c->rank_cnt; i++) {
			c->ranks[i].ended |= c->ranks[i].pid == pid;
			alive += !c->ranks[i].ended;
		}
		if (!alive)
			drop(rs, c);
	}
}

void ranks__lost(struct ranks *rs, uint32_t pid)
{
	hash_each (c, &rs->by_hash)
		for (unsigned i = 0; i < c->rank_cnt; i++)
			c->ranks[i].partial |= !pid || c->ranks[i].pid == pid;
}

static void list(const struct rank_comm *c, uint64_t seq, bool in, char *buf, size_t size)
{
	size_t len = 0;

	buf[0] = 0;
	for (unsigned i = 0; i < c->rank_cnt && len + 24 < size; i++)
		if ((c->ranks[i].seq >= seq) == in)
			len += snprintf(buf + len, size - len, "%s%u%s", len ? ", " : "",
					c->ranks[i].rank, c->ranks[i].ended ? " (ended)" : "");
}

static void add_who(const struct rank_comm *c, struct rank_wait *w, bool in)
{
	for (unsigned i = 0; i < c->rank_cnt && w->who_cnt < RANKS_WHO_MAX; i++) {
		const struct rank *k = &c->ranks[i];

		if ((k->seq >= w->seq) == in && !k->ended)
			w->who[w->who_cnt++] = (struct rank_who){k->rank, k->pid, k->tid};
	}
}

static bool is_partial(const struct rank_comm *c)
{
	for (unsigned i = 0; i < c->rank_cnt; i++)
		if (c->ranks[i].partial)
			return true;
	return false;
}

/* Finds the first collective that not all ranks have begun, and when the first rank began it.
 * Returns false if there is none. */
static bool find_open(const struct rank_comm *c, struct rank_wait *w)
{
	uint64_t least = UINT64_MAX, most = 0, seq;

	for (unsigned i = 0; i < c->rank_cnt; i++) {
		if (c->ranks[i].seq < least)
			least = c->ranks[i].seq;
		if (c->ranks[i].seq > most)
			most = c->ranks[i].seq;
	}
	if (c->rank_cnt < 2 || least == most || is_partial(c))
		return false;
	/* Use the oldest stored start time: the collective began no later. */
	seq = most - least >= AHEAD ? most - AHEAD + 1 : least + 1;
	w->seq = least + 1;
	w->since_ns = c->begun[seq % AHEAD].first_ns;
	w->op = c->begun[seq % AHEAD].call.op;
	return c->begun[seq % AHEAD].seq == seq;
}

static void report_difference(struct rank_comm *c, void (*fn)(void *ctx, const struct rank_wait *w),
			      void *ctx)
{
	struct rank_wait w = {
		.hash = c->hash,
		.seq = c->differs.seq,
		.op = c->differs.calls[0].op,
		.differs = true,
		.calls = {c->differs.calls[0], c->differs.calls[1]},
		.who_cnt = 2,
	};

	if (!c->differs.seq || c->differs.reported)
		return;
	c->differs.reported = true;
	for (unsigned i = 0; i < 2; i++)
		w.who[i] = (struct rank_who){w.calls[i].rank, w.calls[i].pid, w.calls[i].tid};
	fn(ctx, &w);
}

void ranks__look(struct ranks *rs, uint64_t now, void (*fn)(void *ctx, const struct rank_wait *w),
		 void *ctx)
{
	hash_each (c, &rs->by_hash) {
		struct rank_wait w = {.hash = c->hash};
		bool open = find_open(c, &w);

		report_difference(c, fn, ctx);
		if (c->reported && (!open || w.seq != c->reported_seq)) {
			struct rank_wait over = {.hash = c->hash,
						 .seq = c->reported_seq,
						 .over = true,
						 .lost = is_partial(c)};

			c->reported = false;
			fn(ctx, &over);
		}
		if (!open || c->reported || now < w.since_ns + RANKS_HANG_NS)
			continue;
		c->reported = true;
		c->reported_seq = w.seq;
		w.ns = now - w.since_ns;
		list(c, w.seq, true, w.in, sizeof(w.in));
		list(c, w.seq, false, w.missing, sizeof(w.missing));
		add_who(c, &w, false);
		add_who(c, &w, true);
		fn(ctx, &w);
	}
}

static const char *call_text(char *buf, size_t size, const struct rank_call *x)
{
	int n = snprintf(buf, size, "rank %u calls %s", x->rank, x->op);

	if (x->has_bytes)
		snprintf(buf + n, size - n, " of %" PRIu64 " bytes", x->bytes);
	return buf;
}

void rank_wait_text(const struct rank_wait *w, char *buf, size_t size)
{
	char first[128], other[128];

	if (w->differs)
		snprintf(buf, size,
			 "collective %" PRIu64 " of communicator 0x%" PRIx64
			 " differs: %s, %s. All ranks must call the same operation with the same "
			 "size; these may wait for each other for ever",
			 w->seq, w->hash, call_text(first, sizeof(first), &w->calls[0]),
			 call_text(other, sizeof(other), &w->calls[1]));
	else if (w->over)
		snprintf(buf, size, "collective %" PRIu64 " of communicator 0x%" PRIx64 " %s",
			 w->seq, w->hash,
			 w->lost ? "may have begun on all ranks: calls were dropped"
				 : "has begun on all ranks");
	else
		snprintf(buf, size,
			 "collective %" PRIu64 " (%s) of communicator 0x%" PRIx64
			 " waits for %.1f s: begun by rank %s, not by rank %s",
			 w->seq, w->op, w->hash, w->ns / 1e9, w->in, w->missing);
}

void ranks__free(struct ranks *rs)
{
	rank_comm_table__free(&rs->by_hash);
}
