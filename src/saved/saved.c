/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "saved_priv.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "model/call.h"
#include "saved_value.h"

/* Members that sinks write themselves; the others are what event_visit_fields() gave. */
static const bool call_head[KEY_CNT] = {
	[KEY_ts] = true,	 [KEY_type] = true,	  [KEY_op] = true,
	[KEY_name] = true,	 [KEY_symbol] = true,	  [KEY_pid] = true,
	[KEY_tid] = true,	 [KEY_comm] = true,	  [KEY_id] = true,
	[KEY_parent] = true,	 [KEY_api] = true,	  [KEY_api_depth] = true,
	[KEY_depth] = true,	 [KEY_lib] = true,	  [KEY_unfinished] = true,
	[KEY_abandoned] = true,	 [KEY_entry_only] = true, [KEY_duration_us] = true,
	[KEY_elapsed_us] = true, [KEY_result] = true,	  [KEY_error] = true,
	[KEY_args] = true,	 [KEY_stack] = true,
};

static const bool driver_head[KEY_CNT] = {
	[KEY_ts] = true,	 [KEY_type] = true,	  [KEY_op] = true,
	[KEY_name] = true,	 [KEY_pid] = true,	  [KEY_tid] = true,
	[KEY_comm] = true,	 [KEY_unfinished] = true, [KEY_duration_us] = true,
	[KEY_elapsed_us] = true,
};

static const bool other_head[KEY_CNT] = {
	[KEY_ts] = true,  [KEY_type] = true, [KEY_op] = true,	[KEY_name] = true,
	[KEY_pid] = true, [KEY_tid] = true,  [KEY_comm] = true,
};

struct saved *saved__new(void)
{
	struct saved *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->strings = strings__new();
	s->types = strings__new();
	s->symbols = strings__new();
	s->fns = fnset__new();
	s->inner = parser__new();
	if (!s->strings || !s->types || !s->symbols || !s->fns || !s->inner) {
		saved__free(s);
		return NULL;
	}
	for (int t = 0; t < TYPE_CNT; t++) {
		const char *name = event_type_name(t);

		/* 0 is "no such type". */
		strings__get(s->types, name, strlen(name))->tag = (void *)(uintptr_t)(t + 1);
	}
	return s;
}

void saved_procs_clear(struct saved *s)
{
	struct saved_proc *p, *next;

	HASH_ITER (hh, s->procs, p, next) {
		HASH_DEL(s->procs, p);
		mem__clear(&p->mem);
		free(p);
	}
	s->last_proc = NULL;
}

void saved__free(struct saved *s)
{
	if (!s)
		return;
	saved_procs_clear(s);
	saved_traces_free(s);
	saved_stacks_free(s);
	parser__free(s->inner);
	fnset__free(s->fns);
	strings__free(s->symbols);
	strings__free(s->types);
	strings__free(s->strings);
	free(s->joined);
	free(s);
}

const struct cuda_fn *saved_fn(struct saved *s, const char *name, size_t len)
{
	static const struct cuda_fn none = {
		.symbol = "?", .name = "?", .class = CLASS_OTHER, .op = OP_NONE};
	struct string *symbol;
	int id;

	symbol = strings__get(s->symbols, name, len);
	if (!symbol->tag) {
		id = fnset__id(s->fns, symbol->text);
		symbol->tag = id < 0 ? &none : fnset__fn(s->fns, id);
	}
	return symbol->tag;
}

/* Members of a call and of everything else, by what they mean. */
static void take(struct saved *s, struct event *ev, const struct member *m)
{
	struct launch_info *l = &ev->launch;

	switch (m->key) {
	case KEY_pid:
		ev->pid = member_u64(m) + s->pid_add;
		break;
	case KEY_tid:
		ev->tid = member_u64(m) + s->pid_add;
		break;
	case KEY_comm:
		ev->comm = member_str(s, m);
		break;
	case KEY_id:
		ev->id = member_u64(m);
		break;
	case KEY_parent:
		ev->parent_id = member_u64(m);
		break;
	case KEY_depth:
		ev->depth = member_u64(m);
		break;
	case KEY_api_depth:
		ev->api_depth = member_u64(m);
		break;
	case KEY_lib:
		ev->lib_id = member_u64(m);
		break;
	case KEY_unfinished:
		ev->unfinished = m->val == VAL_TRUE;
		break;
	case KEY_abandoned:
		ev->abandoned = m->val == VAL_TRUE;
		break;
	case KEY_entry_only:
		ev->entry_only = m->val == VAL_TRUE;
		break;
	case KEY_duration_us:
	case KEY_elapsed_us:
		ev->end_ns = member_fixed(m, 3, NULL);
		break;
	case KEY_result:
		ev->result = member_i64(m);
		break;
	case KEY_error:
		ev->is_error = true;
		break;
	case KEY_ioctls:
		ev->ioctl_cnt = member_u64(m);
		ev->has |= HAS_IOCTLS;
		break;
	case KEY_ioctl_us:
		ev->ioctl_ns = member_f64(m) * 1e3 + 0.5;
		break;
	case KEY_off_cpu_us:
		ev->off_cpu_ns = member_f64(m) * 1e3 + 0.5;
		ev->has |= HAS_OFF_CPU;
		break;
	case KEY_size:
		ev->size = member_u64(m);
		ev->has |= HAS_SIZE;
		break;
	case KEY_ptr:
		ev->ptr = member_u64(m);
		ev->has |= HAS_PTR;
		break;
	case KEY_stream:
		ev->stream = member_u64(m);
		ev->has |= HAS_STREAM;
		break;
	case KEY_event:
		ev->event = member_u64(m);
		ev->has |= HAS_EVENT;
		break;
	case KEY_direction:
		ev->dir = member_dir(m);
		ev->has |= ev->dir ? HAS_DIR : 0;
		break;
	case KEY_bandwidth_gbps:
		ev->bandwidth_gbps = member_f64(m);
		ev->has |= HAS_BANDWIDTH;
		break;
	case KEY_kernel:
		l->kernel = member_str(s, m);
		ev->has |= l->kernel ? HAS_KERNEL : 0;
		break;
	case KEY_kernel_mangled:
		l->kernel_mangled = member_str(s, m);
		break;
	case KEY_kernel_source:
		l->kernel_guessed = true;
		break;
	case KEY_func:
		l->func = member_u64(m);
		break;
	case KEY_grid:
		l->has_config = member_dim(m, l->grid);
		break;
	case KEY_block:
		member_dim(m, l->block);
		break;
	case KEY_cluster:
		member_dim(m, l->cluster);
		break;
	case KEY_shared_mem:
		l->shared_mem_sz = member_u64(m);
		break;
	case KEY_cooperative:
		l->cooperative = m->val == VAL_TRUE;
		break;
	case KEY_capturing:
		ev->capturing = m->val == VAL_TRUE;
		break;
	case KEY_stack:
		ev->stack = saved_stack_of(s, member_u64(m));
		break;
	case KEY_args:
		s->text.args = m->text;
		s->text.args_len = m->val == VAL_OBJECT ? m->len : 0;
		break;
	case KEY_parent_pid:
		ev->parent_pid = member_u64(m) + s->pid_add;
		break;
	case KEY_exit_code:
		ev->exit_code = (member_u64(m) & 0xff) << 8;
		break;
	case KEY_signal:
		ev->exit_code = member_u64(m) & 0x7f;
		break;
	case KEY_path:
	case KEY_gpu:
		ev->path = member_str(s, m);
		break;
	case KEY_build_id:
		ev->build_id = member_str(s, m);
		break;
	case KEY_note:
	case KEY_why:
	case KEY_message:
		ev->note = member_str(s, m);
		break;
	case KEY_xid:
	case KEY_irq:
		ev->number = member_u64(m);
		break;
	case KEY_cpu:
		ev->cpu = member_u64(m);
		break;
	case KEY_processor:
	case KEY_to:
		ev->uvm_dst = member_processor(m);
		break;
	case KEY_from:
		ev->uvm_src = member_processor(m);
		break;
	case KEY_cause:
		ev->uvm_cause = member_cause(m);
		break;
	case KEY_write:
		ev->uvm_write = m->val == VAL_TRUE;
		break;
	default:
		break;
	}
}

/* The members that are no part of the head, as they stand there: in one piece, or copied together
 * when someone has changed their order. */
static bool take_fields(struct saved *s, const struct parsed *p, const char *line, const bool *head)
{
	const struct member *first = NULL, *last = NULL;
	size_t n = 0;

	for (const struct member *m = p->m; m < p->m + p->cnt; m++) {
		if (head[m->key])
			continue;
		if (!first)
			first = m;
		n += last && last != m - 1;
		last = m;
	}
	s->text.fields = first ? line + first->from : "";
	s->text.fields_len = first ? last->to - first->from : 0;
	if (!n)
		return true;
	if (s->joined_cap < s->text.fields_len) {
		char *grown = realloc(s->joined, s->text.fields_len);

		if (!grown)
			return false;
		s->joined = grown;
		s->joined_cap = s->text.fields_len;
	}
	n = 0;
	for (const struct member *m = first; m <= last; m++) {
		if (head[m->key])
			continue;
		if (n)
			s->joined[n++] = ',';
		memcpy(s->joined + n, line + m->from, m->to - m->from);
		n += m->to - m->from;
	}
	s->text.fields = s->joined;
	s->text.fields_len = n;
	return true;
}

static struct saved_proc *proc_get(struct saved *s, uint32_t pid)
{
	struct saved_proc *p = s->last_proc;

	if (p && p->pid == pid)
		return p;
	HASH_FIND(hh, s->procs, &pid, sizeof(pid), p);
	if (!p) {
		p = calloc(1, sizeof(*p));
		if (!p)
			return NULL;
		p->pid = pid;
		HASH_ADD(hh, s->procs, pid, sizeof(p->pid), p);
	}
	return s->last_proc = p;
}

static void finish_call(struct saved *s, struct event *ev)
{
	struct saved_proc *p;

	ev->kind = EVENT_CALL;
	if (!ev->lib_id)
		ev->lib_id = 1;
	if (call_does(ev, DOES_LAUNCH) && ev->fn->op != OP_LAUNCH_MULTI)
		ev->has |= HAS_LAUNCH;
	if (!ev->launch.kernel_mangled)
		ev->launch.kernel_mangled = ev->launch.kernel;
	/* Without a name it is the function's, which may be several symbols'. */
	if (!strcmp(ev->name, ev->fn->name))
		ev->name = ev->fn->name;
	if (ev->type != TYPE_MEMORY && ev->type != TYPE_CONTEXT && ev->type != TYPE_INIT)
		return;
	p = proc_get(s, ev->pid);
	if (p)
		mem__event(&p->mem, ev);
}

static void finish_process(struct saved *s, struct event *ev)
{
	struct saved_proc *p;

	ev->kind = EVENT_PROCESS;
	HASH_FIND(hh, s->procs, &ev->pid, sizeof(ev->pid), p);
	if (!p)
		return;
	HASH_DEL(s->procs, p);
	mem__clear(&p->mem);
	free(p);
	s->last_proc = NULL;
}

static void finish_tracer(struct saved *s, const struct parsed *p, struct event *ev)
{
	const struct member *from = parsed_find(p, "from"), *to = parsed_find(p, "to");

	ev->level_from = from ? member_str(s, from) : NULL;
	ev->level_to = to ? member_str(s, to) : NULL;
}

/* Kind of the event by its type; -1 when it is none. */
static int kind_of(const struct event *ev, bool has_id, bool has_device)
{
	switch (ev->type) {
	case TYPE_PROCESS:
		return EVENT_PROCESS;
	case TYPE_LIBRARY:
		return EVENT_LIBRARY;
	case TYPE_SCHEDULER:
		return EVENT_SCHED;
	case TYPE_XID:
		return EVENT_XID;
	case TYPE_INTERRUPT:
		return EVENT_IRQ;
	case TYPE_UVM:
		return EVENT_UVM;
	case TYPE_TRACER:
		return EVENT_TRACER;
	case TYPE_KERNEL:
		if (!has_id && has_device)
			return EVENT_DRIVER;
		/* fall through */
	default:
		return has_id ? EVENT_CALL : -1;
	}
}

/* What every line has; pointers to members that decide what it is. */
struct head {
	const struct member *ts, *type, *op, *name, *symbol;
	bool has_id, has_device;
};

static int read_event(struct saved *s, const struct parsed *p, const char *line,
		      const struct head *h, struct event *ev, const char **why)
{
	uint64_t duration;
	bool negative;
	int kind;

	kind = kind_of(ev, h->has_id, h->has_device);
	*why = "it lacks what events of its type have: was it changed?";
	if (kind < 0 || !h->op || !h->name)
		return -EINVAL;
	ev->op = member_op(s, h->op);
	ev->name = member_str(s, h->name);
	if (!ev->name || !ev->op)
		return -EINVAL;
	memset(&s->text, 0, sizeof(s->text));
	if (kind == EVENT_CALL) {
		const struct member *symbol = h->symbol ? h->symbol : h->name;

		ev->fn = saved_fn(s, symbol->text, symbol->val == VAL_STRING ? symbol->len : 0);
	}
	ev->api_depth = UINT_MAX;
	for (const struct member *m = p->m; m < p->m + p->cnt; m++)
		take(s, ev, m);
	if (ev->api_depth == UINT_MAX) /* written where it is another number only */
		ev->api_depth = ev->depth;
	duration = ev->end_ns;
	ev->start_ns = member_fixed(h->ts, 6, &negative);
	if (!negative)
		ev->start_ns += s->base_ns;
	else
		ev->start_ns = ev->start_ns < s->base_ns ? s->base_ns - ev->start_ns : 0;
	ev->end_ns = ev->start_ns + duration;
	ev->kind = kind;
	ev->text = &s->text;
	if (!take_fields(s, p, line,
			 kind == EVENT_CALL	? call_head
			 : kind == EVENT_DRIVER ? driver_head
						: other_head)) {
		*why = "out of memory: close other programs";
		return -EINVAL;
	}
	if (kind == EVENT_CALL)
		finish_call(s, ev);
	else if (kind == EVENT_PROCESS)
		finish_process(s, ev);
	else if (kind == EVENT_DRIVER || kind == EVENT_SCHED)
		saved_driver(s, p, ev);
	else if (kind == EVENT_TRACER)
		finish_tracer(s, p, ev);
	if (ev->end_ns > s->last_ns)
		s->last_ns = ev->end_ns;
	return SAVED_EVENT;
}

int saved__line(struct saved *s, const struct parsed *p, const char *line, struct event *ev,
		const char **why)
{
	const struct string *type;
	struct head h = {0};

	*why = "it has no \"ts\" and \"type\": it is no line of cudatrace --jsonl";
	if (!p->is_object)
		return -EINVAL;
	for (const struct member *m = p->m; m < p->m + p->cnt; m++) {
		if (m->key == KEY_ts)
			h.ts = m;
		else if (m->key == KEY_type)
			h.type = m;
		else if (m->key == KEY_op)
			h.op = m;
		else if (m->key == KEY_name)
			h.name = m;
		else if (m->key == KEY_symbol)
			h.symbol = m;
		h.has_id |= m->key == KEY_id;
		h.has_device |= m->key == KEY_device;
	}
	if (!h.ts || h.ts->val != VAL_NUMBER || !h.type || h.type->val != VAL_STRING)
		return -EINVAL;
	type = strings__get(s->types, h.type->text, h.type->len);
	if (!type->tag && !strcmp(type->text, "header"))
		return saved_header(s, p, why);
	if (!type->tag && !strcmp(type->text, "end"))
		return saved_end(s, p);
	if (!type->tag)
		return SAVED_UNKNOWN;
	if ((uintptr_t)type->tag - 1 == TYPE_STACK)
		return saved_stack(s, p, why);
	memset(ev, 0, sizeof(*ev));
	ev->type = (uintptr_t)type->tag - 1;
	return read_event(s, p, line, &h, ev, why);
}
