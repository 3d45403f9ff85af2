/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "saved_priv.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "model/call.h"
#include "saved_value.h"
#include "util/memlimit.h"

#define PROCS_MAX 65536

/* Members that identify the kind of a line. */
enum head {
	HEAD_OTHER,
	HEAD_TS,
	HEAD_TYPE,
	HEAD_OP,
	HEAD_NAME,
	HEAD_SYMBOL,
	HEAD_PID,
	HEAD_ID,
	HEAD_DEVICE,
	HEAD_CNT
};

/* For each, a row of events.def with this name. */
static const uint8_t heads[HEAD_CNT] = {
	[HEAD_TS] = F_line_ts,	       [HEAD_TYPE] = F_line_type,	[HEAD_OP] = F_line_op,
	[HEAD_NAME] = F_line_name,     [HEAD_PID] = F_line_pid,		[HEAD_ID] = F_call_id,
	[HEAD_SYMBOL] = F_call_symbol, [HEAD_DEVICE] = F_driver_device,
};

static void learn_row(struct saved *s, enum event_kind kind, const struct event_field *f)
{
	unsigned key = parse_key(f->name), row = f - event_fields + 1;

	s->row_of[kind][key] = row;
	s->take_of[kind][key] = saved_takes(f) ? row : 0;
	s->is_body[kind][key] = f->where == IN_BODY;
}

static void learn_rows(struct saved *s)
{
	for (int k = 0; k < EVENT_KIND_CNT; k++) {
		const struct event_kind_desc *kind = &event_kinds[k];

		/* Members unknown to this version are shown too. */
		memset(s->is_body[k], true, sizeof(s->is_body[k]));
		for (const struct event_field *f = line_rows.first; f < line_rows.end; f++)
			learn_row(s, k, f);
		for (const struct event_field *f = kind->rows.first; f < kind->rows.end; f++)
			learn_row(s, k, f);
		if (kind->type >= 0)
			s->kind_of[kind->type] = k;
	}
	for (unsigned h = HEAD_TS; h < HEAD_CNT; h++)
		s->head_of[parse_key(event_fields[heads[h]].name)] = h;
}

static void all_drop(struct saved_all *all)
{
	if (!all || --all->users)
		return;
	saved_procs_clear(all);
	fnset__free(all->fns[0]);
	fnset__free(all->fns[1]);
	memlimit_share_free(&all->fn_rows);
	strings__free(all->symbols);
	call_ids__free(all->call_ids);
	strings__free(all->types);
	strings__free(all->strings);
	free(all);
}

/* Beside enum event_type: lines that are not events. */
enum { LINE_HEADER = TYPE_CNT, LINE_END };

/* Tag 0 means "no such type". */
static void add_type(struct strings *types, const char *name, unsigned type)
{
	strings__get(types, name, strlen(name))->tag = (void *)(uintptr_t)(type + 1);
}

static struct saved_all *all_new(void)
{
	struct saved_all *all = calloc(1, sizeof(*all));

	if (!all)
		return NULL;
	all->users = 1;
	all->strings = strings__new();
	all->types = strings__new();
	all->symbols = strings__new();
	all->call_ids = call_ids__new();
	all->fns[0] = fnset__new();
	all->fns[1] = fnset__new();
	if (!all->call_ids || !all->strings || !all->types || !all->symbols || !all->fns[0] ||
	    !all->fns[1]) {
		all_drop(all);
		return NULL;
	}
	/* These names come first, so that a full table cannot reject them. */
	for (int t = 0; t < TYPE_CNT; t++)
		add_type(all->types, event_type_name(t), t);
	add_type(all->types, "header", LINE_HEADER);
	add_type(all->types, "end", LINE_END);
	strings__get(all->strings, TRACE_GOES_ON, strlen(TRACE_GOES_ON));
	return all;
}

struct saved *saved__new(void)
{
	return saved__beside(NULL);
}

struct saved *saved__beside(struct saved *other)
{
	struct saved *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->all = other ? other->all : all_new();
	if (other)
		s->all->users++;
	s->inner = parser__new();
	s->stacks = other ? stack_pool__beside(other->stacks) : stack_pool__new();
	if (!s->all || !s->inner || !s->stacks) {
		saved__free(s);
		return NULL;
	}
	learn_rows(s);
	return s;
}

static void proc_free(struct saved_all *s, struct saved_proc *p)
{
	saved_proc_table__del(&s->procs, p);
	mem__clear(&p->mem);
	capture_set__clear(&p->captures);
	memlimit_free(p);
	s->last_proc = NULL;
}

void saved_procs_clear(struct saved_all *all)
{
	hash_each (p, &all->procs)
		proc_free(all, p);
	devices__free(&all->devices);
}

void saved__free(struct saved *s)
{
	if (!s)
		return;
	saved_traces_free(s);
	saved_stacks_free(s);
	parser__free(s->inner);
	all_drop(s->all);
	saved_order_free(s);
	free(s);
}

/* A function missing from the table gets a row in one of two sets. The first set is the part that
 * one process may fill. */
static const struct api_fn *known_fn(struct saved_all *s, const char *symbol)
{
	int id = fnset__find(s->fns[0], symbol);
	unsigned known;

	api_fns(&known);
	if (id < 0 &&
	    !memlimit_charge(&s->fn_rows, 1, CT_MAX_FUNCS - 1 - known, MEMLIMIT_FUNCTIONS))
		return NULL;
	for (int i = 0; i < 2; i++) {
		id = fnset__id(s->fns[i], symbol);
		if (id >= 0)
			return fnset__fn(s->fns[i], id);
	}
	return NULL;
}

const struct api_fn *saved_fn(struct saved *s, const char *name, size_t len)
{
	static const struct api_fn none = {
		.symbol = "?", .name = "?", .class = CLASS_OTHER, .op = OP_NONE};
	struct string *symbol;

	symbol = strings__get(s->all->symbols, name, len);
	if (!symbol->tag)
		symbol->tag = known_fn(s->all, symbol->text) ?: &none;
	return symbol->tag;
}

/* Recognizes a line that cudatrace wrote: its first members, and no blank after a colon. */
static bool begins_as_ours(const struct saved *s, const struct json_value *p, const char *line)
{
	return p->cnt > 3 && s->head_of[p->m[0].key] == HEAD_TS &&
	       s->head_of[p->m[1].key] == HEAD_TYPE && s->head_of[p->m[2].key] == HEAD_OP &&
	       s->head_of[p->m[3].key] == HEAD_NAME && line[p->m->from + p->m->name_len + 3] != ' ';
}

/* Takes the members outside the head in the order in which cudatrace writes them: as a slice of the
 * line, unless another program has changed it. */
static bool take_fields(struct saved *s, const struct json_value *p, const char *line,
			const struct trace_event *ev)
{
	const bool *is_body = s->is_body[ev->kind];
	const uint16_t *row_of = s->row_of[ev->kind];
	const struct member *first = NULL, *last = NULL;
	bool is_ours = begins_as_ours(s, p, line);
	unsigned row = 0;

	for (const struct member *m = p->m; m < p->m + p->cnt; m++) {
		if (!is_body[m->key])
			continue;
		is_ours &= (!last || last == m - 1) && (row_of[m->key] >= row || !row_of[m->key]);
		row = row_of[m->key] ?: UINT16_MAX;
		first = first ?: m;
		last = m;
	}
	if (!is_ours)
		return saved_put_in_order(s, p, line, ev);
	s->text.fields = first ? line + first->from : "";
	s->text.fields_len = first ? last->to - first->from : 0;
	return true;
}

static struct saved_proc *proc_find(struct saved_all *s, uint32_t pid)
{
	struct saved_proc *p = s->last_proc;

	if (!p || p->pid != pid)
		p = saved_proc_table__find(&s->procs, &pid);
	return p;
}

static struct saved_proc *proc_get(struct saved_all *s, uint32_t pid)
{
	struct saved_proc *p = proc_find(s, pid);

	if (!p) {
		if (hash_cnt(&s->procs) == PROCS_MAX)
			memlimit_reject(MEMLIMIT_PROCESSES);
		else
			p = memlimit_new(MEMLIMIT_PROCESSES, sizeof(*p));
		if (!p)
			return NULL;
		p->pid = pid;
		p->mem.ledger.quota = memlimit_quota(QUOTA_RANGES);
		p->captures.quota = memlimit_quota(QUOTA_CAPTURES);
		if (saved_proc_table__add(&s->procs, p)) {
			memlimit_reject(MEMLIMIT_PROCESSES);
			memlimit_free(p);
			return NULL;
		}
	}
	return s->last_proc = p;
}

static void finish_call(struct saved *s, struct trace_event *ev)
{
	struct saved_proc *p = NULL;
	bool is_memory;

	ev->kind = EVENT_CALL;
	if (!ev->lib_id)
		ev->lib_id = 1;
	ev->launch.has_config = ev->has & HAS_GRID;
	ev->has &= ~HAS_GRID;
	if (call_does(ev, DOES_LAUNCH) && ev->fn->op != OP_LAUNCH_MULTI)
		ev->has |= HAS_LAUNCH;
	if (!ev->launch.kernel_mangled)
		ev->launch.kernel_mangled = ev->launch.kernel;
	/* A missing name means the name of the function, which several symbols may share. */
	if (!strcmp(ev->name, ev->fn->name))
		ev->name = ev->fn->name;
	is_memory = ev->type == TYPE_MEMORY || ev->type == TYPE_CONTEXT || ev->type == TYPE_INIT;
	if (is_memory || ev->fn->op == OP_CAPTURE_BEGIN)
		p = proc_get(s->all, ev->pid);
	else if (ev->has & HAS_STREAM)
		p = proc_find(s->all, ev->pid);
	if (!p)
		return;
	capture_set__event(&p->captures, ev);
	if (is_memory)
		mem__event(&p->mem, ev);
}

static void finish_process(struct saved_all *s, struct trace_event *ev)
{
	struct saved_proc *p;

	ev->kind = EVENT_PROCESS;
	p = proc_find(s, ev->pid);
	if (p)
		proc_free(s, p);
}

/* Returns the kind of the event by its type, or -1. */
static int kind_of(const struct saved *s, const struct trace_event *ev,
		   const struct member *const *head)
{
	if (s->kind_of[ev->type]) /* not EVENT_CALL */
		return s->kind_of[ev->type];
	if (head[HEAD_ID])
		return EVENT_CALL;
	return ev->type == TYPE_KERNEL && head[HEAD_DEVICE] ? EVENT_DRIVER : -1;
}

static int read_event(struct saved *s, const struct json_value *p, const char *line,
		      const struct member *const *head, struct trace_event *ev, const char **why)
{
	uint64_t duration;
	bool negative;
	int kind;

	kind = kind_of(s, ev, head);
	*why = "it lacks members that events of its type have: was it changed?";
	if (kind < 0 || !head[HEAD_OP] || !head[HEAD_NAME])
		return -EINVAL;
	ev->op = member_op(s, head[HEAD_OP]);
	ev->name = member_str(s, head[HEAD_NAME]);
	if (!ev->name || !ev->op)
		return -EINVAL;
	memset(&s->text, 0, sizeof(s->text));
	if (kind == EVENT_CALL) {
		const struct member *symbol =
			head[HEAD_SYMBOL] ? head[HEAD_SYMBOL] : head[HEAD_NAME];

		ev->fn = saved_fn(s, symbol->text, symbol->val == VAL_STRING ? symbol->len : 0);
	}
	ev->api_depth = UINT_MAX;
	saved_take(s, ev, kind, p);
	if (ev->api_depth == UINT_MAX) /* written only if it differs from depth */
		ev->api_depth = ev->depth;
	duration = ev->end_ns;
	ev->start_ns = member_fixed(head[HEAD_TS], 6, &negative);
	*why = "its time is not within 146 years: was it changed?";
	if (ev->start_ns > SAVED_NS_MAX || duration > SAVED_NS_MAX ||
	    saved_time(s, ev->start_ns, false) + duration > SAVED_NS_MAX)
		return -EINVAL;
	ev->start_ns = saved_time(s, ev->start_ns, negative);
	ev->end_ns = ev->start_ns + duration;
	ev->kind = kind;
	ev->trace = s->cur ? s->cur->info.number : 0;
	ev->clock = s->cur ? s->cur->info.clock : 0;
	ev->clock_error_ns = s->cur ? s->cur->info.clock_error_ns : 0;
	ev->text = &s->text;
	if (!take_fields(s, p, line, ev)) {
		*why = "out of memory: close other programs";
		return -EINVAL;
	}
	if (kind == EVENT_CALL)
		finish_call(s, ev);
	else if (kind == EVENT_PROCESS)
		finish_process(s->all, ev);
	else if (kind == EVENT_DRIVER || kind == EVENT_SCHED)
		saved_driver(s, p, ev);
	devices__event(&s->all->devices, ev);
	if (kind == EVENT_GPU)
		ev->device = devices__find(&s->all->devices, ev->pid, ev->gpu.device);
	else if (kind == EVENT_GPU_DEVICE)
		ev->device = devices__find(&s->all->devices, ev->pid, ev->gpu_device.device);
	if (ev->end_ns > s->all->last_ns)
		s->all->last_ns = ev->end_ns;
	return SAVED_EVENT;
}

void saved__owner(const struct saved *s, const struct trace_event *ev)
{
	memlimit_set_owner(s->all, ev ? ev->pid : MEMLIMIT_TRACE);
}

int saved__line(struct saved *s, const struct json_value *p, const char *line,
		struct trace_event *ev, const char **why)
{
	const struct member *head[HEAD_CNT] = {NULL};
	const struct string *type;

	*why = "it has no \"ts\" and \"type\": it is not a line of cudatrace --jsonl";
	if (!p->is_object)
		return -EINVAL;
	for (const struct member *m = p->m; m < p->m + p->cnt; m++)
		head[s->head_of[m->key]] = m;
	if (!head[HEAD_TS] || head[HEAD_TS]->val != VAL_NUMBER || !head[HEAD_TYPE] ||
	    head[HEAD_TYPE]->val != VAL_STRING)
		return -EINVAL;
	s->pid = head[HEAD_PID] ? member_u64(head[HEAD_PID]) + s->pid_add : 0;
	memlimit_set_owner(s->all, s->pid);
	type = strings__get(s->all->types, head[HEAD_TYPE]->text, head[HEAD_TYPE]->len);
	if (!type->tag)
		return SAVED_UNKNOWN;
	switch ((uintptr_t)type->tag - 1) {
	case LINE_HEADER:
		memlimit_set_owner(s->all, MEMLIMIT_TRACE);
		return saved_header(s, p, why);
	case LINE_END:
		memlimit_set_owner(s->all, MEMLIMIT_TRACE);
		return saved_end(s, p);
	case TYPE_STACK:
		return saved_stack(s, p, why);
	default:
		memset(ev, 0, sizeof(*ev));
		ev->type = (uintptr_t)type->tag - 1;
		return read_event(s, p, line, head, ev, why);
	}
}

unsigned saved__skipped(const struct saved *s)
{
	return s->skipped;
}

const struct saved_own_end *saved__own_end(const struct saved *s)
{
	return &s->own;
}

bool saved__is_again(struct saved *s, const struct trace_event *ev)
{
	return ev->kind == EVENT_CALL && ev->id &&
	       call_ids__again(s->all->call_ids, s->cur->run, ev->id);
}

unsigned saved__segment(const struct saved *s)
{
	return s->cur ? s->cur->segment : 0;
}
