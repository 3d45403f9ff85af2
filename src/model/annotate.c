/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "annotate.h"

#include "collective.h"
#include "annotate_priv.h"

#include <string.h>

static bool type_is(const struct api_arg *arg, const char *name)
{
	return !strcmp(arg->type->name, name);
}

static bool is_kernel_handle(const struct api_arg *arg)
{
	return type_is(arg, "CUfunction") || type_is(arg, "CUkernel");
}

static enum lookup find_lookup(const struct api_fn *fn)
{
	const struct api_arg *a = fn->args;

	if (fn->op != OP_LOOKUP || fn->arg_cnt < 2)
		return LOOKUP_NONE;
	if (a[0].dir == DIR_OUT_PSTR && is_kernel_handle(&a[1]))
		return LOOKUP_NAME_OF;
	if (a[0].dir != DIR_OUT || !is_kernel_handle(&a[0]))
		return LOOKUP_NONE;
	if (a[1].dir == DIR_IN && is_kernel_handle(&a[1]))
		return LOOKUP_TRANSLATE;
	return fn->arg_cnt > 2 && a[2].dir == DIR_IN_STR ? LOOKUP_BY_NAME : LOOKUP_NONE;
}

/* Functions of class interop map and register resources of other APIs too. */
static bool has_ptr_arg(const struct api_fn *fn)
{
	return op_does(fn->op, HAS_PTR_ARG) &&
	       (fn->class == CLASS_MEMORY || fn->class == CLASS_TRANSFER);
}

void annotate__init(struct annotations *m, const struct api_fn *fn)
{
	memset(m, 0, sizeof(*m));
	m->fn = fn;
	m->type = event_type_of(fn->class);
	m->lookup = find_lookup(fn);
	m->stream = m->cu_event = m->func = m->ptr = -1;
	m->params = api_arg_by_name(fn, "kernelParams");
	m->size = api_fn_bytes_arg(fn);
	m->unloads = api_fn_unloads(fn);
	m->plain = fn->class == CLASS_LAUNCH || fn->class == CLASS_TRANSFER ||
		   fn->class == CLASS_STREAM || fn->class == CLASS_EVENT || fn->class == CLASS_SYNC;
	memset(m->value_word, -1, sizeof(m->value_word));
	for (int i = 0; i < fn->arg_cnt && i < API_ARGS_MAX; i++) {
		const struct api_arg *arg = &fn->args[i];
		bool one = arg->dir == DIR_IN || arg->dir == DIR_OUT;

		m->cap[i] = api_arg_cap(fn, i);
		m->word[i] = api_arg_word(fn, i);
		if (arg->dir == DIR_IN && arg->type->size && arg->type->size <= 8) {
			m->value_word[i] = m->word[i];
			m->value_shift[i] = 64 - 8 * arg->type->size;
		}
		if (m->stream < 0 && one && type_is(arg, "CUstream"))
			m->stream = i;
		if (m->cu_event < 0 && one && type_is(arg, "CUevent"))
			m->cu_event = i;
		if (m->func < 0 && arg->dir == DIR_IN && type_is(arg, "CUfunction"))
			m->func = i;
	}
	if (fn->class == CLASS_COLLECTIVE)
		collective__init(m);
	if (has_ptr_arg(fn) && (fn->args[0].dir == DIR_IN || fn->args[0].dir == DIR_OUT))
		m->ptr = 0;
}

bool event_any_arg(const struct annotations *m, const struct trace_event *ev, int arg,
		   uint64_t *val)
{
	const struct api_arg *a;
	unsigned size;

	if (arg < 0 || arg >= m->fn->arg_cnt || arg >= API_ARGS_MAX)
		return false;
	a = &m->fn->args[arg];
	size = a->type->size;
	if (size > sizeof(*val))
		return false;
	if (a->dir == DIR_IN) {
		if (m->word[arg] < 0 || (unsigned)m->word[arg] >= ev->word_cnt)
			return false;
		*val = ev->words[m->word[arg]];
		/* Bits above the value's size are undefined in the ABI. */
		if (size < sizeof(*val))
			*val &= (1ULL << 8 * size) - 1;
		return true;
	}
	*val = 0;
	if (m->cap[arg] < 0 || (unsigned)m->cap[arg] >= ev->cap_cnt)
		return false;
	if (ev->caps[m->cap[arg]].len < (int)size)
		return false;
	memcpy(val, ev->caps[m->cap[arg]].data, size);
	return true;
}

bool event_arg_by_name(const struct annotations *m, const struct trace_event *ev, const char *name,
		       uint64_t *val)
{
	return event_arg(m, ev, api_arg_by_name(m->fn, name), val);
}

static const struct kernel_name *
captured_name(const struct annotations *m, const struct trace_event *ev, struct proc *p, int arg)
{
	const struct pointee *c;
	size_t len;

	if (m->cap[arg] < 0 || (unsigned)m->cap[arg] >= ev->cap_cnt)
		return NULL;
	c = &ev->caps[m->cap[arg]];
	if (c->len <= 1)
		return NULL;
	len = strnlen((const char *)c->data, c->len);
	return len ? kernel_name__intern(&p->handles, (const char *)c->data, len) : NULL;
}

static void learn_names(const struct annotations *m, struct trace_event *ev, struct proc *p)
{
	const struct kernel_name *name = NULL;
	const struct handle *known = NULL;
	bool guessed = false;
	uint64_t handle, other;

	kernel_names__collect(p->handles.names);
	switch (m->lookup) {
	case LOOKUP_BY_NAME:
		name = captured_name(m, ev, p, 2);
		if (!ev->result && event_arg(m, ev, 0, &handle)) {
			handles__set(&p->handles, handle, name);
			known = name ? handles__get(&p->handles, handle) : NULL;
		}
		if (known) /* the complete value, even if the record truncated it */
			name = known->name;
		break;
	case LOOKUP_NAME_OF:
		name = captured_name(m, ev, p, 0);
		if (!ev->result && event_arg(m, ev, 1, &handle))
			handles__set(&p->handles, handle, name);
		break;
	case LOOKUP_TRANSLATE:
		if (!event_arg(m, ev, 1, &other))
			break;
		known = handles__get(&p->handles, other);
		if (!known)
			break;
		name = known->name;
		guessed = known->guessed;
		if (!ev->result && event_arg(m, ev, 0, &handle))
			handles__derive(&p->handles, handle, known);
		break;
	case LOOKUP_NONE:
		return;
	}
	if (name)
		name_kernel(ev, name, guessed);
}

static void apply_streams(const struct annotations *m, struct trace_event *ev, struct proc *p)
{
	if (event_arg(m, ev, m->cu_event, &ev->cu_event))
		ev->has |= HAS_CU_EVENT;
	if (event_arg(m, ev, m->stream, &ev->stream))
		ev->has |= HAS_STREAM;
	/* Some launches pass their stream in a struct. */
	if (m->fn->class == CLASS_LAUNCH)
		annotate_launch(m, ev, p);
	capture_set__event(&p->captures, ev);
}

void annotate__apply(const struct annotations *m, struct trace_event *ev, struct proc *p)
{
	ev->type = m->type;
	ev->op = api_op_name(m->fn->op);
	if (!event_returned(ev))
		ev->result = 0; /* the BPF program recorded no result */
	if (event_arg(m, ev, m->size, &ev->size))
		ev->has |= HAS_SIZE;
	if (event_arg(m, ev, m->ptr, &ev->ptr))
		ev->has |= HAS_PTR;
	apply_streams(m, ev, p);
	switch (m->fn->class) {
	case CLASS_MEMORY:
		annotate_memory(m, ev, p);
		break;
	case CLASS_INIT:
	case CLASS_CONTEXT:
		mem__event(&p->mem, ev);
		break;
	case CLASS_TRANSFER:
		annotate_transfer(m, ev, p);
		break;
	case CLASS_MODULE:
		learn_names(m, ev, p);
		if (m->fn->op == OP_LOOKUP)
			mem__learn(&p->mem, ev);
		break;
	case CLASS_GRAPH:
		if (m->fn->op == OP_ADD)
			mem__learn(&p->mem, ev);
		break;
	case CLASS_INTEROP:
		if (m->fn->op == OP_MAP || m->fn->op == OP_LOOKUP)
			mem__learn(&p->mem, ev);
		break;
	case CLASS_BLAS:
		if (m->fn->op == OP_GEMM || m->fn->op == OP_MATMUL)
			annotate_gemm(m, ev, p);
		break;
	}
	if (m->unloads)
		handles__unloaded(&p->handles);
	if (ev->capturing)
		ev->has &= ~HAS_BANDWIDTH;
}
