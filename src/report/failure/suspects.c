/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Work that may be the cause of a fault: all that was not known to have completed. */
#include "failure_priv.h"

#include <stdio.h>
#include <string.h>

#include "decode/api_values.h"
#include "decode/cuda.h"
#include "model/call.h"
#include "text/kernel_name.h"
#include "text/numbers.h"

#define NAME_MAX_LEN 120

bool fault_is(const struct api_fn *fn, int32_t result, enum fault_work *of)
{
	static const struct {
		int32_t result;
		enum fault_work of;
	} faults[] = {
#define FAULT(result, of, what, advice) {CUDA_ERROR_##result, FAULT_OF_##of},
#include "faults.def"
	};
	const char *name = fn_result_name(fn, result);

	/* Other libraries have their own result numbers. */
	if (!name || strncmp(name, "CUDA_", 5))
		return false;
	for (unsigned i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
		if (faults[i].result != result)
			continue;
		*of = faults[i].of;
		return true;
	}
	return false;
}

bool failure_is_sticky(const struct api_fn *fn, int32_t result)
{
	enum fault_work of;

	/* The driver returns UNKNOWN also when it cannot be initialised. */
	return result && fn->class != CLASS_INIT && fault_is(fn, result, &of);
}

bool runs_code(const struct work *x)
{
	return op_does(x->fn->op, DOES_LAUNCH) || op_does(x->fn->op, DOES_LAUNCH_GRAPH);
}

/* Host functions and memory operations of streams cannot break a context. */
static bool can_fault(const struct work *x, enum fault_work of)
{
	return runs_code(x) || (of == FAULT_OF_ANY && op_does(x->fn->op, DOES_SUBMIT));
}

struct listing {
	struct fail_case *c;
	struct inflight *work;
	enum fault_work of;
	unsigned likely; /* list those with this inflight__likely() */
};

static void list_suspect(void *ctx, const struct work *x)
{
	struct listing *l = ctx;
	struct fail_case *c = l->c;
	struct work copy = *x;

	if (!can_fault(x, l->of) || inflight__likely(l->work, &copy) != l->likely ||
	    x->start_ns > c->end_ns ||
	    !inflight_in_context(l->work, &l->work->streams[x->stream], c->ctx))
		return;
	c->suspect_cnt++;
	if (c->listed_cnt == SUSPECTS_MAX)
		return;
	c->suspects[c->listed_cnt++] = copy;
}

void suspects_of_fault(struct failure *f, struct fail_case *c, enum fault_work of)
{
	struct fail_proc *p = fail_proc_get(f, c->pid);
	struct listing l = {c, p ? &p->work : NULL, of, LIKELY_MAX + 1};

	c->partial = !p || inflight_is_partial(&p->work);
	if (!p)
		return;
	inflight__note_completed(&p->work);
	/* A kernel that has completed before is the less likely cause. The driver checks the ranges
	 * of copies, so they are the least likely one. */
	while (l.likely--)
		inflight__each(&p->work, list_suspect, &l);
}

static void drop_older(struct fail_case *c, const struct work *ran)
{
	unsigned kept = 0;

	for (unsigned i = 0; i < c->listed_cnt; i++) {
		const struct work *x = &c->suspects[i];

		if (x->stream == ran->stream && x->number <= ran->number)
			c->suspect_cnt--;
		else
			c->suspects[kept++] = *x;
	}
	c->listed_cnt = kept;
}

/* Those that were not listed are not known: lists the suspects again, if there still are some. */
static void list_again(struct failure *f, struct fail_case *c)
{
	struct fail_case again = *c;
	enum fault_work of;

	again.suspect_cnt = again.listed_cnt = 0;
	if (!fault_is(c->fn, c->result, &of))
		return;
	suspects_of_fault(f, &again, of);
	again.partial |= c->partial;
	if (again.suspect_cnt)
		*c = again;
}

void suspects_ran(struct failure *f, const struct trace_event *ev)
{
	struct fail_proc *p = fail_proc_get(f, ev->pid);
	bool is_new = p && inflight__ran(&p->work, ev->gpu.call_id);

	for (unsigned i = 0; i < f->cnt; i++) {
		struct fail_case *c = &f->cases[i];

		if (c->kind != CASE_FAULT || c->pid != ev->pid || ev->end_ns > c->end_ns)
			continue;
		if (c->suspect_cnt > c->listed_cnt) {
			if (is_new)
				list_again(f, c);
			continue;
		}
		for (unsigned k = 0; k < c->listed_cnt; k++) {
			if (c->suspects[k].id != ev->gpu.call_id)
				continue;
			struct work ran = c->suspects[k];

			drop_older(c, &ran);
			break;
		}
	}
}

static bool starts_with(const char *s, const char *prefix)
{
	return !strncmp(s, prefix, strlen(prefix));
}

/* Frames of the CUDA runtime and the compiler's stubs: every launch has them. */
static bool is_runtime(const struct stack_frame *x)
{
	static const char *const functions[] = {"cuda", "__cuda", "libcudart_static_",
						"__device_stub__"};
	static const char *const modules[] = {"libcuda.so", "libcudart.so", "libcudart-"};
	const char *slash = x->module ? strrchr(x->module, '/') : NULL;

	for (unsigned i = 0; x->symbol && i < sizeof(functions) / sizeof(functions[0]); i++)
		if (starts_with(x->symbol, functions[i]))
			return true;
	for (unsigned i = 0; slash && i < sizeof(modules) / sizeof(modules[0]); i++)
		if (starts_with(slash + 1, modules[i]))
			return true;
	return false;
}

static bool is_library(const struct stack_frame *x)
{
	return x->module &&
	       (strstr(x->module, "/site-packages/") || strstr(x->module, "/dist-packages/"));
}

static const struct stack_frame *python_frame(const struct stack *s)
{
	const struct stack_frame *first = NULL;

	for (unsigned i = 0; i < s->frame_cnt; i++) {
		const struct stack_frame *x = &s->frames[i];

		if (!x->python || !x->symbol)
			continue;
		if (!is_library(x))
			return x;
		first = first ?: x;
	}
	return first;
}

/* The host function of the kernel's name, which the compiler makes. */
static bool is_stub(const struct stack_frame *x, const char *kernel)
{
	size_t len = kernel ? strlen(kernel) : 0;

	return kernel && !strncmp(x->symbol, kernel, len) &&
	       (!x->symbol[len] || x->symbol[len] == '+');
}

static const struct stack_frame *native_frame(const struct stack *s, const char *kernel)
{
	for (unsigned i = 0; i < s->frame_cnt; i++) {
		const struct stack_frame *x = &s->frames[i];

		if (x->symbol && !x->python && !is_runtime(x) && !is_stub(x, kernel))
			return x;
	}
	return NULL;
}

void stack_place(const struct stack *stack, const char *operator, const char * kernel, char *buf,
		 size_t size)
{
	const struct stack_frame *x = stack ? python_frame(stack) : NULL;
	const char *slash, *plus;
	size_t n = 0;

	buf[0] = 0;
	if (operator)
		n = snprintf(buf, size, "%s", operator);
	if (n >= size || !stack)
		return;
	if (x) {
		slash = x->module ? strrchr(x->module, '/') : NULL;
		snprintf(buf + n, size - n, "%s%s:%u %s", n ? ", " : "",
			 slash	     ? slash + 1
			 : x->module ? x->module
				     : "?",
			 x->line, x->symbol);
		return;
	}
	x = native_frame(stack, kernel);
	if (!x)
		return;
	plus = strrchr(x->symbol, '+');
	snprintf(buf + n, size - n, "%s%.*s", n ? ", " : "",
		 (int)(plus ? (size_t)(plus - x->symbol) : strlen(x->symbol)), x->symbol);
}

void submission_name(const struct work *x, char *buf, size_t size)
{
	const char *name;
	size_t len;

	if (x->kernel) {
		len = strlen(x->kernel);
		name = len > NAME_MAX_LEN ? kernel_short_name(x->kernel, &len) : x->kernel;
		snprintf(buf, size, "%.*s", (int)(len < NAME_MAX_LEN ? len : NAME_MAX_LEN), name);
	} else if (op_does(x->fn->op, DOES_LAUNCH)) {
		snprintf(buf, size, "a kernel without a name (%s)", x->fn->name);
	} else if (op_does(x->fn->op, DOES_LAUNCH_GRAPH)) {
		snprintf(buf, size, "a graph (%s)", x->fn->name);
	} else if (x->size) {
		snprintf(buf, size, "%s of %s", x->fn->name, HUMAN_BYTES(x->size));
	} else {
		snprintf(buf, size, "%s", x->fn->name);
	}
}
