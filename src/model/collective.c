/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "collective.h"

#include "annotate_priv.h"

#include <stdlib.h>
#include <string.h>

#include "decode/api_values.h"
#include "decode/nccl_kernels.h"

const char *nccl_type_name(uint64_t type, unsigned *size)
{
	static const struct {
		const char *name;
		unsigned size;
	} types[] = {
		[ncclInt8] = {"int8", 1},
		[ncclUint8] = {"uint8", 1},
		[ncclInt32] = {"int32", 4},
		[ncclUint32] = {"uint32", 4},
		[ncclInt64] = {"int64", 8},
		[ncclUint64] = {"uint64", 8},
		[ncclFloat16] = {"float16", 2},
		[ncclFloat32] = {"float32", 4},
		[ncclFloat64] = {"float64", 8},
		[ncclBfloat16] = {"bfloat16", 2},
		[ncclFloat8e4m3] = {"float8e4m3", 1},
		[ncclFloat8e5m2] = {"float8e5m2", 1},
	};

	*size = 0;
	if (type >= sizeof(types) / sizeof(types[0]))
		return NULL;
	*size = types[type].size;
	return types[type].name;
}

const char *nccl_redop_name(uint64_t op)
{
	static const char *const names[] = {
		[ncclSum] = "sum", [ncclProd] = "prod", [ncclMax] = "max",
		[ncclMin] = "min", [ncclAvg] = "avg",
	};

	if (op < sizeof(names) / sizeof(names[0]))
		return names[op];
	/* ncclRedOpCreatePreMulSum() returns numbers from here on. */
	return op <= INT32_MAX ? "premul_sum" : NULL;
}

double nccl_bus_factor(enum api_op op, uint32_t nranks)
{
	double n = nranks;

	if (!nranks)
		return 0;
	switch (op) {
	case OP_ALL_REDUCE:
		return 2 * (n - 1) / n;
	case OP_ALL_GATHER:
	case OP_REDUCE_SCATTER:
	case OP_ALL_TO_ALL:
	case OP_GATHER:
	case OP_SCATTER:
		return (n - 1) / n;
	default:
		return 1;
	}
}

/* Returns whether the call's count is the size of one rank's part. */
static bool counts_parts(enum api_op op)
{
	return op == OP_ALL_GATHER || op == OP_REDUCE_SCATTER || op == OP_ALL_TO_ALL ||
	       op == OP_GATHER || op == OP_SCATTER;
}

static int arg_of_type(const struct api_fn *fn, const char *type)
{
	for (int i = 0; i < fn->arg_cnt && i < CT_MAX_WORDS; i++)
		if (!strcmp(fn->args[i].type->name, type))
			return i;
	return -1;
}

/* The single size argument of a collective is its number of elements. */
void collective__init(struct annotations *m)
{
	const struct api_fn *fn = m->fn;
	bool is_one = op_does(fn->op, DOES_COLLECTIVE | DOES_PEER);

	m->comm = m->count = m->datatype = m->redop = m->peer = -1;
	if (is_one || fn->op == OP_DESTROY)
		m->comm = arg_of_type(fn, "ncclComm_t");
	if (is_one) {
		m->datatype = arg_of_type(fn, "ncclDataType_t");
		m->redop = arg_of_type(fn, "ncclRedOp_t");
		m->count = arg_of_type(fn, "size_t");
		m->peer = api_arg_by_name(fn, "root");
		if (m->peer < 0)
			m->peer = api_arg_by_name(fn, "peer");
	} else if (fn->op == OP_INIT) {
		/* The parent's communicator comes first. */
		for (int i = 0; i < fn->arg_cnt; i++)
			if (fn->args[i].dir != DIR_IN &&
			    !strcmp(fn->args[i].type->name, "ncclComm_t"))
				m->comm = i;
	}
}

static bool comm_memory(const struct trace_event *ev, int cap, struct ct_comm *mem)
{
	if (cap < 0 || (unsigned)cap >= ev->cap_cnt || ev->caps[cap].len != sizeof(*mem))
		return false;
	memcpy(mem, ev->caps[cap].data, sizeof(*mem));
	return comm_is_sound(mem);
}

static void show_comm(struct trace_event *ev, const struct comm *c)
{
	ev->coll.rank = c->rank;
	ev->coll.nranks = c->nranks;
	ev->coll.hash = c->hash;
	if (c->hash)
		ev->has |= HAS_COMM;
}

/* A process that creates all ranks itself: the communicators are in the order of the ranks. */
static void made_all(const struct annotations *m, const struct trace_event *ev, struct proc *p)
{
	const struct pointee *cap = &ev->caps[m->cap[m->comm]];
	uint32_t cnt = cap->len > 0 ? cap->len / 8 : 0;
	struct comm *c;
	uint64_t handle;

	for (uint32_t i = 0; i < cnt; i++) {
		memcpy(&handle, cap->data + 8 * i, 8);
		c = handle ? comms__made(&p->comms, handle) : NULL;
		if (!c)
			continue;
		c->rank = i;
		c->nranks = cnt;
	}
}

/* In a group, NCCL writes the handle only at the group's end. */
static void made(const struct annotations *m, struct trace_event *ev, struct proc *p, bool in_group)
{
	int cap = m->comm < 0 ? -1 : m->cap[m->comm];
	uint64_t handle = 0, rank, nranks;
	struct ct_comm mem = {0};
	struct comm *c;

	if (cap < 0 || (unsigned)cap >= ev->cap_cnt || ev->is_error || !event_returned(ev))
		return;
	if (m->fn->args[m->comm].dir == DIR_OUT_ARR) {
		made_all(m, ev, p);
		return;
	}
	if (comm_memory(ev, cap + 1, &mem))
		handle = mem.handle;
	else if (!in_group)
		event_arg(m, ev, m->comm, &handle);
	c = handle ? comms__made(&p->comms, handle) : NULL;
	if (!handle)
		p->comms.unnamed_cnt++;
	if (c)
		comm__learn(&p->comms, c, &mem);
	if (event_arg_by_name(m, ev, "nranks", &nranks) &&
	    (event_arg_by_name(m, ev, "rank", &rank) ||
	     event_arg_by_name(m, ev, "myrank", &rank))) {
		ev->coll.rank = rank;
		ev->coll.nranks = nranks;
	}
	if (!c)
		return;
	if (!c->nranks) {
		c->rank = ev->coll.rank;
		c->nranks = ev->coll.nranks;
	}
	show_comm(ev, c);
}

static void show_data(const struct annotations *m, struct trace_event *ev)
{
	struct collective_info *x = &ev->coll;
	uint64_t v;
	unsigned size = 0;

	if (event_arg(m, ev, m->count, &x->count))
		ev->has |= HAS_COUNT;
	if (event_arg(m, ev, m->datatype, &v))
		x->datatype = nccl_type_name(v, &size);
	if (event_arg(m, ev, m->redop, &v))
		x->redop = nccl_redop_name(v);
	if (event_arg(m, ev, m->peer, &v)) {
		x->peer = (int32_t)v;
		ev->has |= op_does(m->fn->op, DOES_PEER) ? HAS_PEER : HAS_ROOT;
	}
	if (!(ev->has & HAS_COUNT) || !size)
		return;
	if (counts_parts(m->fn->op)) {
		if (!x->nranks ||
		    __builtin_mul_overflow(x->count, size * (uint64_t)x->nranks, &x->bytes))
			return;
	} else if (__builtin_mul_overflow(x->count, size, &x->bytes)) {
		return;
	}
	ev->has |= HAS_BYTES;
}

static struct nccl_thread *nccl_thread(struct thread *t)
{
	if (!t->nccl)
		t->nccl = calloc(1, sizeof(*t->nccl));
	return t->nccl;
}

/* Sets algorithm and protocol from the kernel launched in this call. If the number belongs to
 * another collective, this version's numbers are unknown. */
static void show_kernel(const struct annotations *m, struct trace_event *ev, const struct thread *t,
			uint32_t version)
{
	const struct nccl_thread *n = t->nccl;
	struct nccl_kernel k;

	if (!n || n->launched_in != ev->id || n->differs ||
	    !nccl_kernel_by_func(version, n->func, &k) ||
	    (m->fn->op != OP_GROUP_END && m->fn->op != k.op))
		return;
	ev->coll.algorithm = k.algorithm;
	ev->coll.protocol = k.protocol;
}

/*
 * Returns NCCL's own count if it is reliable; else 0. A nonblocking communicator may launch later
 * (ncclInProgress). So may the group before this one, unless the trace shows that it did not.
 */
static uint64_t counted(const struct trace_event *ev, const struct thread *t,
			const struct ct_comm *mem, const struct comm *c)
{
	bool in_group = t->nccl && t->nccl->depth;

	if (mem->handle != c->handle || !event_returned(ev) || ev->result ||
	    (in_group && (t->nccl->launches_later || !c->group)))
		return 0;
	return mem->made;
}

/* A collective, or a call that sends to or receives from one rank. */
static void used(const struct annotations *m, struct trace_event *ev, struct proc *p,
		 struct thread *t)
{
	struct comm *c = NULL;
	struct ct_comm mem = {0};
	uint64_t handle;
	bool counts = !ev->is_error && !ev->abandoned;

	if (event_arg(m, ev, m->comm, &handle) && handle && !ev->is_error)
		c = comms__get(&p->comms, handle);
	if (c && comm_memory(ev, m->cap[m->comm], &mem))
		comm__learn(&p->comms, c, &mem);
	else
		mem.handle = 0;
	if (c)
		show_comm(ev, c);
	show_data(m, ev);
	if (c && counts && !ev->api_depth && op_does(m->fn->op, DOES_COLLECTIVE)) {
		comm__count(c, counted(ev, t, &mem, c),
			    t->nccl && t->nccl->depth ? t->nccl->id : 0);
		ev->coll.seq = c->seq;
		ev->coll.seq_partial = c->partial;
	}
	if (c)
		show_kernel(m, ev, t, c->version);
	/* ncclBcast() calls ncclBroadcast(). */
	if (t->nccl && ev->api_depth && t->nccl->launched_in == ev->id)
		t->nccl->launched_in = ev->parent_id;
	if (!t->nccl || !t->nccl->depth)
		return;
	ev->coll.group = t->nccl->id;
	t->nccl->calls += counts && !ev->api_depth;
	t->nccl->version = c ? c->version : 0;
}

bool collective__in_flight(const struct annotations *m, struct proc *p,
			   const __u64 words[CT_MAX_WORDS], struct rank_begun *b)
{
	const struct comm *c;

	if (!op_does(m->fn->op, DOES_COLLECTIVE) || m->comm < 0 || m->word[m->comm] < 0)
		return false;
	c = comms__find(&p->comms, words[m->word[m->comm]]);
	if (!c || !c->hash || !c->nranks)
		return false;
	*b = (struct rank_begun){.hash = c->hash,
				 .seq = c->seq + 1,
				 .rank = c->rank,
				 .pid = p->pid,
				 .op = api_op_name(m->fn->op),
				 .partial = c->partial};
	return true;
}

static void begin_group(struct trace_event *ev, struct thread *t)
{
	struct nccl_thread *n = nccl_thread(t);

	if (!n || ev->is_error || ev->api_depth)
		return;
	if (!n->depth++) {
		n->id = ev->id;
		n->calls = n->version = 0;
	}
	ev->coll.group = n->id;
}

static void end_group(const struct annotations *m, struct trace_event *ev, struct thread *t)
{
	if (!t->nccl || !t->nccl->depth || ev->api_depth)
		return;
	ev->coll.group = t->nccl->id;
	if (--t->nccl->depth)
		return;
	ev->coll.grouped = t->nccl->calls;
	t->nccl->launches_later = ev->result != 0;
	show_kernel(m, ev, t, t->nccl->version);
}

void collective__launched(const struct annotations *m, const struct trace_event *ev,
			  struct thread *t)
{
	int arg = api_arg_by_name(m->fn, "extra"), cap = arg < 0 ? -1 : m->cap[arg];
	struct nccl_thread *n;
	uint32_t batch;

	if (cap < 0 || (unsigned)cap >= ev->cap_cnt || ev->caps[cap].len != sizeof(batch))
		return;
	n = nccl_thread(t);
	if (!n)
		return;
	memcpy(&batch, ev->caps[cap].data, sizeof(batch));
	n->differs =
		n->launched_in == ev->parent_id && (n->differs || n->func != nccl_func_of(batch));
	n->launched_in = ev->parent_id;
	n->func = nccl_func_of(batch);
}

void collective__apply(const struct annotations *m, struct trace_event *ev, struct proc *p,
		       struct thread *t)
{
	uint64_t handle;

	switch (m->fn->op) {
	case OP_INIT:
		made(m, ev, p, t->nccl && t->nccl->depth);
		break;
	case OP_DESTROY:
		/* ncclRedOpDestroy() and similar functions have a communicator too. */
		if (m->fn->arg_cnt == 1 && !ev->is_error && event_returned(ev) &&
		    event_arg(m, ev, m->comm, &handle))
			comms__drop(&p->comms, handle);
		break;
	case OP_GROUP_START:
		begin_group(ev, t);
		break;
	case OP_GROUP_END:
		end_group(m, ev, t);
		break;
	default:
		if (op_does(m->fn->op, DOES_COLLECTIVE | DOES_PEER))
			used(m, ev, p, t);
	}
}
