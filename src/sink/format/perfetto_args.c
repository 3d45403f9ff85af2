/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "perfetto_args.h"

#include <string.h>

#include "perfetto_fields.h"
#include "text/json_visit.h"
#include "text/stack.h"
#include "timeline.h"
#include "util/fmt.h"
#include "util/pb.h"

static struct pargs *pargs(struct visitor *v)
{
	return (struct pargs *)v;
}

/* Opens an annotation with its name; 0: no memory. */
static size_t begin(struct pargs *a, const char *name)
{
	struct out *o = a->q->packet;
	unsigned field = EVENT_DEBUG_ANNOTATIONS;
	size_t at;

	if (a->depth)
		field = a->levels[a->depth - 1].is_array ? ANNOTATION_ARRAY_VALUES
							 : ANNOTATION_DICT_ENTRIES;
	at = pb_open(o, field);
	if (name)
		pb_u64(o, ANNOTATION_NAME_IID,
		       pseq__text(a->q, INTERNED_ANNOTATION_NAMES, name, strlen(name)));
	return at;
}

static bool has_config(const struct trace_event *ev)
{
	return ev->has & HAS_LAUNCH && ev->launch.has_config;
}

/* Returns whether "launch" contains the member. Tests the first letter first, because this runs for
 * each value of each call. */
static bool is_of_launch(const char *name)
{
	switch (name[0]) {
	case 'b':
		return !strcmp(name, "block");
	case 'c':
		return !strcmp(name, "cluster");
	case 'f':
		return !strcmp(name, "func");
	case 'g':
		return !strcmp(name, "grid");
	case 's':
		return !strcmp(name, "shared_mem");
	default:
		return false;
	}
}

/* Returns whether the value is written elsewhere. The mangled name is too long to be written twice.
 */
static bool is_elsewhere(const struct pargs *a, const char *name)
{
	if (a->unrepeated)
		return true;
	if (!a->call || a->in_args || a->depth || !name)
		return false;
	return (a->is_launch && is_of_launch(name)) ||
	       (a->kernel && name[0] == 'k' && !strcmp(name, "kernel")) ||
	       (name[0] == 'k' && !strcmp(name, "kernel_mangled"));
}

static bool ends_in(const char *name, const char *end)
{
	size_t len = strlen(name), n = strlen(end);

	return len >= n && !strcmp(name + len - n, end);
}

/* Returns whether an argument repeats a field: one argument for each field. */
static bool repeats(struct pargs *a, enum event_has field, bool same)
{
	if (!same || !(a->call->has & field) || a->repeated & field)
		return false;
	a->repeated |= field;
	return true;
}

static bool may_repeat(const struct pargs *a, const char *name)
{
	return a->call && a->in_args && a->depth == 1 && name;
}

static void put_u64(struct visitor *v, const char *name, uint64_t x)
{
	struct pargs *a = pargs(v);
	size_t at;

	if (is_elsewhere(a, name) ||
	    (may_repeat(a, name) && repeats(a, HAS_SIZE, x && x == a->call->size)))
		return;
	at = begin(a, name);
	pb_u64(a->q->packet, ANNOTATION_UINT, x);
	pb_close(a->q->packet, at);
}

static void put_i64(struct visitor *v, const char *name, int64_t x)
{
	struct pargs *a = pargs(v);
	size_t at;

	if (x >= 0) {
		put_u64(v, name, x);
		return;
	}
	at = begin(a, name);
	pb_u64(a->q->packet, ANNOTATION_INT, (uint64_t)x);
	pb_close(a->q->packet, at);
}

/* Called by json_visit_number(). */
static void put_double(struct visitor *v, const char *name, double x)
{
	struct pargs *a = pargs(v);
	size_t at = begin(a, name);

	pb_f64(a->q->packet, ANNOTATION_DOUBLE, x);
	pb_close(a->q->packet, at);
}

static void put_string(struct pargs *a, const char *name, const char *s, size_t len);

/* In an array it keeps the position of later values. */
static void put_none(struct visitor *v, const char *name)
{
	struct pargs *a = pargs(v);

	if (!a->unrepeated && a->depth && a->levels[a->depth - 1].is_array)
		put_string(a, name, "null", 4);
}

/* Writes as many digits as JSON has, because a saved trace has no more. */
static void put_f64(struct visitor *v, const char *name, double x)
{
	static const struct visitor_ops number_ops = {
		.u64 = put_u64,
		.i64 = put_i64,
		.f64 = put_double,
		.none = put_none,
	};
	const struct visitor_ops *ops = v->ops;
	struct out *o = pargs(v)->scratch;
	size_t at = o->len;

	if (is_elsewhere(pargs(v), name))
		return;
	out_f64(o, x);
	v->ops = &number_ops;
	if (o->buf[at] != 'n')
		json_visit_number(o->buf + at, o->len - at, name, v);
	v->ops = ops;
	o->len = at;
}

static void put_hex(struct visitor *v, const char *name, uint64_t x)
{
	struct pargs *a = pargs(v);
	const struct trace_event *ev = a->call;
	size_t at;

	if (is_elsewhere(a, name))
		return;
	if (may_repeat(a, name) &&
	    (repeats(a, HAS_PTR, x && x == ev->ptr) ||
	     repeats(a, HAS_STREAM, x == ev->stream && ends_in(name, "tream")) ||
	     repeats(a, HAS_CU_EVENT, x == ev->cu_event && ends_in(name, "vent"))))
		return;
	at = begin(a, name);
	pb_u64(a->q->packet, ANNOTATION_POINTER, x);
	pb_close(a->q->packet, at);
}

static void put_iid(struct pargs *a, const char *name, uint64_t iid)
{
	size_t at = begin(a, name);

	pb_u64(a->q->packet, ANNOTATION_STRING_IID, iid);
	pb_close(a->q->packet, at);
}

static void put_string(struct pargs *a, const char *name, const char *s, size_t len)
{
	put_iid(a, name, pseq__text(a->q, INTERNED_ANNOTATION_STRINGS, s, len));
}

static void put_bool(struct visitor *v, const char *name, bool x)
{
	struct pargs *a = pargs(v);
	size_t at;

	if (is_elsewhere(a, name))
		return;
	at = begin(a, name);
	pb_u64(a->q->packet, ANNOTATION_BOOL, x);
	pb_close(a->q->packet, at);
}

/* As in json.c, a cut text also has a member NAME_cut. */
static void put_text(struct visitor *v, const char *name, const char *s, size_t len, bool cut)
{
	struct pargs *a = pargs(v);
	char flag[64];
	uint64_t x;
	size_t n;

	if (is_elsewhere(a, name))
		return;
	/* In a saved trace it could not be distinguished from a number. */
	if (json_is_hex(s, len, &x))
		put_hex(v, name, x);
	else
		put_string(a, name, s, len);
	if (!cut || !name)
		return;
	n = strnlen(name, sizeof(flag) - sizeof("_cut"));
	memcpy(flag, name, n);
	memcpy(flag + n, "_cut", sizeof("_cut"));
	put_bool(v, flag, true);
}

static void put_sym(struct visitor *v, const char *name, const char *s)
{
	put_text(v, name, s, strlen(s), false);
}

static void put_bytes(struct visitor *v, const char *name, const uint8_t *s, size_t len)
{
	struct pargs *a = pargs(v);
	struct out *o = a->scratch;
	size_t at = o->len;

	for (size_t i = 0; i < len; i++)
		out_bytes(o, fmt_hex2 + 2 * s[i], 2);
	put_text(v, name, o->buf + at, o->len - at, false);
	o->len = at;
}

static void open_level(struct pargs *a, const char *name, bool is_array)
{
	size_t at;

	/* Our own values are never that deep. */
	if (is_elsewhere(a, name) || a->depth == PARGS_DEPTH) {
		a->unrepeated++;
		return;
	}
	at = begin(a, name);
	a->levels[a->depth++] = (struct pargs_level){at, a->q->packet->len, is_array};
}

static void put_open(struct visitor *v, const char *name)
{
	struct pargs *a = pargs(v);

	open_level(a, name, false);
}

static void put_open_array(struct visitor *v, const char *name)
{
	open_level(pargs(v), name, true);
}

/* An empty object is null: an annotation without a value has no meaning. */
static void put_close(struct visitor *v)
{
	struct pargs *a = pargs(v);
	struct pargs_level *l;

	if (a->unrepeated) {
		a->unrepeated--;
		return;
	}
	l = &a->levels[--a->depth];
	if (a->q->packet->len == l->empty) {
		a->q->packet->len = l->at - 2; /* including its tag and its length */
		put_none(v, NULL);
	} else {
		pb_close(a->q->packet, l->at);
	}
}

static void put_raw(struct visitor *v, const char *text, size_t len)
{
	struct pargs *a = pargs(v);

	json_visit(text, len, a->scratch, v);
}

static const struct visitor_ops pargs_ops = {
	.u64 = put_u64,
	.i64 = put_i64,
	.f64 = put_f64,
	.hex = put_hex,
	.sym = put_sym,
	.text = put_text,
	.bytes = put_bytes,
	.none = put_none,
	.open = put_open,
	.close = put_close,
	.open_array = put_open_array,
	.close_array = put_close,
	.raw = put_raw,
	.boolean = put_bool,
};

void pargs__init(struct pargs *a, struct pseq *q, struct out *scratch)
{
	a->v.ops = &pargs_ops;
	a->q = q;
	a->scratch = scratch;
	a->call = NULL;
	a->kernel = 0;
	a->repeated = a->unrepeated = a->depth = 0;
	a->is_launch = a->in_args = false;
	scratch->len = 0;
}

static char *put_dim(char *p, const uint32_t dim[3])
{
	*p++ = '(';
	for (int i = 0; i < 3; i++) {
		p = fmt_u64(p, dim[i]);
		*p++ = i < 2 ? ',' : ')';
	}
	return p;
}

/* cuLaunchKernel<<<(1024,1,1), (128,1,1), 0>>>, as in a CUDA program: a program has few different
 * configurations, so a launch usually needs just the number of the text. */
static void put_launch(struct pargs *a, const struct trace_event *ev)
{
	const struct launch_info *l = &ev->launch;
	size_t len = strnlen(ev->name, 64);
	char buf[256], *p = buf;

	memcpy(p, ev->name, len);
	p += len;
	memcpy(p, "<<<", 3);
	p = put_dim(p + 3, l->grid);
	memcpy(p, ", ", 2);
	p = put_dim(p + 2, l->block);
	memcpy(p, ", ", 2);
	p = fmt_u64(p + 2, l->shared_mem_sz);
	memcpy(p, ">>>", 3);
	p += 3;
	if (l->cluster[0] | l->cluster[1] | l->cluster[2]) {
		memcpy(p, " cluster ", 9);
		p = put_dim(p + 9, l->cluster);
	}
	put_string(a, "launch", buf, p - buf);
}

/* Outermost first, as in flame graphs. */
static void put_stack(struct pargs *a, const struct stack *s)
{
	struct out *o = a->scratch;
	char buf[256];

	o->len = 0;
	for (unsigned i = s->frame_cnt; i > 0; i--) {
		out_str(o, stack_frame_name(&s->frames[i - 1], buf, sizeof(buf)));
		if (i > 1)
			out_char(o, ';');
	}
	put_string(a, "stack", o->buf, o->len);
	o->len = 0;
}

void pargs__call(struct pargs *a, const struct trace_event *ev, uint64_t kernel)
{
	a->call = ev;
	a->kernel = kernel;
	a->is_launch = has_config(ev);
	if (a->is_launch)
		put_launch(a, ev);
	else if (ev->kind == EVENT_CALL && timeline_kernel(ev))
		put_string(a, "call", ev->name, strlen(ev->name));
	if (kernel)
		put_iid(a, "kernel", kernel);
	event_visit_fields(ev, &a->v);
	if (ev->kind == EVENT_CALL || ev->kind == EVENT_CTXSW)
		timeline_result(ev, &a->v, false);
	if (ev->stack && ev->stack->frame_cnt)
		put_stack(a, ev->stack);
	if (!ev->fn || !event_has_args(ev) || a->is_launch)
		return;
	put_open(&a->v, "args");
	a->in_args = true;
	event_visit_args(ev, &a->v);
	a->in_args = false;
	put_close(&a->v);
}
