/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "model.h"

#include "comms.h"
#include "dnn.h"
#include "event_table.h"
#include "gpu_stats.h"
#include "model_priv.h"
#include "samples.h"

#include "record/check.h"
#include "util/clock.h"
#include "util/profile_budget.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

struct model *model__new(const struct model_opts *opts)
{
	struct model *m = calloc(1, sizeof(*m));

	if (!m)
		return NULL;
	m->opts = *opts;
	m->stacks = stacks__new(opts->quotas, opts->redact, &opts->python_check);
	m->names = kernel_names__new(opts->quotas);
	m->ranges = (struct ranges){
		.fn = opts->fn,
		.on_range = opts->on_range,
		.ctx = opts->ctx,
		.quotas = opts->quotas,
		.min_duration_ns = opts->min_duration_ns,
		.no_texts = opts->redact != CT_REDACT_NOTHING,
	};
	m->operators = (struct operators){
		.fn = opts->fn,
		.ctx = opts->ctx,
		.on = opts->fns && fnset__wants_api(opts->fns, api_at(API_TORCH)),
		.min_duration_ns = opts->min_duration_ns,
		.lib = opts->torch_lib,
		.lib_ctx = opts->torch_ctx,
	};
	m->procs = (struct procs){
		.live = opts->live,
		.kernel_args = opts->kernel_args,
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
	ranks__free(&m->ranks);
	driver__close(&m->driver);
	devices__free(&m->devices);
	kernel_names__free(m->names);
	free(m);
}

void model__forget(struct model *m, uint32_t pid)
{
	struct proc *p = procs__find(&m->procs, pid);

	ranks__ended(&m->ranks, pid);
	if (p)
		procs__remove(&m->procs, p);
}

void model__forget_fn(struct model *m, unsigned func_id)
{
	m->meanings[func_id].fn = NULL;
}

unsigned model__compact(struct model *m)
{
	return procs__compact(&m->procs);
}

uint64_t model__filtered(const struct model *m)
{
	return m->filtered_cnt;
}

void model__calls_lost(struct model *m, uint32_t pid)
{
	hash_each (p, &m->procs.by_pid)
		if (!pid || p->pid == pid)
			comms__lost(&p->comms);
	ranks__lost(&m->ranks, pid);
}

void model__handles_lost(struct model *m, uint32_t pid)
{
	hash_each (p, &m->procs.by_pid)
		if (!pid || p->pid == pid)
			dnn__clear(p->dnn);
}

bool model__wants_in_flight(const struct model *m)
{
	return ranks__any(&m->ranks);
}

void model__look_at_ranks(struct model *m, uint64_t now,
			  void (*fn)(void *ctx, const struct rank_wait *w), void *ctx)
{
	ranks__look(&m->ranks, now, fn, ctx);
}

void model__each_block(struct model *m, uint32_t pid, void (*fn)(void *ctx, const struct block *b),
		       void *ctx)
{
	const struct proc *p = procs__find(&m->procs, pid);

	for (unsigned s = 0; p && s < SPACE_MAPPED; s++)
		for (const struct block *b = ledger__list(&p->mem.ledger, s); b; b = b->next)
			fn(ctx, b);
}

void model__objects(const struct model *m, struct trace_end *end)
{
	struct nv_objects_stats stats;

	end->has_objects = m->opts.kernel && m->opts.redact != CT_REDACT_ARGS;
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

bool model__wants_python(struct model *m, uint32_t pid)
{
	struct proc *p = procs__find(&m->procs, pid);

	return m->opts.python && (!p || proc_stacks__wants_python(p->stacks, now_ns()));
}

void model__set_python(struct model *m, uint32_t pid, const struct python_location *py)
{
	struct proc *p = procs__get(&m->procs, pid);

	if (p)
		proc_stacks__set_python(m->stacks, &p->stacks, pid, py, now_ns());
}

void model__python(const struct model *m, struct trace_end *end)
{
	stacks__python(m->stacks, &end->python);
}

/* --- --nvtx --- */

void model__flush(struct model *m)
{
	hash_each (p, &m->procs.by_pid) {
		ranges__unfinished(&m->ranges, p, 0);
		operators__unfinished(&m->operators, p);
	}
	model__gpu_flush(m);
	model__give_devices(m, now_ns());
}

void model__nvtx(const struct model *m, struct trace_end *end)
{
	end->nvtx = m->ranges.cnt;
	end->nvtx.on = fnset__wants_api(m->opts.fns, api_at(API_NVTX));
}

void model__torch(const struct model *m, struct trace_end *end)
{
	end->torch = m->operators.cnt;
	end->torch.on = m->operators.on;
}

/* Handlers of the records of ct_rec.def. raw->rec is the first member of each record. */

static void on_call(struct model *m, const void *rec, const struct raw *raw)
{
	model__call(m, &raw->call);
}

static void on_thread(struct model *m, const void *data, const struct raw *raw)
{
	const struct ct_task *rec = data;
	struct proc *p = procs__get(&m->procs, rec->rec.pid);
	struct thread *t;

	/* This record precedes the first call of a thread. If the process has ended, it belongs to
	 * the next process with this ID. */
	if (p && p->ended)
		procs__renew(&m->procs, p);
	t = p ? proc__thread(&m->procs, p, rec->rec.tid) : NULL;
	if (t)
		proc__set_comm(p, t, rec->comm);
	if (t && m->opts.stacks && m->opts.live)
		proc_stacks__look(m->stacks, &p->stacks, p->pid);
}

static void on_sample(struct model *m, const void *rec, const struct raw *raw)
{
	const struct ct_call *call = rec;
	struct proc *p = procs__get(&m->procs, call->rec.pid);
	struct thread *t = p ? proc__thread(&m->procs, p, call->rec.tid) : NULL;

	if (!t)
		return;
	profile_budget__begin();
	profile_budget__spend_within(PROFILE_RECORD_NS);
	samples__add(&m->procs, p, t, &raw->call);
	profile_budget__end();
}

static void on_name(struct model *m, const void *data, const struct raw *raw)
{
	const struct ct_name *rec = data;
	struct proc *p = procs__get(&m->procs, rec->rec.pid);

	if (p)
		handles__set_name(rec->rec.flags & CT_NAME_F_GPU ? &p->gpu_names : &p->handles,
				  rec->handle, rec->name, rec->len);
}

static void on_python(struct model *m, const void *data, const struct raw *raw)
{
	const struct ct_python_code *rec = data;
	struct proc *p = procs__find(&m->procs, rec->rec.pid);

	profile_budget__begin();
	if (p)
		proc_stacks__add_code(p->stacks, rec);
	profile_budget__end();
}

/* A child has its parent's Python, and may have ended before cudatrace looks for it. */
static void fork_python(struct model *m, const struct ct_task *rec)
{
	struct proc *parent = procs__find(&m->procs, rec->parent_pid), *p;

	if (!m->opts.python || !parent || !parent->stacks)
		return;
	p = procs__get(&m->procs, rec->rec.pid);
	parent = procs__find(&m->procs, rec->parent_pid);
	if (p && parent)
		proc_stacks__fork(m->stacks, &p->stacks, p->pid, parent->stacks, now_ns());
}

static void on_process(struct model *m, const struct ct_task *rec, const char *op)
{
	struct proc *p = procs__find(&m->procs, rec->rec.pid);
	char comm[sizeof(rec->comm) + 1] = {0};
	struct trace_event ev = event_of(EVENT_PROCESS, &rec->rec, op);

	ev.comm = comm;
	ev.generation = rec->generation;
	ev.process.parent_pid = rec->parent_pid;
	if (WIFSIGNALED(rec->exit_code))
		ev.process.signal = WTERMSIG(rec->exit_code);
	else
		ev.process.exit_code = WEXITSTATUS(rec->exit_code);
	memcpy(comm, rec->comm, sizeof(rec->comm));
	if (p && rec->rec.kind != CT_REC_FORK) {
		ranges__unfinished(&m->ranges, p, rec->rec.ts_ns);
		operators__unfinished(&m->operators, p);
	}
	model__gpu_end(m, rec->rec.pid);
	if (rec->rec.kind != CT_REC_FORK)
		ranks__ended(&m->ranks, rec->rec.pid);
	model__give_devices(m, rec->rec.ts_ns);
	devices__event(&m->devices, &ev);
	/* Done also for a new process, because the exit of an older process with its ID may have
	 * been dropped. */
	if (p && (rec->rec.kind == CT_REC_EXEC || rec->rec.kind == CT_REC_FORK))
		procs__renew(&m->procs, p);
	if (p)
		memcpy(p->comm, comm, sizeof(p->comm));
	m->opts.fn(m->opts.ctx, &ev);
	if (rec->rec.kind == CT_REC_EXIT)
		driver__end_process(&m->driver, rec->rec.pid);
	if (p && rec->rec.kind == CT_REC_EXIT)
		procs__end(&m->procs, p);
}

static void on_fork(struct model *m, const void *rec, const struct raw *raw)
{
	on_process(m, rec, "fork");
	fork_python(m, rec);
}

static void on_exec(struct model *m, const void *rec, const struct raw *raw)
{
	on_process(m, rec, "exec");
}

static void on_exited(struct model *m, const void *rec, const struct raw *raw)
{
	on_process(m, rec, "exit");
}

static void on_nv(struct model *m, const void *data, const struct raw *raw)
{
	const struct ct_nv *rec = data;
	struct driver_scratch scratch;
	struct trace_event ev = {0}, sched = {0};
	struct proc *p;
	struct thread *t;

	if (!m->opts.kernel) {
		m->bad_cnt++;
		return;
	}
	p = procs__get(&m->procs, rec->rec.pid);
	t = p ? proc__thread(&m->procs, p, rec->rec.tid) : NULL;
	if (!t)
		return;
	ev.pid = rec->rec.pid;
	ev.tid = rec->rec.tid;
	ev.comm = proc__comm(p, t);
	ev.start_ns = rec->rec.ts_ns;
	ev.end_ns = rec->end_ns;
	if (driver__event(&m->driver, &raw->nv, m->opts.fns, &scratch, &ev, &sched))
		m->opts.fn(m->opts.ctx, &sched);
	m->opts.fn(m->opts.ctx, &ev);
}

static void on_xid(struct model *m, const void *data, const struct raw *raw)
{
	const struct ct_xid *rec = data;
	char device[sizeof(rec->device) + 1] = {0}, msg[sizeof(rec->msg) + 1] = {0};
	struct trace_event ev = event_of(EVENT_XID, &rec->rec, "xid");

	memcpy(device, rec->device, sizeof(rec->device));
	memcpy(msg, rec->msg, sizeof(rec->msg));
	ev.is_error = true;
	ev.xid.xid = rec->code;
	ev.xid.gpu = device;
	ev.xid.message = *rec->msg ? msg : NULL;
	m->opts.fn(m->opts.ctx, &ev);
}

static void on_uvm(struct model *m, const void *data, const struct raw *raw)
{
	const struct ct_uvm *rec = data;
	bool fault = rec->op == CT_UVM_FAULT;
	struct trace_event ev = event_of(EVENT_UVM, &rec->rec,
					 fault				    ? "fault"
					 : rec->cause == UVM_CAUSE_EVICTION ? "eviction"
									    : "migration");

	if (m->opts.redact != CT_REDACT_ARGS)
		ev.has = fault ? HAS_PTR : HAS_PTR | HAS_SIZE;
	ev.ptr = rec->address;
	ev.size = rec->bytes;
	ev.uvm.from = rec->src;
	ev.uvm.to = rec->dst;
	ev.uvm.cause = rec->cause;
	ev.uvm.write = rec->is_write;
	m->opts.fn(m->opts.ctx, &ev);
}

static void on_irq(struct model *m, const void *data, const struct raw *raw)
{
	const struct ct_irq *rec = data;
	struct trace_event ev = event_of(EVENT_IRQ, &rec->rec, "interrupt");

	ev.name = "nvidia";
	ev.irq.irq = rec->irq;
	ev.irq.cpu = rec->cpu;
	m->opts.fn(m->opts.ctx, &ev);
}

static void on_ctxsw(struct model *m, const void *data, const struct raw *raw)
{
	const struct ct_ctxsw *rec = data;
	char gpu[sizeof(rec->gpu) + 1] = {0}, comm[sizeof(rec->comm) + 1] = {0};
	struct trace_event ev = event_of(EVENT_CTXSW, &rec->rec, "slice");

	memcpy(gpu, rec->gpu, sizeof(rec->gpu));
	memcpy(comm, rec->comm, sizeof(rec->comm));
	ev.comm = comm;
	ev.end_ns = rec->end_ns;
	ev.unfinished = rec->rec.flags & CT_CTXSW_F_UNFINISHED;
	ev.ctxsw.minor = rec->minor;
	ev.ctxsw.gpu = gpu;
	ev.ctxsw.context = rec->context;
	if (!rec->rec.pid)
		ev.ctxsw.owner = rec->rec.flags & CT_CTXSW_F_KERNEL ? "kernel" : "other user";
	ev.ctxsw.truncated_start = rec->rec.flags & CT_CTXSW_F_BEFORE;
	ev.ctxsw.lost_before = rec->missed;
	m->opts.fn(m->opts.ctx, &ev);
}

static void on_gpu_run(struct model *m, const void *data, const struct raw *raw)
{
	model__gpu_run(m, data);
}

static void on_stalls(struct model *m, const void *data, const struct raw *raw)
{
	model__stalls(m, data);
}

static void on_stall_pcs(struct model *m, const void *data, const struct raw *raw)
{
	model__stall_pcs(m, data);
}

static void on_stall_code(struct model *m, const void *data, const struct raw *raw)
{
	model__stall_code(m, data);
}

static void on_stall_source(struct model *m, const void *data, const struct raw *raw)
{
	model__stall_source(m, data);
}

static void on_gpu(struct model *m, const void *data, const struct raw *raw)
{
	struct gpu_stats_texts texts;
	struct trace_event ev;

	if (gpu_stats__event(data, &texts, &ev)) {
		m->bad_cnt++;
		return;
	}
	devices__event(&m->devices, &ev);
	m->opts.fn(m->opts.ctx, &ev);
}

static void on_device(struct model *m, const void *data, const struct raw *raw)
{
	devices__add_record(&m->devices, data);
	model__give_devices(m, raw->rec->ts_ns);
}

/* trace/libs.c handles mappings, trace/arbiter.c in-process records. */
static void on_lib(struct model *m, const void *rec, const struct raw *raw)
{
}

static void on_enter(struct model *m, const void *rec, const struct raw *raw)
{
}

void model__record(struct model *m, const struct raw *raw)
{
	static void (*const on[CT_REC_KIND_CNT])(struct model *, const void *,
						 const struct raw *) = {
#define REC(ID, id, size) [CT_REC_##ID] = on_##id,
#include "ct_rec.def"
	};

	m->procs.record_ns = raw->rec->ts_ns;
	on[raw->rec->kind](m, raw->rec, raw);
}
