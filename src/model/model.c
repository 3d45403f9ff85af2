/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "model.h"

#include "collective.h"
#include "dnn_call.h"
#include "event_table.h"
#include "gpu_stats.h"
#include "model_priv.h"

#include "record/check.h"
#include "util/clock.h"
#include "util/words.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

struct model *model__new(const struct model_opts *opts)
{
	struct model *m = calloc(1, sizeof(*m));

	if (!m)
		return NULL;
	m->opts = *opts;
	m->stacks = stacks__new(opts->quotas, opts->hide);
	m->names = kernel_names__new(opts->quotas);
	m->ranges = (struct ranges){
		.fn = opts->fn,
		.ctx = opts->ctx,
		.quotas = opts->quotas,
		.min_duration_ns = opts->min_duration_ns,
		.no_texts = opts->hide != CT_HIDE_NOTHING,
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

unsigned model__tidy(struct model *m)
{
	return procs__tidy(&m->procs);
}

uint64_t model__filtered(const struct model *m)
{
	return m->filtered_cnt;
}

void model__calls_lost(struct model *m)
{
	for (struct proc *p = m->procs.by_pid; p; p = p->hh.next)
		comms__lost(&p->comms);
	ranks__lost(&m->ranks);
}

void model__handles_lost(struct model *m, uint32_t pid)
{
	for (struct proc *p = m->procs.by_pid; p; p = p->hh.next)
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
	const struct api_fn *fn;

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

/* Of the last call; what calls have. */
static inline void clear_call(struct trace_event *ev)
{
	const size_t base = offsetof(struct trace_event, coll);

	if (!ev->plain)
		words_clear((char *)ev + base, offsetof(struct trace_event, caps) - base);
	words_clear(ev, base);
}

static void fill_call(struct trace_event *ev, const struct raw_call *raw, const struct meaning *m)
{
	const struct ct_call *c = raw->call;
	const struct api_fn *fn = m->fn;

	ev->plain = m->plain;
	ev->kind = EVENT_CALL;
	ev->name = fn->name;
	ev->fn = fn;
	ev->pid = c->rec.pid;
	ev->tid = c->rec.tid;
	ev->start_ns = c->rec.ts_ns;
	ev->end_ns = c->end_ns;
	ev->id = raw->id;
	ev->parent_id = raw->parent_id;
	ev->depth = c->depth;
	ev->api_depth = c->api_depth;
	ev->lib_id = c->lib_id;
	ev->result = fn->no_result ? 0 : c->result;
	if (c->ioctl_cnt | c->ioctl_ns | c->off_cpu_ns) {
		ev->plain = false;
		ev->ioctl_cnt = c->ioctl_cnt;
		ev->ioctl_ns = c->ioctl_ns;
		ev->off_cpu_ns = c->off_cpu_ns;
	}
	ev->unfinished = c->rec.flags & CT_CALL_F_UNFINISHED;
	ev->abandoned = c->rec.flags & CT_CALL_F_ABANDONED;
	ev->entry_only = c->rec.flags & CT_CALL_F_ENTRY_ONLY;
	ev->is_error = event_returned(ev) && fn_is_error(fn, ev->result);
	ev->words = raw->words;
	ev->word_cnt = raw->word_cnt;
	ev->cap_cnt = raw->cap_cnt;
	for (unsigned i = 0; i < raw->cap_cnt; i++)
		ev->caps[i] = (struct pointee){raw->caps[i].data, raw->caps[i].len};
}

/* An event that has no duration, from a record. op is its name, too. */
static struct trace_event event_of(enum event_kind kind, const struct ct_rec *rec, const char *op)
{
	return (struct trace_event){
		.kind = kind,
		.type = event_kinds[kind].type,
		.op = op,
		.name = op,
		.pid = rec->pid,
		.tid = rec->tid,
		.comm = "",
		.start_ns = rec->ts_ns,
		.end_ns = rec->ts_ns,
	};
}

/* Hands out its definition when it is new. */
static void add_stack(struct model *m, struct proc *p, const struct raw_call *raw,
		      struct trace_event *ev)
{
	struct trace_event def = event_of(EVENT_STACK, &raw->call->rec, "stack");
	struct stack_source from = {
		.ips = raw->stack,
		.cnt = raw->stack_cnt,
		.python = raw->python,
		.python_cnt = raw->python_cnt,
	};
	bool is_new;

	/* At an entry the return address may have been found twice. */
	if (ev->entry_only && from.cnt > 1 && from.ips[0] == from.ips[1]) {
		from.ips++;
		from.cnt--;
	}
	ev->stack = proc_stacks__get(m->stacks, &p->stacks, m->opts.live ? p->pid : 0, &from,
				     ev->end_ns, &is_new);
	def.comm = ev->comm;
	def.stack = ev->stack;
	if (ev->stack && is_new)
		m->opts.fn(m->opts.ctx, &def);
}

const struct stack *model__stack(struct model *m, uint32_t pid, uint32_t tid,
				 const struct stack_source *from, uint64_t now)
{
	const struct ct_rec rec = {.pid = pid, .tid = tid, .ts_ns = now};
	struct trace_event def = event_of(EVENT_STACK, &rec, "stack");
	struct proc *p = procs__find(&m->procs, pid);
	struct thread *t = p ? proc__thread(&m->procs, p, tid) : NULL;
	bool is_new;

	if (!t)
		return NULL;
	proc_stacks__forget(p->stacks);
	def.comm = t->comm;
	def.stack = proc_stacks__get(m->stacks, &p->stacks, pid, from, now, &is_new);
	if (def.stack)
		m->opts.fn(m->opts.ctx, &def);
	return def.stack;
}

bool model__wants_python(struct model *m, uint32_t pid)
{
	struct proc *p = procs__find(&m->procs, pid);

	return m->opts.python && (!p || proc_stacks__wants_python(p->stacks, now_ns()));
}

void model__set_python(struct model *m, uint32_t pid, const struct python_place *py)
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
	for (struct proc *p = m->procs.by_pid; p; p = p->hh.next) {
		ranges__unfinished(&m->ranges, p, 0);
		operators__unfinished(&m->operators, p);
	}
	model__gpu_flush(m);
	model__give_devices(m, now_ns());
}

static void add_range(const struct thread *t, struct trace_event *ev)
{
	const struct range *r = thread_range_at(t, ev->start_ns);

	if (!r)
		return;
	ev->range_id = r->id;
	ev->range_text = range__text(r);
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

void model__in_flight(struct model *m, uint32_t pid, uint32_t tid, uint32_t func_id,
		      const __u64 words[CT_MAX_WORDS], uint64_t start_ns)
{
	const struct meaning *meaning = get_meaning(m, func_id);
	struct proc *p = procs__find(&m->procs, pid);
	struct rank_begun b;

	if (!meaning || !p || !collective__in_flight(meaning, p, words, &b))
		return;
	b.tid = tid;
	b.ns = start_ns;
	ranks__begun(&m->ranks, &b);
}

/* How each record of ct_rec.def is taken: raw->rec is the first of the two. */

static void on_call(struct model *m, const void *rec, const struct raw *checked)
{
	const struct raw_call *raw = &checked->call;
	const struct meaning *meaning;
	struct trace_event *ev = &m->call;
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
	clear_call(ev);
	fill_call(ev, raw, meaning);
	ev->comm = t->comm;
	ev->has_comm16 = true;
	ev->kernel_id = ev->kernel_mangled_id = 0;
	if (t->operators.cnt | raw->operator_id)
		operators__enter(&m->operators, raw, p, t, ev);
	if (meaning->fn->api == API_TORCH) {
		operators__call(&m->operators, meaning, raw, ev, p, t);
		return;
	}
	if (meaning->fn->api == API_NVTX) {
		ranges__call(&m->ranges, meaning, ev, p, t, raw->call->result);
		return;
	}
	if (t->range)
		add_range(t, ev);
	ev->has |= (m->opts.kernel ? HAS_IOCTLS : 0) | (m->opts.sched ? HAS_OFF_CPU : 0);
	meaning__apply(meaning, ev, p);
	if (meaning->fn->class == CLASS_DNN)
		dnn__call(m->procs.quotas, meaning, ev, p);
	if (meaning->fn->class == CLASS_DEVICE)
		devices__call(&m->devices, meaning, ev);
	else if (m->devices.new_cnt)
		model__give_devices(m, ev->start_ns);
	if (meaning->fn->class == CLASS_COLLECTIVE) {
		collective__apply(meaning, ev, p, t);
		if (m->opts.live)
			ranks__event(&m->ranks, ev);
	} else if (meaning->fn->class == CLASS_LAUNCH && ev->depth) {
		collective__launched(meaning, ev, t);
	}
	if (!ev->entry_only && event_duration_ns(ev) < m->opts.min_duration_ns) {
		m->filtered_cnt++;
		if (m->opts.gpu_time)
			model__gpu_call(m, p, t, ev, false);
		return;
	}
	if (m->opts.python)
		stacks__count_python(
			m->stacks, raw->call,
			fnset__is_marked(m->opts.fns, FNSET_PYTHON, raw->call->func_id));
	if (raw->stack_cnt || raw->python_cnt)
		add_stack(m, p, raw, ev);
	m->opts.fn(m->opts.ctx, ev);
	if (m->opts.gpu_time)
		model__gpu_call(m, p, t, ev, true);
}

static void on_thread(struct model *m, const void *data, const struct raw *raw)
{
	const struct ct_task *rec = data;
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

static void on_name(struct model *m, const void *data, const struct raw *raw)
{
	const struct ct_name *rec = data;
	struct proc *p = procs__get(&m->procs, rec->rec.pid);

	if (p)
		handles__told(rec->rec.flags & CT_NAME_F_GPU ? &p->gpu_names : &p->handles,
			      rec->handle, rec->name, rec->len);
}

static void on_process(struct model *m, const struct ct_task *rec, const char *op)
{
	struct proc *p = procs__find(&m->procs, rec->rec.pid);
	char comm[sizeof(rec->comm) + 1] = {0};
	struct trace_event ev = event_of(EVENT_PROCESS, &rec->rec, op);

	ev.comm = comm;
	ev.life = rec->life;
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
	/* A new process, too: its id may be one whose exit was lost. */
	if (p && (rec->rec.kind == CT_REC_EXEC || rec->rec.kind == CT_REC_FORK))
		procs__renew(&m->procs, p);
	m->opts.fn(m->opts.ctx, &ev);
	if (rec->rec.kind == CT_REC_EXIT)
		driver__end_process(&m->driver, rec->rec.pid);
	if (p && rec->rec.kind == CT_REC_EXIT)
		procs__end(&m->procs, p);
}

static void on_fork(struct model *m, const void *rec, const struct raw *raw)
{
	on_process(m, rec, "fork");
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
	ev.comm = t->comm;
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

	if (m->opts.hide != CT_HIDE_ARGS)
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
		ev.ctxsw.whose = rec->rec.flags & CT_CTXSW_F_KERNEL ? "kernel" : "other user";
	ev.ctxsw.began_before = rec->rec.flags & CT_CTXSW_F_BEFORE;
	ev.ctxsw.missed = rec->missed;
	m->opts.fn(m->opts.ctx, &ev);
}

static void on_gpu_run(struct model *m, const void *data, const struct raw *raw)
{
	model__gpu_run(m, data);
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
	devices__told(&m->devices, data);
	model__give_devices(m, raw->rec->ts_ns);
}

/* Who maps what is trace/libs.c's, what is made in what trace/both.c's. */
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

	on[raw->rec->kind](m, raw->rec, raw);
}
