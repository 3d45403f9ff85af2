/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "operators.h"

#include "event_table.h"
#include "annotate_priv.h"
#include "proc.h"

#include "ct_bpf.h"
#include "decode/torch.h"
#include "record/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct operator
{
	uint64_t id, parent, start_ns;
	uint64_t last_ns; /* end of the last event recorded in it */
	uint64_t seq;
	const char *name;
	bool backward, has_seq;
};

/* Node::sequence_nr_ of nodes that accumulate gradients. */
#define NO_SEQ	 UINT64_MAX
#define ROOM_MIN 8

/* --- operators --- */

static struct operator* top_of(const struct thread *t)
{
	return t->operators.cnt ? &t->operators.v[t->operators.cnt - 1] : NULL;
}

static void give(struct operators *o, const struct proc *p, const struct thread *t,
		 const struct operator* x, uint64_t end_ns, bool unfinished)
{
	struct trace_event ev = {
		.kind = EVENT_OPERATOR,
		.type = event_kinds[EVENT_OPERATOR].type,
		.op = x->backward ? "backward" : "forward",
		.name = x->name,
		.pid = p->pid,
		.tid = t->tid,
		.comm = proc__comm(p, t),
		.start_ns = x->start_ns,
		.end_ns = end_ns,
		.unfinished = unfinished,
		.torch_op =
			{
				.id = x->id,
				.parent = x->parent,
				.min_duration_ns = x->last_ns - x->start_ns,
				.seq = {x->seq, x->has_seq},
			},
	};

	o->fn(o->ctx, &ev);
}

/* Ends the innermost operator. end_ns 0: unknown. */
static void end(struct operators *o, const struct proc *p, struct thread *t, uint64_t end_ns)
{
	struct operator x = * top_of(t), *outer;

	t->operators.cnt--;
	outer = top_of(t);
	if (outer && outer->last_ns < x.last_ns)
		outer->last_ns = x.last_ns;
	o->cnt.unfinished += !end_ns;
	if (!end_ns || end_ns < x.last_ns)
		give(o, p, t, &x, x.last_ns, !end_ns);
	else if (end_ns - x.start_ns >= o->min_duration_ns)
		give(o, p, t, &x, end_ns, false);
}

void operators__enter(struct operators *o, const struct raw_call *raw, const struct proc *p,
		      struct thread *t, struct trace_event *ev)
{
	struct operator* x;

	/* Operator IDs of a thread only grow. */
	while ((x = top_of(t)) && x->id > raw->operator_id)
		end(o, p, t, ev->start_ns);
	if (!raw->operator_id)
		return;
	ev->operator_id = raw->operator_id;
	/* The record of its start may have been dropped. */
	if (!x || x->id != raw->operator_id)
		return;
	ev->operator= x->name;
	if (ev->end_ns > x->last_ns)
		x->last_ns = ev->end_ns;
}

static struct operator* push(struct thread_operators *s)
{
	unsigned room = s->room ? 2 * s->room : ROOM_MIN;
	struct operator* v;

	if (s->cnt < s->room)
		return &s->v[s->cnt++];
	/* The BPF programs store no more levels. */
	if (room > CT_OPERATORS_MAX)
		return NULL;
	v = reallocarray(s->v, room, sizeof(*v));
	if (!v)
		return NULL;
	s->v = v;
	s->room = room;
	return &s->v[s->cnt++];
}

static void begin(struct operators *o, const struct raw_call *raw, const struct trace_event *ev,
		  struct thread *t, bool backward)
{
	const struct torch_lib *lib = o->lib ? o->lib(o->lib_ctx, ev->lib_id) : NULL;
	const char *name;
	struct operator* x;

	if (raw->word_cnt < CT_TORCH_WORDS)
		return;
	name = backward ? torch_lib__node(lib, raw->words[0])
			: torch_lib__operator(lib, raw->words[0]);
	o->cnt.operators += !backward;
	o->cnt.nodes += backward;
	o->cnt.unnamed += !name;
	x = push(&t->operators);
	if (!x) {
		o->cnt.too_many++;
		return;
	}
	*x = (struct operator){
		.id = raw->id,
		.parent = raw->operator_id,
		.start_ns = ev->start_ns,
		.last_ns = ev->start_ns,
		.name = name
				?: backward ? "unknown node"
					    : "custom operator",
		.backward = backward,
		.seq = raw->words[1],
		.has_seq = backward && raw->words[0] && raw->words[1] != NO_SEQ,
	};
}

/* PyTorch has made a node for the operator's backward pass. */
static void number(const struct raw_call *raw, struct thread *t)
{
	struct operator* x = top_of(t);

	if (!x || x->id != raw->operator_id || x->backward || x->has_seq || raw->call->result < 0)
		return;
	x->seq = (uint32_t)raw->call->result;
	x->has_seq = true;
}

void operators__unfinished(struct operators *o, struct proc *p)
{
	hash_each (t, &p->threads)
		while (t->operators.cnt)
			end(o, p, t, 0);
}

void thread_operators__free(struct thread *t)
{
	free(t->operators.v);
	t->operators = (struct thread_operators){0};
}

/* --- the allocator --- */

/* Formats a c10::Device: type, and index or -1. */
static void device_name(uint64_t device, char buf[32])
{
	static const char *const names[] = {"cpu",    "cuda",  "mkldnn", "opengl", "opencl",
					    "ideep",  "hip",   "fpga",	 "maia",   "xla",
					    "vulkan", "metal", "xpu",	 "mps",	   "meta",
					    "hpu",    "ve",    "lazy",	 "ipu",	   "mtia"};
	uint8_t type = device;
	int8_t index = device >> 8;
	char number[16];
	const char *name = number;

	if (type < sizeof(names) / sizeof(names[0]))
		name = names[type];
	else
		snprintf(number, sizeof(number), "type%u", type);
	if (index < 0)
		snprintf(buf, 32, "%s", name);
	else
		snprintf(buf, 32, "%s:%d", name, index);
}

/* words: in the order of the rows of api/torch.def. */
static void allocator(struct operators *o, const struct trace_event *call, const uint64_t *words,
		      unsigned cnt, bool oom)
{
	int64_t size;
	char device[32];
	struct trace_event ev = {
		.kind = EVENT_ALLOCATOR,
		.type = event_kinds[EVENT_ALLOCATOR].type,
		.pid = call->pid,
		.tid = call->tid,
		.comm = call->comm,
		.start_ns = call->start_ns,
		.end_ns = call->start_ns,
		.operator_id = call->operator_id,
		.operator= call->operator,
		.has = oom ? HAS_SIZE : HAS_SIZE | HAS_PTR,
	};

	/* Too few words: arguments are redacted. */
	if (cnt < (oom ? 4u : 5u))
		return;
	if (!oom) {
		ev.ptr = words[0];
		words++;
	}
	size = words[0];
	ev.op = ev.name = oom ? "oom" : size < 0 ? "free" : "alloc";
	ev.is_error = oom;
	ev.size = size < 0 ? -(uint64_t)size : (uint64_t)size;
	ev.allocator.allocated = words[1];
	ev.allocator.reserved = words[2];
	device_name(words[3], device);
	ev.allocator.device = device;
	o->cnt.allocs += !oom && size >= 0;
	o->cnt.frees += size < 0;
	o->cnt.ooms += oom;
	o->fn(o->ctx, &ev);
}

void operators__call(struct operators *o, const struct annotations *m, const struct raw_call *raw,
		     const struct trace_event *ev, const struct proc *p, struct thread *t)
{
	o->cnt.calls++;
	switch (m->fn->op) {
	case OP_FORWARD:
	case OP_BACKWARD:
		begin(o, raw, ev, t, m->fn->op == OP_BACKWARD);
		break;
	case OP_NUMBER:
		if (event_returned(ev))
			number(raw, t);
		break;
	case OP_REPORT:
	case OP_REPORT_OOM:
		allocator(o, ev, raw->words, raw->word_cnt, m->fn->op == OP_REPORT_OOM);
		break;
	}
}
