/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Passes raw calls, laid out like in bpf/call.bpf.h by the function's spec, through a model:
 *
 *   ev = CALL(&rig, "cuMemAlloc_v2", {"dptr", 0x7f00}, {"bytesize", 512});
 *
 * Arguments that are not named are 0; out-parameters that are not named count as unreadable.
 */
#ifndef TESTS_TEST_MODEL_H
#define TESTS_TEST_MODEL_H

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ct_record.h"
#include "record/check.h"
#include "decode/fnset.h"
#include "decode/value.h"
#include "model/model.h"

#define RIG_PID 4000000 /* above the usual pid_max, so no such process exists */

struct rig {
	struct fnset *fns;
	struct model *m;
	/* for the next call; reset after it */
	uint32_t pid, tid;
	int32_t result;
	uint16_t flags;
	uint64_t dur_ns;
	uint32_t depth;	    /* depth among recorded calls; parent is the id of the innermost */
	uint32_t api_depth; /* depth among calls of the same API family */
	uint64_t parent;
	/* the last event, and their number */
	struct trace_event ev;
	char comm[32];
	unsigned cnt;
	uint64_t now_ns, next_id;
	/* called with each event while it is complete; may be NULL */
	void (*peek)(const struct trace_event *ev);
};

/* A test names only the relevant arguments. */
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

struct val {
	const char *name; /* of the argument */
	uint64_t num;
	const char *str;  /* string captures */
	const void *data; /* other captures: len bytes */
	int len;	  /* negative: -errno */
	bool next;	  /* the capture after the argument's: CUlaunchConfig.attrs */
};

static inline void rig_on_event(void *ctx, const struct trace_event *ev)
{
	struct rig *r = ctx;

	if (r->peek)
		r->peek(ev);
	r->ev = *ev;
	r->cnt++;
	memset(r->comm, 0, sizeof(r->comm));
	if (ev->comm)
		strncpy(r->comm, ev->comm, sizeof(r->comm) - 1);
	/* The model need not keep these; a sink must copy them. */
	r->ev.comm = r->comm;
	r->ev.words = NULL;
	memset(r->ev.caps, 0, sizeof(r->ev.caps));
}

static inline void rig_defaults(struct rig *r)
{
	r->pid = r->tid = RIG_PID;
	r->result = 0;
	r->flags = 0;
	r->dur_ns = 1000;
	r->depth = r->api_depth = r->parent = 0;
}

static inline void rig_open(struct rig *r, bool live, uint64_t min_duration_ns)
{
	struct model_opts opts = {.fn = rig_on_event,
				  .ctx = r,
				  .stub_func_id = CT_MAX_FUNCS - 1,
				  .live = live,
				  .min_duration_ns = min_duration_ns};

	memset(r, 0, sizeof(*r));
	r->fns = fnset__new();
	assert_non_null(r->fns);
	opts.fns = r->fns;
	r->m = model__new(&opts);
	assert_non_null(r->m);
	r->now_ns = 1000000000;
	r->next_id = 1;
	rig_defaults(r);
}

static inline void rig_close(struct rig *r)
{
	model__free(r->m);
	fnset__free(r->fns);
}

/* Passes the record in a block of exactly its size. */
static inline void rig_record(struct rig *r, const void *data, size_t size)
{
	void *copy = malloc(size);
	struct raw raw;

	assert_non_null(copy);
	memcpy(copy, data, size);
	assert_int_equal(raw_check(copy, size, 0, &raw), 0);
	model__record(r->m, &raw);
	free(copy);
}

/* The record that the probes would make of the values: words, and captures by index. */
struct rig_layout {
	uint64_t words[CT_MAX_WORDS];
	const void *data[CT_MAX_CAPS];
	int len[CT_MAX_CAPS];
	uint64_t nums[CT_MAX_CAPS];
};

static inline void rig_put(struct rig_layout *l, const struct api_fn *fn, const struct val *v)
{
	int arg = api_arg_by_name(fn, v->name), cap, word;

	if (arg < 0)
		fail_msg("%s has no argument %s", fn->symbol, v->name);
	cap = api_arg_cap(fn, arg);
	word = api_arg_word(fn, arg);
	if (fn->args[arg].dir == DIR_IN) {
		assert_true(word >= 0);
		if (v->data)
			memcpy(&l->words[word], v->data, v->len);
		else
			l->words[word] = v->num;
		return;
	}
	assert_true(cap >= 0 && word >= 0);
	l->words[word] = 0x7ffd00000000 + 64 * arg; /* the target of the pointer does not matter */
	cap += v->next;
	if (v->str) {
		l->data[cap] = v->str;
		l->len[cap] = strlen(v->str) + 1;
	} else if (v->data || v->len) {
		l->data[cap] = v->data;
		l->len[cap] = v->len;
	} else {
		l->nums[cap] = v->num;
		l->data[cap] = &l->nums[cap];
		l->len[cap] = fn->args[arg].type->size;
	}
}

static inline const struct trace_event *rig_send(struct rig *r, const char *symbol,
						 const struct rig_layout *l)
{
	int id = fnset__id(r->fns, symbol);
	_Alignas(8) uint8_t buf[sizeof(struct ct_call) + CT_MAX_CAPS * CT_CAP_SZ_MAX] = {0};
	struct ct_call *c = (struct ct_call *)buf;
	struct ct_spec spec;
	size_t off;

	assert_true(id >= 0);
	api_fn_spec(fnset__fn(r->fns, id), &spec);
	c->rec.kind = CT_REC_CALL;
	c->rec.flags = r->flags;
	c->rec.ts_ns = r->now_ns += 1000;
	c->rec.pid = r->pid;
	c->rec.tid = r->tid;
	c->end_ns = r->now_ns += r->dur_ns;
	c->call_id = r->next_id++;
	c->func_id = id;
	c->lib_id = 1;
	c->depth = r->depth;
	c->api_depth = r->api_depth;
	c->parent_id = r->parent;
	c->result = r->result;
	c->word_cnt = spec.word_cnt;
	off = CT_CALL_FIXED_SZ + 8 * spec.word_cnt;
	memcpy(c->words, l->words, 8 * spec.word_cnt);
	for (unsigned i = 0; !r->flags && i < spec.cap_cnt; i++) {
		int len = l->data[i] || l->len[i] < 0 ? l->len[i] : -EFAULT;

		c->cap_cnt = i + 1;
		if (r->result && spec.caps[i].flags & CT_CAP_F_ON_SUCCESS)
			continue;
		c->cap_len[i] = len;
		if (len <= 0)
			continue;
		memcpy(buf + off, l->data[i], len);
		off += (len + 7) & ~7;
	}
	c->rec.size = off;
	rig_defaults(r);
	rig_record(r, buf, off);
	return &r->ev;
}

static inline const struct trace_event *rig_call(struct rig *r, const char *symbol,
						 const struct val *vals)
{
	const struct api_fn *fn = api_fn_by_symbol(symbol);
	struct rig_layout l = {0};

	if (!fn)
		fail_msg("no row for %s", symbol);
	for (; vals->name; vals++)
		rig_put(&l, fn, vals);
	return rig_send(r, symbol, &l);
}

#define CALL(rig, symbol, ...) rig_call(rig, symbol, (const struct val[]){__VA_ARGS__, {0}})
/* A call whose arguments do not matter. */
#define CALL0(rig, symbol) rig_call(rig, symbol, (const struct val[]){{0}})

static inline void rig_task(struct rig *r, int kind, uint32_t parent_pid, int32_t exit_code,
			    const char *comm)
{
	struct ct_task t = {.rec = {.size = sizeof(t), .kind = kind, .pid = r->pid, .tid = r->tid},
			    .parent_pid = parent_pid,
			    .exit_code = exit_code};

	t.rec.ts_ns = r->now_ns += 1000;
	for (unsigned i = 0; i < sizeof(t.comm) && comm[i]; i++)
		t.comm[i] = comm[i];
	rig_defaults(r);
	rig_record(r, &t, sizeof(t));
}

#endif /* TESTS_TEST_MODEL_H */
