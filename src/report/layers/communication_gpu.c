/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Assigns the GPU time of launches to collectives. */
#include "communication_priv.h"
#include "util/memlimit.h"

/* Key of a call of the event's process, as several traces may have the same ids. 0: none. */
static uint64_t key_of(const struct trace_event *ev, uint64_t id)
{
	return id ? pair_key(id, ev->pid) : 0;
}

static struct coll_call *call_at(struct communication *x, uint64_t key)
{
	return recent_find(x->calls, sizeof(*x->calls), key);
}

static void call_put(struct communication *x, const struct coll_call *call)
{
	struct coll_call *row = recent_get(x->calls, sizeof(*row), call->key);

	*row = *call;
}

void comm_gpu_await(struct communication *x, const struct trace_event *ev, struct coll_comm *c,
		    unsigned op)
{
	uint64_t key = key_of(ev, ev->id), group_key = key_of(ev, ev->coll.group);
	struct coll_call *group;

	if (!group_key) {
		call_put(x, &(struct coll_call){.key = key,
						.comm = c,
						.op = op,
						.bytes = ev->coll.bytes,
						.seq = ev->coll.seq});
		return;
	}
	/* taken over at the end of the group */
	group = call_at(x, group_key);
	if (!group) {
		group = recent_get(x->calls, sizeof(*group), group_key);
		*group = (struct coll_call){.key = group_key, .comm = c, .op = op};
	}
	if (group->comm != c || group->op != op)
		group->comm = NULL;
	group->bytes += ev->coll.bytes;
	group->seq = ev->coll.seq;
}

bool comm_gpu_has_room(struct communication *x)
{
	if (!x->calls)
		x->calls = memlimit_new(MEMLIMIT_COMMUNICATORS, RECENT_MAX * sizeof(*x->calls));
	if (!x->launches)
		x->launches =
			memlimit_new(MEMLIMIT_COMMUNICATORS, RECENT_MAX * sizeof(*x->launches));
	return x->calls && x->launches;
}

void comm_gpu_group_end(struct communication *x, const struct trace_event *ev)
{
	uint64_t key = key_of(ev, ev->id), group_key = key_of(ev, ev->coll.group);
	struct coll_call *group = call_at(x, group_key), call;

	if (!ev->coll.grouped || !group)
		return;
	/* adding may move other entries */
	call = *group;
	call.key = key;
	call_put(x, &call);
}

void comm_gpu_launch(struct communication *x, const struct trace_event *ev)
{
	uint64_t key = key_of(ev, ev->id);
	struct coll_join *join;

	if (!ev->parent_id || !ev->depth || ev->api_depth || !x->launches)
		return;
	join = recent_get(x->launches, sizeof(*join), key);
	join->parent = key_of(ev, ev->parent_id);
}

/* A rank's first kernel of a collective. */
static void note_start(struct coll_comm *c, uint64_t seq, uint64_t ns)
{
	struct coll_slot *s = seq && c->slots ? &c->slots[seq % SLOTS] : NULL;

	if (!s || s->seq != seq)
		return;
	if (!s->gpu_cnt++ || ns < s->gpu_first_ns)
		s->gpu_first_ns = ns;
	if (ns > s->gpu_last_ns)
		s->gpu_last_ns = ns;
}

void comm_gpu_add(struct communication *x, const struct trace_event *ev)
{
	const struct coll_join *launch;
	struct coll_call *call;
	struct coll_op *o;
	uint64_t key = key_of(ev, ev->gpu.call_id);

	if (!key || !x->launches)
		return;
	launch = recent_find(x->launches, sizeof(*launch), key);
	call = launch ? call_at(x, launch->parent) : NULL;
	if (call && call->outer)
		call = call_at(x, call->outer);
	if (!call)
		return;
	x->gpu_cnt++;
	x->gpu_ns += event_duration_ns(ev);
	if (!call->comm)
		return;
	if (!call->timed)
		note_start(call->comm, call->seq, ev->start_ns);
	o = &call->comm->ops[call->op];
	o->gpu_ns += event_duration_ns(ev);
	o->gpu_cnt += !call->timed;
	o->gpu_bytes += call->timed ? 0 : call->bytes;
	call->timed = true;
}

void comm_gpu_inner(struct communication *x, const struct trace_event *ev)
{
	uint64_t key = key_of(ev, ev->id);

	call_put(x, &(struct coll_call){.key = key, .outer = key_of(ev, ev->parent_id)});
}
