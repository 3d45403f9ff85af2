/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "model.h"

#include "driver.h"
#include "meaning.h"

#include "event/check.h"

#include <stdlib.h>
#include <string.h>

struct model {
	struct model_opts opts;
	struct procs procs;
	struct kernel_names *names;
	struct driver driver;
	struct stacks *stacks;
	struct meaning meanings[CT_MAX_FUNCS];
	uint64_t bad_cnt;
	uint64_t filtered_cnt;
};

struct model *model__new(const struct model_opts *opts)
{
	struct model *m = calloc(1, sizeof(*m));

	if (!m)
		return NULL;
	m->opts = *opts;
	m->stacks = stacks__new(opts->quotas, opts->hide);
	m->names = kernel_names__new(opts->quotas);
	m->procs = (struct procs){
		.live = opts->live,
		.quotas = opts->quotas,
		.names = m->names,
	};
	if (!m->stacks || !m->names ||
	    (opts->kernel && driver__init(&m->driver, opts->abi, opts->quotas))) {
		model__free(m);
		return NULL;
	}
	return m;
}

void model__free(struct model *m)
{
	if (!m)
		return;
	procs__free(&m->procs);
	stacks__free(m->stacks);
	driver__close(&m->driver);
	kernel_names__free(m->names);
	free(m);
}

void model__forget(struct model *m, uint32_t pid)
{
	struct proc *p = procs__find(&m->procs, pid);

	if (p)
		procs__remove(&m->procs, p);
}

void model__forget_fn(struct model *m, unsigned func_id)
{
	m->meanings[func_id].fn = NULL;
}

unsigned model__tidy(struct model *m)
{
	return procs__tidy(&m->procs);
}

uint64_t model__filtered(const struct model *m)
{
	return m->filtered_cnt;
}

void model__objects(const struct model *m, struct trace_end *end)
{
	struct nv_objects_stats stats;

	end->has_objects = m->opts.kernel && m->opts.hide != CT_HIDE_ARGS;
	if (!end->has_objects)
		return;
	nv_objects__stats(m->driver.objects, &stats);
	end->object_refused_cnt = stats.refused_cnt;
	end->object_unknown_cnt = m->driver.unknown_cnt;
}

uint64_t model__bad_records(const struct model *m)
{
	return m->bad_cnt;
}

/* NULL: no such function. */
static const struct meaning *get_meaning(struct model *m, uint32_t func_id)
{
	const struct cuda_fn *fn;

	if (func_id >= CT_MAX_FUNCS)
		return NULL;
	if (!m->meanings[func_id].fn) {
		fn = fnset__fn(m->opts.fns, func_id);
		if (!fn)
			return NULL;
		meaning__init(&m->meanings[func_id], fn);
	}
	return &m->meanings[func_id];
}

static void fill_call(struct event *ev, const struct raw_call *raw, const struct cuda_fn *fn)
{
	const struct ct_call *c = raw->call;

	ev->kind = EVENT_CALL;
	ev->name = fn->name;
	ev->fn = fn;
	ev->pid = c->rec.pid;
	ev->tid = c->rec.tid;
	ev->start_ns = c->rec.ts_ns;
	ev->end_ns = c->end_ns;
	ev->id = c->call_id;
	ev->parent_id = c->parent_id;
	ev->depth = c->depth;
	ev->api_depth = c->api_depth;
	ev->lib_id = c->lib_id;
	ev->result = fn->no_result ? 0 : c->result;
	ev->ioctl_cnt = c->ioctl_cnt;
	ev->ioctl_ns = c->ioctl_ns;
	ev->off_cpu_ns = c->off_cpu_ns;
	ev->unfinished = c->rec.flags & CT_CALL_F_UNFINISHED;
	ev->abandoned = c->rec.flags & CT_CALL_F_ABANDONED;
	ev->entry_only = c->rec.flags & CT_CALL_F_ENTRY_ONLY;
	ev->is_error = event_returned(ev) && fn_is_error(fn, ev->result);
	ev->words = raw->words;
	ev->word_cnt = raw->word_cnt;
	ev->cap_cnt = raw->cap_cnt;
	for (unsigned i = 0; i < raw->cap_cnt; i++)
		ev->caps[i] = (struct capture){raw->caps[i].data, raw->caps[i].len};
}

/* Hands out its definition when it is new. */
static void add_stack(struct model *m, struct proc *p, const struct raw_call *raw, struct event *ev)
{
	struct event def = {
		.kind = EVENT_STACK,
		.type = TYPE_STACK,
		.op = "stack",
		.name = "stack",
		.pid = ev->pid,
		.tid = ev->tid,
		.comm = ev->comm,
		.start_ns = ev->start_ns,
		.end_ns = ev->start_ns,
	};
	const uint64_t *ips = raw->stack;
	unsigned cnt = raw->stack_cnt;
	bool is_new;

	/* At an entry the return address may have been found twice. */
	if (ev->entry_only && cnt > 1 && ips[0] == ips[1]) {
		ips++;
		cnt--;
	}
	ev->stack = proc_stacks__get(m->stacks, &p->stacks, m->opts.live ? p->pid : 0, ips, cnt,
				     ev->end_ns, &is_new);
	def.stack = ev->stack;
	if (ev->stack && is_new)
		m->opts.fn(m->opts.ctx, &def);
}

static void on_call(struct model *m, const struct raw_call *raw)
{
	const struct meaning *meaning;
	struct event ev = {0};
	struct thread *t;
	struct proc *p;

	if (raw->call->func_id == m->opts.stub_func_id)
		return;
	meaning = get_meaning(m, raw->call->func_id);
	if (!meaning) {
		m->bad_cnt++;
		return;
	}
	p = procs__get(&m->procs, raw->call->rec.pid);
	t = p ? proc__thread(&m->procs, p, raw->call->rec.tid) : NULL;
	if (!t)
		return;
	fill_call(&ev, raw, meaning->fn);
	ev.comm = t->comm;
	ev.has |= (m->opts.kernel ? HAS_IOCTLS : 0) | (m->opts.sched ? HAS_OFF_CPU : 0);
	meaning__apply(meaning, &ev, p);
	if (!ev.entry_only && event_duration_ns(&ev) < m->opts.min_duration_ns) {
		m->filtered_cnt++;
		return;
	}
	if (raw->stack_cnt)
		add_stack(m, p, raw, &ev);
	m->opts.fn(m->opts.ctx, &ev);
}

static void on_thread(struct model *m, const struct ct_task *rec)
{
	struct proc *p = procs__get(&m->procs, rec->rec.pid);
	struct thread *t;

	/* Comes before the first call of a thread: here of the next process with this id. */
	if (p && p->ended)
		procs__renew(&m->procs, p);
	t = p ? proc__thread(&m->procs, p, rec->rec.tid) : NULL;
	if (t)
		thread__set_comm(t, rec->comm);
	if (t && m->opts.stacks && m->opts.live)
		proc_stacks__look(m->stacks, &p->stacks, p->pid);
}

static void on_name(struct model *m, const struct ct_name *rec)
{
	struct proc *p = procs__get(&m->procs, rec->rec.pid);

	if (p)
		handles__told(&p->handles, rec->handle, rec->name, rec->len);
}

static void on_process(struct model *m, const struct ct_task *rec, const char *op)
{
	struct proc *p = procs__find(&m->procs, rec->rec.pid);
	char comm[sizeof(rec->comm) + 1] = {0};
	struct event ev = {
		.kind = EVENT_PROCESS,
		.type = TYPE_PROCESS,
		.op = op,
		.name = op,
		.pid = rec->rec.pid,
		.tid = rec->rec.tid,
		.comm = comm,
		.start_ns = rec->rec.ts_ns,
		.end_ns = rec->rec.ts_ns,
		.parent_pid = rec->parent_pid,
		.exit_code = rec->exit_code,
		.life = rec->life,
	};

	memcpy(comm, rec->comm, sizeof(rec->comm));
	/* A new process, too: its id may be one whose exit was lost. */
	if (p && (rec->rec.kind == CT_REC_EXEC || rec->rec.kind == CT_REC_FORK))
		procs__renew(&m->procs, p);
	m->opts.fn(m->opts.ctx, &ev);
	if (rec->rec.kind == CT_REC_EXIT)
		driver__end_process(&m->driver, rec->rec.pid);
	if (p && rec->rec.kind == CT_REC_EXIT)
		procs__end(&m->procs, p);
}

static void on_driver(struct model *m, const void *rec, size_t size)
{
	struct driver_scratch scratch;
	struct event ev = {0}, sched = {0};
	struct raw_nv raw;
	struct proc *p;
	struct thread *t;

	if (!m->opts.kernel || raw_check_nv(rec, size, &raw)) {
		m->bad_cnt++;
		return;
	}
	p = procs__get(&m->procs, raw.nv->rec.pid);
	t = p ? proc__thread(&m->procs, p, raw.nv->rec.tid) : NULL;
	if (!t)
		return;
	ev.pid = raw.nv->rec.pid;
	ev.tid = raw.nv->rec.tid;
	ev.comm = t->comm;
	ev.start_ns = raw.nv->rec.ts_ns;
	ev.end_ns = raw.nv->end_ns;
	if (driver__event(&m->driver, &raw, m->opts.fns, &scratch, &ev, &sched))
		m->opts.fn(m->opts.ctx, &sched);
	m->opts.fn(m->opts.ctx, &ev);
}

static void on_xid(struct model *m, const struct ct_xid *rec)
{
	char device[sizeof(rec->device) + 1] = {0}, msg[sizeof(rec->msg) + 1] = {0};
	struct event ev = {
		.kind = EVENT_XID,
		.type = TYPE_XID,
		.op = "xid",
		.name = "xid",
		.pid = rec->rec.pid,
		.tid = rec->rec.tid,
		.comm = "",
		.start_ns = rec->rec.ts_ns,
		.end_ns = rec->rec.ts_ns,
		.is_error = true,
		.number = rec->code,
		.path = device,
		.note = *rec->msg ? msg : NULL,
	};

	memcpy(device, rec->device, sizeof(rec->device));
	memcpy(msg, rec->msg, sizeof(rec->msg));
	m->opts.fn(m->opts.ctx, &ev);
}

static void on_uvm(struct model *m, const struct ct_uvm *rec)
{
	bool hidden = m->opts.hide == CT_HIDE_ARGS;
	bool fault = rec->op == CT_UVM_FAULT;
	struct event ev = {
		.kind = EVENT_UVM,
		.type = TYPE_UVM,
		.op = fault				 ? "fault"
		      : rec->cause == UVM_CAUSE_EVICTION ? "eviction"
							 : "migration",
		.pid = rec->rec.pid,
		.tid = rec->rec.tid,
		.comm = "",
		.start_ns = rec->rec.ts_ns,
		.end_ns = rec->rec.ts_ns,
		.has = hidden  ? 0
		       : fault ? HAS_PTR
			       : HAS_PTR | HAS_SIZE,
		.ptr = rec->address,
		.size = rec->bytes,
		.uvm_src = rec->src,
		.uvm_dst = rec->dst,
		.uvm_cause = rec->cause,
		.uvm_write = rec->is_write,
	};

	ev.name = ev.op;
	m->opts.fn(m->opts.ctx, &ev);
}

static void on_irq(struct model *m, const struct ct_irq *rec)
{
	struct event ev = {
		.kind = EVENT_IRQ,
		.type = TYPE_INTERRUPT,
		.op = "interrupt",
		.name = "nvidia",
		.pid = rec->rec.pid,
		.tid = rec->rec.tid,
		.comm = "",
		.start_ns = rec->rec.ts_ns,
		.end_ns = rec->rec.ts_ns,
		.number = rec->irq,
		.cpu = rec->cpu,
	};

	m->opts.fn(m->opts.ctx, &ev);
}

void model__record(struct model *m, const void *rec, size_t size)
{
	struct raw_call raw;

	switch (raw_check(rec, size, &raw)) {
	case CT_REC_CALL:
		on_call(m, &raw);
		break;
	case CT_REC_THREAD:
		on_thread(m, rec);
		break;
	case CT_REC_FORK:
		on_process(m, rec, "fork");
		break;
	case CT_REC_EXEC:
		on_process(m, rec, "exec");
		break;
	case CT_REC_EXIT:
		on_process(m, rec, "exit");
		break;
	case CT_REC_NV:
		on_driver(m, rec, size);
		break;
	case CT_REC_IRQ:
		on_irq(m, rec);
		break;
	case CT_REC_XID:
		on_xid(m, rec);
		break;
	case CT_REC_UVM:
		on_uvm(m, rec);
		break;
	case CT_REC_NAME:
		on_name(m, rec);
		break;
	case CT_REC_LIB:
		break;
	default:
		m->bad_cnt++;
	}
}
